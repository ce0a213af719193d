"""The one place for private names of Ray and torch, with the reason for each.

A private name may change in any release, so nothing else in the packages, tests and benchmarks
imports one or touches one on a foreign object; and of what our classes inherit from Ray's, they
use and override only the private names of `INHERITED` (`tests/unit/test_private_names.py`).
Importing this module imports neither Ray nor torch: its functions do, when they are called.
"""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ray
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
    from ray.rllib.connectors.connector_v2 import ConnectorV2
    from ray.rllib.core.learner.learner import Learner
    from ray.rllib.core.learner.learner_group import LearnerGroup
    from ray.rllib.env.env_runner_group import EnvRunnerGroup
    from ray.tune import ResultGrid
    from ray.tune.experiment import Trial
    from torch import nn

INHERITED = {
    "_check_component": "Checkpointable: whether `get_state` was asked for a component. Without it "
    "every weight sync would carry the replay ring along.",
    "_dont_auto_sync_env_runner_states": "AlgorithmConfig: mu is fixed, so the env runners need no "
    "weights; there is no public switch.",
    "_env_id": "Algorithm: the environment's name, which another config may change.",
    "_get_env_id_and_creator": "Algorithm: likewise; only the constructor asks for it otherwise.",
    "_forward": "RLModule: RLlib's documented seam for the forward pass of a module.",
    "_get_optimizer_state": "TorchLearner: RLlib rounds the optimizers' state to float32 on its "
    "way to and from a checkpoint, which must resume bit for bit.",
    "_lr_scheduler_classes": "TorchLearner: torch's schedulers, of which its own code keeps those "
    "of one optimizer only.",
    "_learner_connector": "Learner: the traces live in a connector of its pipeline, whose state "
    "RLlib leaves out of `get_state`.",
    "_make_module": "TorchLearner: the target networks are copied when the module has been built; "
    "`build` itself comes too late, its optimizers want the parameters.",
    "_model_config_auto_includes": "AlgorithmConfig: RLlib's documented seam (so its docstring) "
    "for handing an algorithm's settings to its RLModule.",
    "_module": "Learner: the module as it lies there. Its public property `module` brings it up to "
    "date first, which the learner itself must not do at every step.",
    "_named_optimizers": "Learner: the optimizers by name; `get_optimizer` wants the module's id "
    "as well, which their states do not carry.",
    "_set_optimizer_state": "TorchLearner: the other half of `_get_optimizer_state`.",
    "_translate_special_keys": "AlgorithmConfig: which attribute a key of `update_from_dict` "
    "means; needed to refuse misspelt keys, which RLlib accepts.",
    "_update": "TorchLearner: one update per fragment is a sequence of locksteps, not a loss to "
    "be minimised.",
    "_weights_seq_no": "Learner: RLlib's number of the weights' version, which results report; in "
    "public it comes with the whole state only.",
    "_validate_config": "AlgorithmConfig: whether the user wants the checks; RLlib's own name for "
    "it, an argument of `experimental`.",
    "_value_error": "AlgorithmConfig: what its checks raise, which advises a private name.",
}
"""Private names of Ray's base classes that ours use or override, and why no public one serves."""

SETTING_ATTRIBUTES = {
    "model_config": "_model_config",
    "rl_module_spec": "_rl_module_spec",
    "learner_class": "_learner_class",
    "learner_connector": "_learner_connector",
    "env_to_module_connector": "_env_to_module_connector",
    "module_to_env_connector": "_module_to_env_connector",
    "is_atari": "_is_atari",
}
"""Settings of an AlgorithmConfig by what a user writes, and the attribute that holds them.

Reason: RLlib sets these through methods with an argument of that name; `update_from_dict`, which
serves a YAML file, knows the attribute alone.
"""

SWITCH_OF_CHECKS = "_validate_config"
"""The argument of `experimental` that switches RLlib's checks off."""

BATCH_SIZE_ATTRIBUTE = "_train_batch_size_per_learner"
"""Where an AlgorithmConfig keeps `train_batch_size_per_learner`, which is a property."""

FROZEN_ATTRIBUTE = "_is_frozen"
"""What an AlgorithmConfig's attributes hold that is no setting: whether it may be changed."""


class _ByReference:
    """Pickles as the object that a reference `package.module:name` names, without importing it."""

    def __init__(self, reference: str):
        self.reference = reference

    def __reduce__(self) -> tuple[Callable[[str], Any], tuple[str]]:
        return pkgutil.resolve_name, (self.reference,)


def register_trainable_by_reference(name: str, reference: str) -> None:
    """Registers the class `package.module:name` with Ray Tune; it is imported when asked for.

    Reason: `tune.register_trainable` wants the class itself, and importing an RLlib algorithm takes
    5 s. Tune's registry keeps a pickle of the class, which for a class of a module is no more than
    such a reference; `_ByReference` writes it without the import.
    """
    from ray.tune.registry import TRAINABLE_CLASS, _global_registry

    _global_registry.register(TRAINABLE_CLASS, name, _ByReference(reference))


def registered_env_creator(name: Any) -> Callable[[Any], Any] | None:
    """What `tune.register_env` was given for `name`; None if nothing.

    Reason: Tune registers environments in public and looks them up in private.
    """
    from ray.tune.registry import ENV_CREATOR, _global_registry

    if not isinstance(name, str) or not _global_registry.contains(ENV_CREATOR, name):
        return None
    return _global_registry.get(ENV_CREATOR, name)


def env_runner_actors(group: EnvRunnerGroup) -> dict[int, ray.actor.ActorHandle]:
    """The remote env runners' actors by their worker index.

    Reason: `foreach_env_runner` waits for all of them and takes silent ones out of service; lanes
    need each runner's answer by itself, in order, and a restarted runner in its old place.
    """
    return group._worker_manager.actors()


def local_learner(group: LearnerGroup) -> Learner:
    """The learner that lives in this process (`num_learners=0`), for tests and benchmarks.

    Reason: `foreach_learner` gives copies of results, not the object.
    """
    return group._learner


def torch_lr_schedulers(config: AlgorithmConfig, module_id: str) -> list[Callable[[Any], Any]]:
    """The schedulers of torch that a config asks for: functions of an optimizer.

    Reason: `experimental()` takes them by an argument whose name is private.
    """
    classes = config._torch_lr_scheduler_classes or []
    return list(classes[module_id] if isinstance(classes, dict) else classes)


def use_torch_lr_schedulers(config: AlgorithmConfig, classes: list[Callable[[Any], Any]]) -> None:
    """Asks for schedulers of torch; for tests.

    Reason: as for `torch_lr_schedulers`.
    """
    config.experimental(_torch_lr_scheduler_classes=classes)


WAYS_TO_ACT = ("forward_inference", "_forward_inference", "_forward")
"""What an RLModule may override to act in a way of its own.

Reason: these are RLlib's documented seams, and two of them are private.
"""


def has_forward_hooks(network: nn.Module) -> bool:
    """Whether calling a torch module does more than its `forward`.

    Reason: torch registers hooks in public and tells of them in private.
    """
    return bool(network._forward_hooks or network._forward_pre_hooks)


def keep_ray_to_this_machine(token_file: str) -> dict[str, Any]:
    """Prepares a `ray.init(address="local")` that no one else can use; returns its arguments.

    Its processes listen on the loopback interface alone, and answer only who knows the token.

    Reason: Ray replaces 127.0.0.1 by the machine's own address, unless it believes that it can
    have no cluster, as on macOS; the variable that says so is read when Ray is imported. The mode
    of authentication is read then, too, and neither has a public argument.

    Args:
        token_file: A file with the token; its name, not the token, is in the environment of Ray's
            processes.
    """
    import ray._raylet
    from ray._private import ray_constants

    os.environ[ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR] = "0"
    ray_constants.ENABLE_RAY_CLUSTER = False
    os.environ.pop("RAY_AUTH_TOKEN", None)  # it would go before the file
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN_PATH=token_file)
    ray._raylet.Config.initialize("")
    return {"_node_ip_address": "127.0.0.1"}


def freeze_statistics(piece: ConnectorV2) -> bool:
    """Makes a piece keep its statistics as they are; False for all but a MeanStdFilter.

    Reason: it takes that it shall not learn any more when it is made, and evaluation has the
    pieces that the user's function makes for training.
    """
    from ray.rllib.connectors.env_to_module import MeanStdFilter

    if isinstance(piece, MeanStdFilter):
        piece._update_stats = False
        return True
    return False


def is_autoscaling() -> bool:
    """Whether the cluster may get nodes that it does not have yet.

    Reason: Ray knows it of clusters that its launcher started, and says so to Tune alone; KubeRay
    tells its pods.
    """
    from ray.tune.execution.cluster_info import _is_ray_cluster

    return _is_ray_cluster() or "RAY_USAGE_STATS_KUBERAY_IN_USE" in os.environ


def trials_of(results: ResultGrid) -> list[Trial]:
    """Tune's trials in the order of the results.

    Reason: a public `Result` does not tell its trial's id, status and best-so-far metrics.
    """
    return results._experiment_analysis.trials


def is_deprecated(value: Any) -> bool:
    """True for the placeholder that RLlib gives settings that are no more; it is a number, -1.

    Reason: no public module holds the placeholder.
    """
    from ray._common.deprecation import DEPRECATED_VALUE

    return type(value) is type(DEPRECATED_VALUE) and value == DEPRECATED_VALUE


def tune_random_state(seed: int | None) -> Any:
    """The random numbers that Tune's `BasicVariantGenerator` draws a search space with.

    Reason: to tell the trials before Ray is started, just as Tune will draw them.
    """
    from ray.tune.search.sample import _BackwardsCompatibleNumpyRng

    return _BackwardsCompatibleNumpyRng(seed)


def forget_ray_address() -> None:
    """Makes the next `ray.init()` start a Ray of its own; for tests that had a cluster.

    Reason: Ray keeps the address of the last cluster in a file and has no public way to forget it.
    """
    from ray._common.utils import reset_ray_address

    reset_ray_address()


def check_cluster_file(config: dict[str, Any]) -> dict[str, Any]:
    """Fills in and checks a cluster file as `ray up` does; for tests of `deploy/`.

    Reason: `ray up` itself would start machines.
    """
    from ray.autoscaler._private.util import prepare_config, validate_config

    config = prepare_config(config)
    validate_config(config)
    return config


def save_torchscript(script: Any, path: str, files: dict[str, str]) -> None:
    """Writes a TorchScript program with named texts inside its file.

    Reason: the documented argument for such texts is called `_extra_files`.
    """
    import torch

    torch.jit.save(script, path, _extra_files=files)
