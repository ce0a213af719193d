"""Plays episodes of a trained policy in this process (imports RLlib; starts no Ray process).

An algorithm whose config has a runner for its target policy (:mod:`rllib_cli.plugins`) is played by
it, so that the figures are those that training reports; RLlib's own go through their connectors.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.env import INPUT_ENV_SINGLE_SPACES, INPUT_ENV_SPACES
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rllib_cli.errors import UserError, exception_summary
from rllib_cli.evaluate import checkpoints
from rllib_cli.experiment.algorithms import check_env
from rllib_geoffpac.env_runners.target_policy_env_runner import EvaluationEpisode
from rllib_geoffpac.envs.make_env import create_env
from rllib_geoffpac.evaluation.target_policy import summarize as summarize

# RLlib's algorithms have no notion of an evaluation horizon: endless environments are cut here.
_DEFAULT_HORIZON = 1000


def play(config: Any, checkpoint: Path, options: Any, videos: list[str]) -> list[EvaluationEpisode]:
    """Plays ``options.episodes`` episodes.

    Args:
        config: The checkpoint's ``AlgorithmConfig``, not frozen.
        checkpoint: Its folder.
        options: The :class:`rllib_cli.evaluate.EvaluateOptions`.
        videos: Receives the paths of the recorded videos.
    """
    if config.is_multi_agent:
        raise UserError(
            "The checkpoint is of a multi-agent algorithm; only single-agent ones work."
        )
    if config.env is None:
        raise UserError("The checkpoint was trained without an environment; give one with --env.")
    env = _env_maker(config, options, videos)
    weights = checkpoints.load_weights(checkpoint, options.weights_only)
    if hasattr(config, "target_policy_runner"):
        return _play_with_its_own_runner(config, env, weights, checkpoint, options)
    return _play_with_connectors(config, env, weights, checkpoint, options)


def _env_maker(config: Any, options: Any, videos: list[str]) -> Callable[[], gym.Env]:
    """Returns a function that makes the environment, recorded if the user wants videos."""
    name, env_config = config.env, dict(config.env_config)
    if isinstance(name, str):
        check_env(name)

    def make() -> gym.Env:
        arguments: dict[str, Any] = {"render_mode": "rgb_array"} if options.video_dir else {}
        try:
            made = create_env(name, env_config, **arguments)
        except Exception as error:
            raise UserError(
                f"The environment {name!r} cannot be created: {type(error).__name__}: "
                f"{exception_summary(error)}"
            ) from None
        if options.video_dir:
            from rllib_cli.evaluate.recording import VideoRecorder

            return VideoRecorder(made, options.video_dir, options.video_format, videos)
        return made

    return make


def _play_with_its_own_runner(
    config: Any,
    make: Callable[[], gym.Env],
    weights: dict[str, Any],
    checkpoint: Path,
    options: Any,
) -> list[EvaluationEpisode]:
    runner = config.target_policy_runner(
        make, episodes=options.episodes, seed=options.seed, explore=not options.deterministic
    )
    try:
        _set_weights(runner.module, weights)
        if options.weights_only:
            checkpoints.check_connectors_are_stateless(checkpoint)
        else:
            for name, pipeline in runner.pipelines.items():
                checkpoints.restore_connector(pipeline, checkpoint, name)
            runner.set_state({name: p.get_state() for name, p in runner.pipelines.items()})
        episodes = runner.sample(episodes=list(range(options.episodes)))
    finally:
        runner.stop()
    return sorted(episodes, key=lambda episode: episode.index)


def _set_weights(module: Any, weights: dict[str, Any]) -> None:
    known = module.get_state()
    missing = sorted(set(known) - set(weights))
    wrong = [k for k in known if k not in missing and np.shape(known[k]) != np.shape(weights[k])]
    if missing or wrong:
        key = (missing or wrong)[0]
        raise UserError(
            f"The checkpoint does not fit the environment or the settings: {key!r} has the shape "
            f"{np.shape(weights.get(key, ()))} there, and {np.shape(known[key])} is needed."
        )
    module.set_state({key: weights[key] for key in known})


def _play_with_connectors(
    config: Any,
    make: Callable[[], gym.Env],
    weights: dict[str, Any],
    checkpoint: Path,
    options: Any,
) -> list[EvaluationEpisode]:
    env = make()
    torch.manual_seed(options.seed)
    spaces = (env.observation_space, env.action_space)
    named = {
        INPUT_ENV_SPACES: spaces,
        INPUT_ENV_SINGLE_SPACES: spaces,
        DEFAULT_MODULE_ID: spaces,
    }
    config.env_runners(num_env_runners=0, num_envs_per_env_runner=1)
    to_module = config.build_env_to_module_connector(env=env, spaces=named, device=None)
    to_env = config.build_module_to_env_connector(env=env, spaces=named)
    if options.weights_only:
        checkpoints.check_connectors_are_stateless(checkpoint)
    else:
        checkpoints.restore_connector(to_module, checkpoint, "env_to_module_connector")
        checkpoints.restore_connector(to_env, checkpoint, "module_to_env_connector")
    module = config.get_rl_module_spec(env=env, spaces=named, inference_only=True).build()
    _set_weights(module, weights)
    explore = not options.deterministic
    try:
        return [
            _play_episode(
                env, module, to_module, to_env, explore, options.seed + k, k, config.gamma
            )
            for k in range(options.episodes)
        ]
    finally:
        env.close()


def _play_episode(
    env: Any,
    module: Any,
    to_module: Any,
    to_env: Any,
    explore: bool,
    seed: int,
    index: int,
    gamma: float,
) -> EvaluationEpisode:
    """One episode through RLlib's connectors, as its own env runners do it."""
    observation, info = env.reset(seed=seed)
    episode = SingleAgentEpisode(
        observations=[observation],
        observation_space=env.observation_space,
        action_space=env.action_space,
    )
    played = EvaluationEpisode(index, [], [])
    limited = env.spec is not None and env.spec.max_episode_steps is not None
    forward = module.forward_exploration if explore else module.forward_inference
    arguments = {"t": 0} if explore else {}
    while True:
        shared: dict[str, Any] = {}
        with torch.no_grad():
            batch = to_module(
                episodes=[episode], batch={}, explore=explore, rl_module=module, shared_data=shared
            )
            output = forward(batch, **arguments)
            output = to_env(
                batch=output,
                episodes=[episode],
                explore=explore,
                rl_module=module,
                shared_data=shared,
            )
        actions = output.pop(Columns.ACTIONS)
        action = output.pop(Columns.ACTIONS_FOR_ENV, actions)[0]
        observation, reward, terminated, truncated, info = env.step(action)
        extra = {key: values[0] for key, values in output.items()}
        episode.add_env_step(
            observation,
            actions[0],
            reward,
            terminated=terminated,
            truncated=truncated,
            extra_model_outputs=extra,
        )
        played.rewards.append(float(reward))
        played.discounts.append(0.0 if terminated else float(info.get("discount", gamma)))
        too_long = not limited and len(played.rewards) >= _DEFAULT_HORIZON
        if terminated or truncated or too_long:
            return played
