"""A callback, an env runner and an environment of tests, which workers can import."""

from harness import Walk
from ray.rllib.callbacks.callbacks import RLlibCallback

from rllib_geoffpac.env_runners import BehaviorEnvRunner


class Witness(RLlibCallback):
    """Logs what it is told, as a user would."""

    def on_environment_created(self, *, env_runner, metrics_logger, env, env_context, **kwargs):
        assert isinstance(env.envs[-1].unwrapped, Walk)
        assert env_context.worker_index == env_runner.worker_index
        metrics_logger.log_value("environments", 1, reduce="lifetime_sum")

    def on_episode_created(self, *, episode, metrics_logger, **kwargs):
        assert not episode.is_reset
        metrics_logger.log_value("created", 1, reduce="lifetime_sum")

    def on_episode_start(self, *, episode, metrics_logger, env, env_index, **kwargs):
        assert len(episode) == 0
        assert env.envs[env_index].unwrapped._time == 0
        metrics_logger.log_value("started", 1, reduce="lifetime_sum")

    def on_episode_step(self, *, episode, metrics_logger, env, env_index, **kwargs):
        assert env.single_action_space.contains(episode.get_actions(-1))
        assert env.envs[env_index].unwrapped._time == len(episode)
        metrics_logger.log_value("steps_seen", 1, reduce="sum")

    def on_episode_end(self, *, episode, metrics_logger, **kwargs):
        assert episode.is_done
        # A sum: RLlib's mean of what several env runners log is a mean of their means.
        metrics_logger.log_value("returns", episode.get_return(), reduce="sum")
        metrics_logger.log_value("ended", 1, reduce="lifetime_sum")

    def on_sample_end(self, *, samples, metrics_logger, **kwargs):
        metrics_logger.log_value("episodes_in_samples", len(samples), reduce="sum")


class Broken(BehaviorEnvRunner):
    """Never healthy."""

    def assert_healthy(self):
        raise RuntimeError("never")


class Crowd(Walk):
    """Tells how many env runners there are by the length of its episodes."""

    def __init__(self, context):
        super().__init__({"limit": 1 + context.num_workers, "end": 0.0})


class Rated(RLlibCallback):
    """A trial is as good as its learning rate."""

    def on_train_result(self, *, algorithm, result, **kwargs):
        result["rating"] = algorithm.config.lr
