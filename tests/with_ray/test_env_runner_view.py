"""What code written for RLlib's env runners finds in ours: module, envs, episodes, times."""

import itertools

import gymnasium as gym
import numpy as np
import pytest
from harness import Walk, built, tiny_config, train
from logged_data import columns_of, walk_episodes, write_columns
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.connectors.env_to_module import MeanStdFilter
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from test_metrics import small_config

MU_LOGP = -np.log(4)


@pytest.fixture(scope="module")
def algo(ray):
    """Trained for an iteration, with its result as `first`."""
    config = tiny_config().evaluation(evaluation_interval=1, evaluation_duration=3)
    with built(config) as algo:
        algo.first = train(algo, 1)[0]
        yield algo


def test_steps_of_the_module_are_counted_as_those_of_the_environment(algo):
    learned = algo.first["learners"]
    of_module, of_all = learned["default_policy"], learned["__all_modules__"]
    for name in ("", "_lifetime"):
        expected = of_all[f"num_env_steps_trained{name}"]
        assert of_module[f"num_module_steps_trained{name}"] == expected == 150
        assert of_all[f"num_module_steps_trained{name}"] == expected
    assert 50 <= of_module["module_train_batch_size_mean"] <= 100, "20 locksteps of 5 lanes, or 10"


def test_env_runners_tell_their_times_under_rllib_s_names(algo):
    sampling, playing = algo.first["env_runners"], algo.first["evaluation"]["env_runners"]
    for times in (sampling, playing):
        assert 0 < times["env_step_timer"] < times["sample"]
        assert 0 < times["env_reset_timer"] < times["sample"]
    assert 0 < playing["rlmodule_inference_timer"] < playing["sample"]


def test_the_local_env_runner_has_the_policy_with_its_present_weights(algo):
    weights = algo.env_runner.module.get_state()
    expected = algo.get_module().get_state()
    assert weights.keys() == expected.keys()
    assert all(np.array_equal(weights[name], expected[name]) for name in weights)


def test_the_environments_of_the_lanes_can_be_reached(algo):
    env = algo.env_runner.env
    assert (algo.env_runner.num_envs, env.num_envs, len(env.envs)) == (5, 5, 5)
    assert isinstance(env.unwrapped.envs[0].unwrapped, Walk)
    assert env.single_action_space == Walk().action_space
    assert env.action_space.shape == (5, 2) and env.observation_space.shape == (5, 3)
    assert env.get_attr("limit") == (8,) * 5
    found = algo.env_runner_group.foreach_env_runner(
        lambda runner: runner.env.call("has_wrapper_attr", "end")
    )
    assert found == [(True,) * 5]


@pytest.mark.slow
def test_episodes_of_mu_can_be_asked_for_as_in_rllib(ray):
    expected = []
    with built(tiny_config()) as algo:
        expected = [result["weights_digest"] for result in train(algo, 2)]
    with built(tiny_config()) as algo:
        found = [train(algo, 1)[0]["weights_digest"]]
        runner = algo.env_runner
        whole = runner.sample(num_episodes=3)
        parts = [*runner.sample(num_timesteps=5, force_reset=True), *runner.sample(num_timesteps=9)]
        random = runner.sample(num_timesteps=4, random_actions=True)
        assert sum(map(len, runner.sample())) == 20 * 5
        found.append(train(algo, 1)[0]["weights_digest"])
    assert found == expected, "no lane that is learned from has moved"
    assert all(isinstance(e, SingleAgentEpisode) and e.is_done for e in whole) and len(whole) == 3
    assert len({e.get_return() for e in whole}) == 3
    for episode in whole:
        logp = episode.get_extra_model_outputs("action_logp")
        np.testing.assert_allclose(logp, [MU_LOGP] * len(episode), rtol=1e-6)
    assert sum(map(len, parts)) == 14 and sum(map(len, random)) == 4
    for one, two in itertools.pairwise(parts):
        assert one.is_done or one.id_ == two.id_, "an episode goes on in the next call"


def test_evaluation_env_runners_play_the_policy_as_in_rllib(algo):
    runner = algo.eval_env_runner
    episodes = runner.sample(num_episodes=2)
    assert [type(e) for e in episodes] == [SingleAgentEpisode] * 2
    assert all(e.is_done and "action_dist_inputs" in e.extra_model_outputs for e in episodes)
    assert sum(map(len, runner.sample(num_timesteps=20))) >= 20
    assert len(runner.sample()) == 3, "evaluation_duration"
    greedy = runner.sample(num_episodes=1, explore=False)[0]
    assert runner.config.explore and len(greedy)
    with pytest.raises(ValueError, match=r"`random_actions` is True, but .* play pi"):
        runner.sample(num_episodes=1, random_actions=True)


@pytest.mark.slow
def test_an_env_runner_that_explores_samples_around_its_policy(ray):
    config = small_config("DDPG").env_runners(behavior="noise")
    with built(config) as algo:
        expected = [result["weights_digest"] for result in train(algo, 2)]
    with built(config.copy(copy_frozen=False)) as algo:
        found = [train(algo, 1)[0]["weights_digest"]]
        episode = algo.env_runner.sample(num_episodes=1, explore=False)[0]
        module = algo.env_runner.module
        found.append(train(algo, 1)[0]["weights_digest"])
    assert found == expected
    assert "pi.0.weight" in module.get_state() and len(episode)


def test_logged_data_have_no_episodes_to_sample(ray, tmp_path):
    write_columns(tmp_path, columns_of(walk_episodes(20)))
    config = tiny_config().offline_data(input_=str(tmp_path)).env_runners(behavior="estimated")
    with built(config) as algo, pytest.raises(ValueError, match="has no environment to sample"):
        algo.env_runner.sample()


def test_the_old_stack_s_policy_is_refused_with_the_way_out(algo):
    observation = np.zeros(3, np.float32)
    for ask in (algo.get_policy, lambda: algo.compute_single_action(observation)):
        with pytest.raises(ValueError, match=r"old API stack: `get_module\(\)`"):
            ask()


class Modules(RLlibCallback):
    """Counts which module acts."""

    def on_episode_step(self, *, rl_module, metrics_logger, env, **kwargs):
        assert isinstance(env, gym.vector.VectorEnv)
        metrics_logger.log_value(f"acts_{type(rl_module).__name__}", 1, reduce="sum")


def test_callbacks_get_the_module_that_acts(ray):
    """None where mu is fixed: it has no module."""
    config = tiny_config().callbacks(Modules)
    config.evaluation(evaluation_interval=1, evaluation_duration=1)
    with built(config) as algo:
        result = train(algo, 1)[0]
    assert result["env_runners"]["acts_NoneType"] == 150
    assert result["evaluation"]["env_runners"]["acts_MLPRLModule"] > 0


class Logging(ConnectorV2):
    """A piece that logs, as RLlib documents it."""

    def __call__(self, *, batch, metrics, episodes, **kwargs):
        metrics.log_value("seen", len(episodes), reduce="sum")
        return batch


@pytest.mark.slow
def test_connector_pieces_log_their_times_and_what_they_like(ray):
    config = tiny_config().env_runners(
        env_to_module_connector=lambda *_: [MeanStdFilter(), Logging()],
        module_to_env_connector=lambda *_: Logging(),
    )
    config.evaluation(evaluation_interval=1, evaluation_duration=2)
    with built(config) as algo:
        result = train(algo, 1)[0]
    sampling, playing = result["env_runners"], result["evaluation"]["env_runners"]
    assert sampling["seen"] >= 150 and playing["seen"] > 0
    for times in (sampling, playing):
        assert times["env_to_module_connector"]["timers"]["connectors"]["mean_std_filter"] > 0
    assert playing["module_to_env_connector"]["timers"]["connectors"]["logging"] > 0
