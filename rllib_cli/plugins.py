"""The packages whose algorithms the command serves beside RLlib's own, and what it asks them.

The command knows no algorithm. A package is served by naming a module of it in ``PLUGINS``, which
imports neither Ray nor torch and has

* ``ALGORITHMS``: the names under which importing the package registers algorithms with Tune,
* ``METRICS`` and ``metrics_of(name)``: all rows of results, and those of one algorithm, see
  :class:`rllib_geoffpac.metrics.Metric`. They decide which stop keys are accepted, what 'best'
  means, and what is shown while training,
* ``CODE_KEYS``: settings that may be ``package.module:name`` and stay text in the config,
* ``SETTING_LABELS``: setting -> how a plot calls it,
* ``diagnose(result)``: sentences about a flat result that looks bad, for the user to see.

Where Ray is imported, the ``AlgorithmConfig`` itself is asked. It may have

* ``check_env(env)``: raises ValueError if the algorithm can't learn in this environment,
* ``for_measuring()``: a copy that learns from the first step on and leaves nothing behind, to see
  how fast it is,
* ``result_metrics()``: its rows, for a class that is registered under no known name,
* ``target_policy_runner(make_env, episodes, seed, explore)``: an object that plays episodes of the
  learned policy: ``module`` (for the weights), ``sample(episodes=[0, 1, ...])`` and ``stop()``,
* ``record_data(out, num_steps)``: writes what its fixed behaviour policy does as a data set, and
  tells ``place``, ``episodes`` and ``steps``,
* ``exported_policy(weights, sampled)``: the learned policy as a plain torch module with ``columns``
  (its inputs), ``noise_size`` and ``module``, and its description,
* ``evaluate_on_data(weights, data, checkpoint=, gamma_hat=, behavior=, deterministic=, updates=,
  seed=)``: what logged data say (``checkpoint``: where the connectors' state is), see
  :class:`rllib_geoffpac.offline_evaluation.evaluation.OfflineEvaluation`.

RLlib's own configs have none of these and are served in RLlib's way.
"""

import importlib
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rllib_geoffpac.metrics import Metric

if TYPE_CHECKING:
    from ray.rllib.algorithms import Algorithm

PLUGINS = ("rllib_geoffpac.command_line",)


def modules() -> list[ModuleType]:
    """The modules that answer; their packages are imported and so registered."""
    return [importlib.import_module(name) for name in PLUGINS]


def packages() -> list[ModuleType]:
    """The packages themselves."""
    return [importlib.import_module(name.partition(".")[0]) for name in PLUGINS]


def algorithms() -> tuple[str, ...]:
    """The names of all algorithms that plugins bring."""
    return tuple(name for module in modules() for name in module.ALGORITHMS)


def metrics_of(run: str, algorithm: "type[Algorithm] | None" = None) -> Sequence[Metric] | None:
    """The rows of an algorithm's results; None for RLlib's own algorithms.

    Args:
        run: Its name.
        algorithm: The class, where it is at hand: it may be registered under no name.
    """
    for module in modules():
        if run in module.ALGORITHMS:
            return module.metrics_of(run)
    if algorithm is None:
        return None
    ask = getattr(algorithm.get_default_config(), "result_metrics", None)
    return None if ask is None else ask()


def diagnose(run: str, result: Mapping[str, Any]) -> list[str]:
    """What the package of an algorithm says of a flat result that looks bad."""
    return [
        sentence
        for module in modules()
        if run in module.ALGORITHMS
        for sentence in module.diagnose(result)
    ]


def all_metrics() -> list[Metric]:
    """Every row of every plugin."""
    return [metric for module in modules() for metric in module.METRICS]


def code_keys() -> frozenset[str]:
    """Settings of the plugins' algorithms that may name code."""
    return frozenset().union(*(module.CODE_KEYS for module in modules()))


def setting_labels() -> dict[str, str]:
    """Settings of the plugins' algorithms that have a symbol."""
    return {key: label for module in modules() for key, label in module.SETTING_LABELS.items()}
