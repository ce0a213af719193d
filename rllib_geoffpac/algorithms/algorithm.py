"""What all our algorithms share: lanes of fixed behaviour, lockstep learning, evaluation of pi."""

from __future__ import annotations

import secrets
import threading
import zlib
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import ray
import torch
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.callbacks.utils import make_callback
from ray.rllib.core import DEFAULT_AGENT_ID, DEFAULT_MODULE_ID
from ray.rllib.core.learner.training_data import TrainingData
from ray.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec
from ray.rllib.env import INPUT_ENV_SPACES
from ray.rllib.env.env_runner_group import EnvRunnerGroup
from ray.rllib.utils.annotations import override
from ray.rllib.utils.metrics import (
    ENV_RUNNER_RESULTS,
    LEARNER_RESULTS,
    NUM_AGENT_STEPS_TRAINED_LIFETIME,
    NUM_ENV_STEPS_SAMPLED_LIFETIME,
    WEIGHTS_SEQ_NO,
)
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger
from ray.rllib.utils.typing import ModuleID, ResultDict, StateDict
from ray.tune import PlacementGroupFactory

from rllib_geoffpac.algorithms.resources import check_available, check_resources
from rllib_geoffpac.algorithms.speed import IterationSpeed
from rllib_geoffpac.checkpoints import VerifiedCheckpoints
from rllib_geoffpac.compat import is_autoscaling
from rllib_geoffpac.connectors.lane_observer import LaneObserver
from rllib_geoffpac.connectors.pipelines import (
    CONNECTOR_COMPONENTS,
    has_env_to_module,
    make_env_to_module,
    make_module_to_env,
)
from rllib_geoffpac.data.data_set import DataSettings
from rllib_geoffpac.data.survey import Survey, survey_data
from rllib_geoffpac.data.writing import ParquetWriter, output_name
from rllib_geoffpac.env_runners.episode_metrics import EpisodeMetrics
from rllib_geoffpac.env_runners.remote_runners import RemoteRunners
from rllib_geoffpac.env_runners.stream import LaneStream
from rllib_geoffpac.envs.make_env import make_env
from rllib_geoffpac.lanes.behavior import make_behavior
from rllib_geoffpac.lanes.events import EVALUATION_EVENTS, EventCounts
from rllib_geoffpac.lanes.fragments import Fragment
from rllib_geoffpac.lanes.positions import LaneAnchor

_LANES = "lanes"
_EVENTS = "events"
_OUTPUT = "output"
_OBSERVER = "observer"


@dataclass
class LaneTrainingData(TrainingData):
    """Fragments of all lanes for the one learner: never split."""

    @override(TrainingData)
    def shard(self, num_shards: int, **kwargs: Any) -> list[tuple[TrainingData, dict]]:
        return [(self, {})]


class LaneAlgorithm(VerifiedCheckpoints, Algorithm):
    """Samples all lanes in lockstep and hands them to the learner, in lane order.

    Attributes:
        behavior_version: RLlib's number of the weights that the samplers acted with: 0, because
            a fixed behaviour policy has none of the learner's.
    """

    behavior_version = 0
    config: AlgorithmConfig
    eval_env_runner_group: EnvRunnerGroup | None

    @override(Algorithm)
    def setup(self, config: AlgorithmConfig) -> None:
        if self.config.seed is None:
            self._change_config(seed=_drawn_seed(self.trial_id))
        check_resources(config)
        self.data_sources: set[str] = set()
        self.diverged = False
        self.speed = IterationSpeed()
        self.weights_taken = threading.Event()
        self.parallel_training: Future | None = None  # beside the evaluation that is under way
        self.evaluation_events = EventCounts(EVALUATION_EVENTS)
        self.evaluation_runners: RemoteRunners | None = None  # made by the first evaluation
        self.survey = self._survey_data()
        try:
            super().setup(config)
        except IndexError:
            if self.survey is not None:
                raise
            # RLlib's way to say that no env runner could be built: making what they make tells why.
            make_behavior(self.config.behavior, make_env(self.config))
            raise
        self.stream = LaneStream(
            self.env_runner_group,
            self.config,
            partial(self.env_runner_recreated, False),
            None if self.survey is None else {"survey": self.survey},
        )
        self.output_writer: ParquetWriter | None = None
        if self.config.output is not None:
            folder = f"{self.config.output}/{output_name(self.config)}"
            spaces = self.env_runner_group.get_spaces()[INPUT_ENV_SPACES]
            self.output_writer = ParquetWriter(folder, spaces, self.config.num_lanes)
        self.observer = self._make_observer()
        if self.env_runner is not None:
            self.env_runner.target_policy = self.get_module

    def _make_observer(self) -> LaneObserver | None:
        """What stands between the lanes and the learner; None: nothing does."""
        spaces = self.env_runner_group.get_spaces()[INPUT_ENV_SPACES]
        observer = None
        if has_env_to_module(self.config):
            # For the pieces that ask what kind of module it is: its weights are nobody's.
            with torch.random.fork_rng(devices=[]):
                observer = LaneObserver(self.config, spaces, self.module_spec().build())
            pipelines = observer.env_to_module, observer.module_to_env
        else:
            pipelines = (
                make_env_to_module(self.config, spaces),
                make_module_to_env(self.config, spaces),
            )
        # Where RLlib's checkpoints have them.
        if self.env_runner is None:
            self.env_to_module_connector, self.module_to_env_connector = pipelines
        else:
            self.env_runner.pipelines = dict(zip(CONNECTOR_COMPONENTS, pipelines, strict=True))
        return observer

    def _survey_data(self) -> Survey | None:
        """Reads the data set once, before anything starts; its spaces become the config's."""
        if not self.config.reads_data:
            return None
        config = self.config
        survey = survey_data(
            DataSettings.of(config),
            config.known_spaces(),
            config.behavior,
            config.num_lanes,
            config.seed,
        )
        self._change_config(
            observation_space=survey.observation_space, action_space=survey.action_space
        )
        return survey

    def _change_config(self, **settings: Any) -> None:
        config = self.config.copy(copy_frozen=False)
        for key, value in settings.items():
            setattr(config, key, value)
        config.freeze()
        self.config = config

    @override(Algorithm)
    def cleanup(self) -> None:
        writer = getattr(self, "output_writer", None)
        if writer is not None:
            writer.flush()
        super().cleanup()

    @override(Algorithm)
    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Starts over with another config in the same process: Tune's `reuse_actors`."""
        self.cleanup()
        config = self.get_default_config().update_from_dict(new_config)
        self._env_id, self.env_creator = self._get_env_id_and_creator(config.env, config)
        self.metrics = MetricsLogger(root=True, stats_cls_lookup=config.stats_cls_lookup)
        self.eval_env_runner_group = None
        config.validate()
        config.freeze()
        self.config = config
        self.setup(config)
        return True

    @classmethod
    @override(Algorithm)
    def default_resource_request(cls, config: AlgorithmConfig) -> PlacementGroupFactory:
        """What Tune reserves for a trial; refused if the cluster can never have it."""
        request = super().default_resource_request(config)
        if not all(any(bundle.values()) for bundle in request.bundles[1:]):
            raise ValueError(
                "`num_cpus_per_env_runner` is 0, but Tune reserves for every process of a trial "
                "what it needs: allowed inside Tune is a number above 0, such as 0.01."
            )
        if ray.is_initialized() and not is_autoscaling():
            check_available(request.required_resources, ray.cluster_resources(), "A trial needs")
        return request

    @override(Algorithm)
    def training_step(self) -> None:
        # In parallel with evaluation, the weights to evaluate are taken before they change.
        self.weights_taken.wait()
        fragments = self.stream.next(self._fragment_lengths(), self.behavior_weights())
        if self.output_writer is not None:
            self.output_writer.add(episode for part in fragments for episode in part.episodes)
        if not self.diverged:
            self._learn(fragments)
        if self.diverged and self.config.min_train_timesteps_per_iteration:
            # RLlib would wait for ever for steps that nobody learns from any more.
            self._change_config(min_train_timesteps_per_iteration=0)
        self._log_sampling(fragments)

    def _learn(self, fragments: list[Fragment]) -> None:
        with self.speed.learning():
            results = self.learner_group.update(
                training_data=LaneTrainingData(episodes=self.seen(fragments)),
                timesteps={
                    NUM_ENV_STEPS_SAMPLED_LIFETIME: self.stream.anchor.lockstep
                    * self.config.num_lanes
                },
            )
        self.metrics.aggregate(results, key=LEARNER_RESULTS)
        if self.config.count_steps_by == "agent_steps":
            # RLlib asks for these to end an iteration, and its learners never tell them.
            place = (LEARNER_RESULTS, NUM_AGENT_STEPS_TRAINED_LIFETIME, DEFAULT_AGENT_ID)
            steps = sum(len(fragment) for fragment in fragments)
            self.metrics.log_value(place, steps, reduce="lifetime_sum")
        # Once is enough: what is learned from a poisoned optimizer is not worth having, and the
        # learner has kept its last finite parameters.
        self.diverged = self.on_learner(lambda learner: learner.diverged)

    def seen(self, fragments: list[Fragment]) -> list[Fragment]:
        """The next fragments as the learner sees them: through the env-to-module connectors."""
        return fragments if self.observer is None else self.observer.transform(fragments)

    def behavior_weights(self) -> Any:
        """What the behaviour policy must know of the learner: nothing, because it is fixed."""
        return None

    def _fragment_lengths(self) -> Iterator[int]:
        """Locksteps of the next fragments: the last one of an iteration is shortened.

        So iterations, and with them evaluations and checkpoints, end on the same step whatever
        the fragment length.
        """
        config = self.config
        per_iteration = -(-config.min_sample_timesteps_per_iteration // config.num_lanes)
        lockstep = self.stream.anchor.lockstep
        while True:
            longest = config.fragment_length(lockstep)
            length = min(longest, per_iteration - lockstep % per_iteration)
            yield length
            lockstep += length

    def _log_sampling(self, fragments: list[Fragment]) -> None:
        self.speed.sampled(fragments)
        self.data_sources |= {fragment.data_source for fragment in fragments}
        metrics = EpisodeMetrics(self.metrics, (ENV_RUNNER_RESULTS,))
        # An episode's time is its share of the simulation: lanes stand still between fragments.
        finished = sorted(
            (*episode, episode[-1] * fragment.seconds / len(fragment))
            for fragment in fragments
            for episode in fragment.finished
        )
        metrics.steps(sum(len(fragment) for fragment in fragments), len(finished))
        window = self.config.metrics_num_episodes_for_smoothing
        for _, _, episode_return, length, seconds in finished:
            metrics.episode(episode_return, length, seconds, window)
        metrics.log(WEIGHTS_SEQ_NO, self.behavior_version, window=1)
        for fragment in fragments:
            metrics.times(fragment.seconds, fragment.spent, len(fragment))
        logged = [fragment.metrics for fragment in fragments if fragment.metrics]
        if self.observer is not None:
            logged.append(self.observer.logged.reduce())
        if logged:
            self.metrics.aggregate(logged, key=ENV_RUNNER_RESULTS)

    @override(Algorithm)
    def step(self) -> ResultDict:
        evaluates_now = self.config.evaluation_parallel_to_training and (
            self.config.evaluation_interval
            and (self.iteration + 1) % self.config.evaluation_interval == 0
        )
        if evaluates_now:
            self.weights_taken.clear()
        else:
            self.weights_taken.set()
        self.data_sources.clear()
        self.speed = IterationSpeed()
        config = self.config
        try:
            results = super().step()
        finally:
            self.config = config
        self.speed.report(results)
        results[ENV_RUNNER_RESULTS].update(self.stream.events)
        if self.survey is not None:
            handed_out = self.stream.anchor.lockstep * self.config.num_lanes
            results["data_epochs"] = handed_out / self.survey.steps
            results.update(self.survey.report)
        results["data_source"] = self.data_sources.pop() if len(self.data_sources) == 1 else "mixed"
        results["weights_digest"] = self.weights_digest()
        results["diverged"] = self.diverged
        if self.diverged:
            results["done"] = True  # Ends the trial, not the sweep.
        return results

    @override(Algorithm)
    def evaluate(self, parallel_train_future: Future | None = None) -> ResultDict:
        group: EnvRunnerGroup | None = self.eval_env_runner_group
        if group is None:
            self.eval_env_runner_group = self._make_evaluation_runners()
        self.parallel_training = parallel_train_future
        try:
            return super().evaluate(parallel_train_future)
        finally:
            self.weights_taken.set()  # Training in parallel must not wait for a failed evaluation.

    def env_runner_recreated(self, in_evaluation: bool, runner: int) -> None:
        """Tells the callbacks that a lost env runner is there again."""
        group = self.eval_env_runner_group if in_evaluation else self.env_runner_group
        make_callback(
            "on_env_runners_recreated",
            callbacks_objects=self.callbacks,
            callbacks_functions=self.config.callbacks_on_env_runners_recreated,
            kwargs={
                "algorithm": self,
                "env_runner_group": group,
                "env_runner_indices": [runner],
                "is_evaluation": in_evaluation,
            },
        )

    def _make_evaluation_runners(self) -> EnvRunnerGroup:
        """The local evaluation runner: RLlib makes none without `evaluation_interval`."""
        return EnvRunnerGroup(
            config=self.evaluation_config,
            local_env_runner=True,
            tune_trial_id=self.trial_id,
        )

    @override(Algorithm)
    def get_module(self, module_id: ModuleID = DEFAULT_MODULE_ID) -> RLModule | None:
        """A copy of the module for inference, with the learner's present weights."""
        if module_id != DEFAULT_MODULE_ID:
            return None
        module = self.module_spec().build()
        weights = self.on_learner(lambda learner: learner.rl_module.get_state())
        own = module.get_state()
        module.set_state({name: weights[name] for name in own})
        return module

    @override(Algorithm)
    def get_policy(self, policy_id: str = DEFAULT_MODULE_ID) -> Any:
        """Refused, and with it `compute_single_action` and `export_policy_model`."""
        raise ValueError(
            "A Policy belongs to RLlib's old API stack: `get_module()` gives the RLModule, whose "
            "`forward_inference` acts; `rllib export` writes it for other programs."
        )

    @override(Algorithm)
    def set_weights(self, weights: dict[ModuleID, dict]) -> None:
        """Gives the learner weights that `get_weights` has returned; env runners have none."""
        self.learner_group.set_weights(weights)

    def module_spec(self) -> RLModuleSpec:
        """Of the module for inference."""
        spaces = self.env_runner_group.get_spaces()
        return self.config.get_rl_module_spec(spaces=spaces, inference_only=True)

    def weights_digest(self) -> str:
        """The first 12 hex digits of a sha256 over all parameters of the learner."""
        return self.on_learner(lambda learner: learner.weights_digest())

    def on_learner(self, function: Callable[[Any], Any]) -> Any:
        """Calls a function with the one learner, local or remote, and returns its result."""
        for result in self.learner_group.foreach_learner(function):
            if result.ok:
                return result.get()
            raise result.get()
        raise RuntimeError(
            "The remote learner was lost: restore the algorithm from its last checkpoint. Tune "
            "does it by itself with `FailureConfig(max_failures=...)`."
        )

    @override(VerifiedCheckpoints)
    def module_weights(self) -> dict[str, np.ndarray]:
        return self.on_learner(lambda learner: learner.rl_module.get_state())

    @override(VerifiedCheckpoints)
    def check_parts(self) -> None:
        error = self.on_learner(lambda learner: learner.checkpoint_error)
        if error is not None:
            raise error

    @override(Algorithm)
    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        **kwargs: Any,
    ) -> StateDict:
        state = super().get_state(components, not_components=not_components, **kwargs)
        if self._check_component(_LANES, components, not_components):
            state[_LANES] = self.stream.anchor.get_state()
        if self.output_writer is not None and self._check_component(
            _OUTPUT, components, not_components
        ):
            state[_OUTPUT] = self.output_writer.get_state()
        with_observer = self._check_component(_OBSERVER, components, not_components)
        if self.observer is not None and with_observer:
            state[_OBSERVER] = self.observer.get_progress()
        if self._check_component(_EVENTS, components, not_components):
            state[_EVENTS] = {
                "sampling": dict(self.stream.events),
                "evaluation": dict(self.evaluation_events),
            }
        return state

    @override(Algorithm)
    def set_state(self, state: StateDict) -> None:
        super().set_state(state)
        self.diverged = False
        if _LANES in state:
            self.stream.restart_from(LaneAnchor.from_state(state[_LANES]))
        if self.output_writer is not None and _OUTPUT in state:
            self.output_writer.set_state(state[_OUTPUT])
        if self.observer is not None and _OBSERVER in state:
            self.observer.set_progress(state[_OBSERVER])
        if _EVENTS in state:
            for counts, saved in (
                (self.stream.events, state[_EVENTS]["sampling"]),
                (self.evaluation_events, state[_EVENTS]["evaluation"]),
            ):
                counts.take()
                counts.update(saved)


def _drawn_seed(trial_id: str) -> int:
    """The seed of a run for which none is given: Tune's trials get theirs again when restored."""
    if trial_id == "default":
        return secrets.randbelow(1 << 31)
    return zlib.crc32(trial_id.encode()) >> 1
