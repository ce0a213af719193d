"""Wrong input: a message that names the mistake, exit status 2, nothing started or left over."""

import importlib.util
import os

import pytest

GOOD = {
    "run": "GeoffPAC",
    "env": "TwoCircle-v0",
    "stop": "{training_iteration: 1}",
    "config": "{module: tabular, optimizer_type: sgd}",
}


def experiment(**changes) -> str:
    """A good experiment with some keys changed; None leaves one out."""
    keys = {**GOOD, **changes}
    return "exp:\n" + "".join(f"  {k}: {v}\n" for k, v in keys.items() if v is not None)


def file(text: str, *options: str, name: str = "exp.yaml"):
    return {"files": {name: text}, "arguments": ["train", "file", name, *options]}


def options(*arguments: str):
    return {"files": {}, "arguments": list(arguments)}


PPO = ("train", "--algo", "PPO", "--env", "CartPole-v1")

# What needs no RLlib: answered within a second, tested as a subprocess.
QUICK = {
    "file missing": (options("train", "file", "none.yaml"), ["none.yaml", "does not exist"]),
    "file is a folder": (options("train", "file", "."), ["is a folder"]),
    "unknown kind of file": (file("x: 1", name="exp.txt"), [".yaml", ".py"]),
    "not YAML": (file("exp:\n  run: [PPO"), ["not valid YAML", "line"]),
    "not UTF-8": (file("exp: \udcff"), ["not valid YAML", "UTF-8"]),
    "empty file": (file(""), ["is empty"]),
    "a list instead of a mapping": (file("- run: PPO"), ["mapping", "list"]),
    "no name above the experiment": (file("run: PPO\nenv: CartPole-v1"), ["indent"]),
    "a tag that would run code": (
        file("exp: {run: !!python/object/apply:os.system ['touch owned']}"),
        ["tag", "refused", "package.module:name"],
    ),
    "a custom tag": (file("exp: {run: !env PPO}"), ["tag", "refused"]),
    "a key given twice": (file("exp:\n  run: PPO\n  run: SAC"), ["'run'", "line 2"]),
    "a recursive document": (file("exp: &a {run: PPO, config: *a}"), ["nested"]),
    "Tune's eval": (file(experiment(config="{lr: {eval: '1+1'}}")), ["eval", "code"]),
    "unknown top-level key": (file(experiment(stopp="{}")), ["'stopp'", "'stop'"]),
    "old top-level key": (file(experiment(checkpoint_freq=1)), ["checkpoint_frequency"]),
    "run missing": (file(experiment(run=None)), ["'run'", "missing"]),
    "unknown algorithm": (file(experiment(run="GeofPAC")), ["'GeofPAC'", "'GeoffPAC'"]),
    "no environment": (options("train", "--algo", "PPO"), ["environment", "--env"]),
    "neither algorithm nor file": (options("train", "--env", "CartPole-v1"), ["--algo", "file"]),
    "num_workers": (options(*PPO, "--set", "num_workers=2"), ["num_workers", "num_env_runners"]),
    "num_gpus": (options(*PPO, "--set", "num_gpus=1"), ["num_gpus_per_learner"]),
    "framework tf": (options(*PPO, "--set", "framework=tf2"), ["'tf2'", "torch"]),
    "the old API stack": (
        options(*PPO, "--set", "enable_rl_module_and_learner=false"),
        ["new API stack"],
    ),
    "timesteps_total": (
        options(*PPO, "--stop", "{timesteps_total: 100}"),
        ["num_env_steps_sampled_lifetime"],
    ),
    "episode_reward_mean": (
        options(*PPO, "--stop", "{episode_reward_mean: 100}"),
        ["env_runners/episode_return_mean"],
    ),
    "a stop key that no result contains": (
        options(*PPO, "--stop", "{training_iterations: 3}"),
        ["'training_iterations'", "'training_iteration'"],
    ),
    "a nested stop key that no result contains": (
        options(*PPO, "--stop", "{env_runners/episode_return: 3}"),
        ["episode_return_mean"],
    ),
    "J_pi without evaluation": (
        options(*PPO, "--stop", "{evaluation/env_runners/episode_return_mean: 3}"),
        ["evaluation_interval"],
    ),
    "J_pi of an algorithm that does not measure it": (
        options(
            *PPO, "--set", "evaluation_interval=1", "--stop", "{evaluation/env_runners/j_pi: 3}"
        ),
        ["no result of PPO"],
    ),
    "a stop value that is text": (
        options(*PPO, "--stop", "{training_iteration: soon}"),
        ["number"],
    ),
    "a stop value that is not finite": (
        options(*PPO, "--stop", "{training_iteration: .inf}"),
        ["finite"],
    ),
    "a stop value that every result has passed": (
        options(*PPO, "--stop", "{training_iteration: -1}"),
        ["training_iteration", "-1", ">= 0"],
    ),
    "--stop is no mapping": (options(*PPO, "--stop", "100"), ["--stop", "mapping"]),
    "--config is no YAML": (options(*PPO, "--config", "{lr: "), ["--config", "not valid YAML"]),
    "--set without a value": (options(*PPO, "--set", "lr"), ["key=value"]),
    "--set into a number": (
        options(*PPO, "--set", "lr=1", "--set", "lr.a=1"),
        ["'lr'", "not a mapping"],
    ),
    "--set with a tag": (options(*PPO, "--set", "lr=!!python/name:os.system"), ["refused"]),
    "an empty grid": (options(*PPO, "--set", "lr={grid_search: []}"), ["grid_search", "at least"]),
    "uniform with one number": (options(*PPO, "--set", "lr={uniform: [1]}"), ["[low, high]"]),
    "loguniform from 0": (options(*PPO, "--set", "lr={loguniform: [0, 1]}"), ["low > 0"]),
    "a grid with a second key": (options(*PPO, "--set", "lr={choice: [1], a: 1}"), ["only key"]),
    "num_samples 0": (file(experiment(num_samples=0)), ["num_samples", ">= 1"]),
    "num_samples as text": (file(experiment(num_samples="many")), ["num_samples", "integer"]),
    "a negative seed": (options(*PPO, "--set", "seed=-1"), ["seed", ">= 0"]),
    "unknown checkpoint_config": (
        file(experiment(checkpoint_config="{num_keep: 1}")),
        ["'num_keep'", "'num_to_keep'"],
    ),
    "--keep-checkpoints-num 0": (options(*PPO, "--keep-checkpoints-num", "0"), [">= 1"]),
    "unknown scheduler": (file(experiment(tune_config="{scheduler: ashaa}")), ["'asha'"]),
    "mode neither max nor min": (file(experiment(tune_config="{mode: best}")), ["max", "min"]),
    "a metric that no result contains": (
        file(experiment(tune_config="{metric: reward}")),
        ["no result", "reward"],
    ),
    "no CPU at all": (options(*PPO, "--ray-num-cpus", "0"), ["--ray-num-cpus", "at least 1"]),
    "more GPUs than there are": (options(*PPO, "--ray-num-gpus", "99"), ["99 GPUs", "has"]),
    "CPUs of a foreign cluster": (
        options(*PPO, "--ray-address", "auto", "--ray-num-cpus", "1"),
        ["--ray-address"],
    ),
    "an address where nobody answers": (
        options(*PPO, "--ray-address", "127.0.0.1:9"),
        ["nobody answers", "ray start --head"],
    ),
    "an address that is none": (options(*PPO, "--ray-address", "cluster"), ["host:port"]),
    "a stop key of the learner without its module": (
        options(*PPO, "--stop", "{learners/policy_loss: 1}"),
        ["learners/default_policy"],
    ),
    "returns of an algorithm that plays nothing": (
        options("train", "--algo", "CQL", "--stop", "{env_runners/episode_return_mean: 1}"),
        ["no result of CQL"],
    ),
    "an unknown search algorithm": (
        file(experiment(tune_config="{search_alg: optunaa}", config="{lr: {uniform: [0, 1]}}")),
        ["'optuna'"],
    ),
    "a search without a space": (
        file(experiment(tune_config="{search_alg: optuna}")),
        ["nothing to search"],
    ),
    "a search over a grid": (
        file(experiment(tune_config="{search_alg: optuna}", config="{lr: {grid_search: [1]}}")),
        ["choice"],
    ),
    "storage path is a file": (
        {"files": {"taken": ""}, "arguments": [*PPO, "--storage-path", "taken"]},
        ["storage path", "file"],
    ),
    "storage path not writable": (
        options(*PPO, "--storage-path", "/proc/nowhere"),
        ["not writable", "--storage-path"],
    ),
    "nothing to resume": (options(*PPO, "--storage-path", "x", "--resume"), ["no earlier run"]),
    "an unknown option": (options(*PPO, "--num-sample", "2"), ["--num-sample"]),
    "options before the file": (options("train", "--seed", "1", "file", "x.yaml"), ["after it"]),
    "evaluate: checkpoint missing": (options("evaluate", "none"), ["none", "does not exist"]),
    "evaluate: no checkpoint": (options("evaluate", "."), ["no RLlib checkpoint"]),
    "evaluate: no episodes": (options("evaluate", ".", "--episodes", "0"), ["--episodes"]),
    "plot: folder missing": (options("plot", "none"), ["none", "does not exist"]),
    "plot: no results": (options("plot", "."), ["no results", "result.json"]),
    "plot: unknown format": (options("plot", ".", "--out", "a.doc"), [".png"]),
    "example: unknown id": (
        options("example", "get", "geofpac/two_circle"),
        ["geoffpac/two_circle"],
    ),
}

GEOFF = ("train", "--algo", "GeoffPAC", "--env", "TwoCircle-v0", "--set", "module=tabular")

# What needs RLlib: tested in this process.
DEEP = {
    "unknown config key": (options(*GEOFF, "--set", "lamda_1=0.5"), ["'lamda_1'", "'lambda_1'"]),
    "unknown config key of PPO": (options(*PPO, "--set", "clip_parm=1"), ["'clip_param'"]),
    "unknown key for evaluation": (
        options(*PPO, "--set", "evaluation_config={explor: false}"),
        ["'explor'", "'explore'"],
    ),
    "unknown environment": (
        options("train", "--algo", "PPO", "--env", "CartPol-v1"),
        ["'CartPol-v1'", "'CartPole-v1'"],
    ),
    "an environment's module that is not there": (
        options("train", "--algo", "PPO", "--env", "my_envs:Maze"),
        ["my_envs", "can't be imported"],
    ),
    "env_config that the environment does not know": (
        options(*PPO, "--set", "env_config.size=3"),
        ["CartPole-v1", "size"],
    ),
    "an impossible value": (
        options(*GEOFF, "--set", "gamma_hat=1.5"),
        ["gamma_hat", "1.5", "[0, 1)"],
    ),
    "an impossible value in one trial of a grid": (
        options(*GEOFF, "--set", "lambda_1={grid_search: [0.5, 2]}"),
        ["lambda_1", "2"],
    ),
    "a value of the wrong type": (
        options(*GEOFF, "--set", "num_lanes=ten"),
        ["num_lanes", "'ten'"],
    ),
    "a type that PPO does not check": (options(*PPO, "--set", "gamma=high"), ["gamma", "a number"]),
    "a fraction of an env runner": (
        options(*PPO, "--set", "num_env_runners=1.5"),
        ["num_env_runners", "an integer"],
    ),
    "two learners": (options(*GEOFF, "--set", "num_learners=2"), ["num_learners", "0 or 1"]),
    "code that is not there": (
        options(*GEOFF, "--set", "interest_fn=my_code:interest"),
        ["interest_fn", "my_code"],
    ),
    "a name that its module lacks": (
        options(*GEOFF, "--set", "interest_fn=math:interes"),
        ["math", "interes"],
    ),
    "unknown argument of a scheduler": (
        file(experiment(tune_config="{scheduler: {type: asha, max_tt: 3}}")),
        ["'max_tt'", "'max_t'"],
    ),
    "a time of a scheduler that no result has": (
        file(experiment(tune_config="{scheduler: {type: pbt, time_attr: trainin_iteration}}")),
        ["scheduler: time_attr", "'trainin_iteration'", "'training_iteration'"],
    ),
    "a misspelt key that a scheduler would change": (
        file(
            experiment(
                tune_config="{scheduler: {type: pbt, hyperparam_mutations: {lambda1: [0, 1]}}}"
            )
        ),
        ["hyperparam_mutations", "'lambda1'", "lambda_1"],
    ),
    "unknown argument of a search algorithm": (
        file(
            experiment(
                tune_config="{search_alg: {type: optuna, sede: 3}}",
                config="{lr: {uniform: [0.1, 1]}}",
            )
        ),
        ["'sede'", "'seed'"],
    ),
    "a learner's metric that it never reports": (
        options(*PPO, "--stop", "{learners/default_policy/policy_los: 1}"),
        ["reports no 'policy_los'", "'policy_loss'"],
    ),
    "a scheduler's impossible value": (
        file(experiment(tune_config="{scheduler: {type: asha, max_t: 3, grace_period: 9}}")),
        ["AsyncHyperBandScheduler"],
    ),
    "more env runners than CPUs": (
        options(*PPO, "--set", "num_env_runners=5000"),
        ["5001 CPUs", "--ray-num-cpus 5001"],
    ),
    "a GPU that is not there": (
        options(*PPO, "--set", "num_gpus_per_learner=64"),
        ["64 GPUs", "num_gpus_per_learner"],
    ),
    "a Python file that fails": (
        file("import nothing_here", name="exp.py"),
        ["line 1", "nothing_here"],
    ),
    "a Python file without config": (file("stop = {}", name="exp.py"), ["'config'"]),
    "a Python file with a wrong config": (file("config = 3", name="exp.py"), ["AlgorithmConfig"]),
}


def prepare(case, folder) -> list[str]:
    for name, text in case["files"].items():
        (folder / name).write_text(text, encoding="utf-8", errors="surrogateescape")
    return case["arguments"]


def assert_refused(result, says, folder, case):
    assert result.status == 2, result.text
    assert "Traceback" not in result.text
    assert [words for words in says if words not in result.text] == [], result.text
    assert result.out == ""
    left = {p.name for p in folder.iterdir()} - set(case["files"]) - {"__pycache__"}
    assert left == set()


@pytest.mark.parametrize("name", QUICK)
def test_a_mistake_that_needs_no_rllib_is_named_at_once(rllib, home, name):
    case, says = QUICK[name]
    arguments = prepare(case, home)
    if arguments[0] == "train" and "--storage-path" not in arguments:
        arguments = [*arguments, "--storage-path", "results"]
    before = os.times()
    result = rllib(*arguments)
    after = os.times()
    # Time on the processor, which other work on the machine does not lengthen.
    assert after.children_user + after.children_system - before[2] - before[3] < 1
    assert_refused(result, says, home, case)


@pytest.mark.parametrize("name", DEEP)
def test_a_mistake_that_needs_rllib_is_named_before_ray_starts(rllib_here, home, name):
    import ray

    case, says = DEEP[name]
    running = ray.is_initialized()
    result = rllib_here(*prepare(case, home), "--storage-path", "results")
    assert_refused(result, says, home, case)
    assert ray.is_initialized() == running


@pytest.mark.slow
def test_a_mistake_that_needs_rllib_starts_no_ray_process(rllib, home):
    result = rllib(*GEOFF, "--set", "lamda_1=0.5", "--storage-path", "results", "-v")
    assert_refused(result, ["'lambda_1'"], home, {"files": {}})


def test_wandb_is_asked_for_politely(rllib, home):
    if importlib.util.find_spec("wandb"):
        pytest.skip("wandb is installed")
    result = rllib(*PPO, "--wandb-project", "p", "--storage-path", "results")
    assert_refused(result, ["pip install wandb"], home, {"files": {}})
