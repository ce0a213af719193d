"""`rllib export`: the policy as one file, played without Ray and without this package."""

import json

import gymnasium as gym
import numpy as np
import pages
import pytest
import scipy.special
import torch

from rllib_cli.evaluate import checkpoints
from rllib_cli.export import files
from rllib_geoffpac import DDPGConfig, GeoffPACConfig
from rllib_geoffpac.deployment import OUTPUTS

ort = pytest.importorskip("onnxruntime")


def config_of(kind):
    if kind == "deterministic":
        return DDPGConfig().environment("Pendulum-v1").rl_module(
            model_config={"fcnet_hiddens": [8]}
        )  # fmt: skip
    env = "CartPole-v1" if kind == "categorical" else "Pendulum-v1"
    chosen = "gaussian" if kind == "categorical" else kind
    return GeoffPACConfig().environment(env).training(policy_distribution=chosen)


def policy_of(kind, seed=0, **settings):
    """A policy with weights that make it differ from state to state."""
    config = config_of(kind).training(**settings)
    env = gym.make(config.env)
    module = config.get_rl_module_spec(env=env, inference_only=True).build()
    rng = np.random.default_rng(seed)
    state = module.get_state()
    weights = {k: rng.normal(0, 0.5, v.shape).astype(v.dtype) for k, v in state.items()}
    module.set_state(weights)
    return config, module, weights


def observations_of(module, rows, seed=1):
    shape = module.observation_space.shape
    return np.random.default_rng(seed).normal(size=(rows, *shape)).astype(np.float32)


def expected_of(kind, module, observations):
    """The outputs as numpy's side of the package computes them."""
    with torch.no_grad():
        outputs = module.pi(torch.as_tensor(observations)).numpy().astype(np.float64)
    distribution = module.distribution
    action = distribution.to_env(distribution.mode(outputs))
    if kind == "categorical":
        weights = np.exp(outputs - outputs.max(-1, keepdims=True))
        return [action, weights / weights.sum(-1, keepdims=True)]
    if kind == "beta":
        both = 1 + np.log1p(np.exp(outputs))
        return [action, both[:, :1], both[:, 1:]]
    if kind == "deterministic":
        return [action]
    std = distribution.std(module.std_parameter.detach().numpy().astype(np.float64))
    return [action, 2 * np.tanh(outputs), np.tile(2 * std, (len(outputs), 1))]


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(OUTPUTS))
def test_the_file_s_actions_are_those_of_evaluation_for_any_number_of_rows(kind, tmp_path):
    config, module, weights = policy_of(kind)
    policy, description = config.exported_policy(weights)
    files._write_onnx(policy, description, tmp_path / "policy.onnx")
    files._write_torchscript(policy, description, tmp_path / "policy.pt")
    session = ort.InferenceSession(tmp_path / "policy.onnx")
    script = torch.jit.load(str(tmp_path / "policy.pt"))
    assert [output.name for output in session.get_outputs()] == list(OUTPUTS[kind])
    for rows in (1, 5):
        observations = observations_of(module, rows)
        expected = expected_of(kind, module, observations)
        found = session.run(None, {"observations": observations})
        traced = [tensor.numpy() for tensor in script(torch.as_tensor(observations))]
        for one, other, wanted in zip(found, traced, expected, strict=True):
            assert one.dtype == wanted.dtype and one.shape == wanted.shape
            np.testing.assert_allclose(one, wanted, atol=1e-6)
            np.testing.assert_allclose(other, wanted, atol=1e-6)
    assert module.action_space.contains(found[0][0])


def samples_of(kind, module, observations, noise):
    """What evaluation draws where its generator gives these numbers (for a Gaussian, normal)."""
    with torch.no_grad():
        outputs = module.pi(torch.as_tensor(observations)).numpy().astype(np.float64)
    std = None if module.std_parameter is None else module.std_parameter.detach().numpy()
    distribution = module.distribution

    class Given(np.random.Generator):
        def random(self, shape):
            return noise

        def standard_normal(self, shape):
            return scipy.special.ndtri(noise)

    drawn = distribution.sample(outputs, std, Given(np.random.PCG64(0)))
    return distribution.to_env(drawn)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in OUTPUTS if kind != "deterministic"])
def test_the_sampled_file_s_actions_are_those_that_evaluation_draws(kind, tmp_path):
    config, module, weights = policy_of(kind)
    policy, description = config.exported_policy(weights, sampled=True)
    assert (description["inputs"], description["action"]) == (["observations", "noise"], "sampled")
    files._write_onnx(policy, description, tmp_path / "policy.onnx")
    files._write_torchscript(policy, description, tmp_path / "policy.pt")
    session = ort.InferenceSession(tmp_path / "policy.onnx")
    script = torch.jit.load(str(tmp_path / "policy.pt"))
    for rows in (1, 200):
        observations = observations_of(module, rows)
        noise = np.random.default_rng(2).random((rows, 1))
        wanted = samples_of(kind, module, observations, noise)
        found = session.run(["action"], {"observations": observations, "noise": noise})[0]
        traced = script(torch.as_tensor(observations), torch.as_tensor(noise))[0].numpy()
        assert found.dtype == wanted.dtype and found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, atol=1e-6)
        np.testing.assert_allclose(traced, wanted, atol=1e-6)
    assert len(np.unique(found)) > 1


def test_a_deterministic_policy_has_nothing_to_sample():
    config, _, weights = policy_of("deterministic")
    _, description = config.exported_policy(weights, sampled=True)
    assert (description["inputs"], description["action"]) == (["observations"], "most likely")


def test_the_average_of_pi_is_what_is_exported():
    config, module, weights = policy_of("gaussian", policy_average=7.0)
    policy, _ = config.exported_policy(weights)
    observations = torch.as_tensor(observations_of(module, 3))
    with torch.no_grad():
        _, mean, std = policy(observations)
        average, own = module.pi_average(observations), module.pi(observations)
    np.testing.assert_allclose(mean, 2 * torch.tanh(average.double()), atol=1e-6)
    assert (mean - 2 * torch.tanh(own)).abs().min() > 1e-3
    averaged = module.distribution.std(module.std_parameter_average.detach().double())
    np.testing.assert_allclose(std[0], 2 * averaged, atol=1e-6)


@pytest.fixture(scope="module")
def trained(ray, tmp_path_factory):
    """A checkpoint of a moment's training on Pendulum."""
    config = (
        GeoffPACConfig()
        .environment("Pendulum-v1")
        .training(num_lanes=2, learning_starts=5)
        .reporting(min_sample_timesteps_per_iteration=100)
    )
    algorithm = config.build_algo()
    try:
        algorithm.train()
        folder = tmp_path_factory.mktemp("trained") / "checkpoint_000000"
        algorithm.save_to_path(str(folder))
    finally:
        algorithm.stop()
    return folder


@pytest.mark.slow
def test_the_command_s_file_returns_what_evaluate_measures(trained, rllib_here, home):
    written = rllib_here("export", trained, "--out", "policy.onnx")
    assert written.status == 0 and "mean, std" in written.out
    session = ort.InferenceSession(home / "policy.onnx")
    about = json.loads(session.get_modelmeta().custom_metadata_map["policy.json"])
    assert (about["algorithm"], about["env"]) == ("GeoffPAC", "Pendulum-v1")
    assert about["action_space"]["high"] == [2.0]
    measured = rllib_here(
        "evaluate", trained, "--deterministic", "--episodes", 1, "--out", "found.json"
    )
    assert measured.status == 0, measured.text
    (wanted,) = json.loads((home / "found.json").read_text())["episode_returns"]
    from rllib_geoffpac.lanes.seeding import evaluation_stream

    env = gym.make("Pendulum-v1")
    observation, _ = env.reset(seed=evaluation_stream(0, 0, 0)[0])
    returned, ended = 0.0, False
    while not ended:
        rows = np.asarray(observation, np.float32)[None]
        action = session.run(["action"], {"observations": rows})[0][0]
        observation, reward, terminated, truncated, _ = env.step(action)
        returned, ended = returned + reward, terminated or truncated
    assert returned == pytest.approx(wanted, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("sampled", [True, False])
def test_the_page_s_loop_plays_the_file(sampled, trained, tmp_path, monkeypatch, capsys):
    files.export(checkpoints.find_checkpoint(trained), tmp_path / "policy.onnx", sampled=sampled)
    monkeypatch.chdir(tmp_path)
    (block,) = [b for b in pages.blocks("python") if "onnxruntime" in b.text]
    exec(compile(block.text, "docs/deployment.md", "exec"), {})
    assert capsys.readouterr().out.startswith("GeoffPAC Pendulum-v1 -")


@pytest.mark.slow
def test_the_page_s_loop_plays_observations_of_double_precision(ray, tmp_path, monkeypatch, capsys):
    algorithm = GeoffPACConfig().environment("Reacher-v5").build_algo()
    try:
        algorithm.save_to_path(str(tmp_path / "checkpoint_000000"))
    finally:
        algorithm.stop()
    files.export(str(tmp_path / "checkpoint_000000"), tmp_path / "policy.onnx")
    monkeypatch.chdir(tmp_path)
    (block,) = [b for b in pages.blocks("python") if "onnxruntime" in b.text]
    exec(compile(block.text, "docs/deployment.md", "exec"), {})
    assert capsys.readouterr().out.startswith("GeoffPAC Reacher-v5 -")


def test_a_policy_behind_connectors_is_not_exported_without_them():
    from ray.rllib.connectors.env_to_module import MeanStdFilter

    config, _, weights = policy_of("gaussian")
    config.env_runners(env_to_module_connector=lambda env, spaces, device: MeanStdFilter())
    with pytest.raises(ValueError, match="without its connectors"):
        config.exported_policy(weights)


def test_another_format_a_file_for_a_folder_and_no_checkpoint_are_refused(rllib_here, tmp_path):
    (tmp_path / "file").touch()
    for arguments, says in [
        (["export", tmp_path, "--out", "policy.bin"], "must end in .onnx or .pt"),
        (["export", tmp_path, "--out", tmp_path / "file" / "policy.onnx"], "file' is a file. Give"),
        (["export", tmp_path / "nothing", "--out", "policy.pt"], "does not exist"),
    ]:
        refused = rllib_here(*arguments)
        assert refused.status == 2 and says in refused.err
