"""Search spaces in YAML: a mapping with exactly one of these keys, at any depth of ``config``.

==================================  ======================================
YAML                                Tune
==================================  ======================================
``grid_search: [a, b, c]``          every value, combined with other grids
``choice: [a, b, c]``               one of them, at random
``uniform: [low, high]``            also ``loguniform``, ``randn: [mean, std]``
``quniform: [low, high, step]``     also ``qloguniform``, ``qrandn``
``randint: [low, high]``            high excluded; also ``lograndint``
``qrandint: [low, high, step]``     high included; also ``qlograndint``
==================================  ======================================
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

from rllib_cli.errors import UserError
from rllib_geoffpac.validation import did_you_mean

# Spelling -> number of arguments; None: a list of any length >= 1.
SPELLINGS: dict[str, int | None] = {
    "grid_search": None,
    "choice": None,
    "uniform": 2,
    "quniform": 3,
    "loguniform": 2,
    "qloguniform": 3,
    "randn": 2,
    "qrandn": 3,
    "randint": 2,
    "qrandint": 3,
    "lograndint": 2,
    "qlograndint": 3,
}
# Tune evaluates these as Python code; a YAML file must not be able to.
_CODE_SPELLINGS = ("eval", "sample_from")


def is_search_space(value: Any) -> bool:
    """True for a mapping such as ``{"grid_search": [1, 2]}``."""
    return isinstance(value, dict) and len(value) == 1 and next(iter(value)) in SPELLINGS


def find(value: Any, path: tuple = ()) -> Iterator[tuple[tuple, dict]]:
    """Yields ``(path, search space)`` for every search space inside a value."""
    if is_search_space(value):
        yield path, value
    elif isinstance(value, dict):
        for key, child in value.items():
            yield from find(child, (*path, key))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from find(child, (*path, index))


def check(value: Any, path: str = "config") -> None:
    """Raises UserError for a malformed search space, or one that would run code."""
    if isinstance(value, dict):
        for key in value:
            if key in _CODE_SPELLINGS and len(value) == 1:
                raise UserError(
                    f"{path}: {key!r} would run code and is refused. "
                    f"Use one of {', '.join(SPELLINGS)}."
                )
            if key in SPELLINGS and len(value) > 1:
                raise UserError(
                    f"{path}: {key!r} must be the only key of its mapping, "
                    f"but there are also {sorted(map(str, set(value) - {key}))}."
                )
        if is_search_space(value):
            _check_arguments(path, *next(iter(value.items())))
            return
        for key, child in value.items():
            check(child, f"{path}.{key}")
    elif isinstance(value, list):
        for index, child in enumerate(value):
            check(child, f"{path}[{index}]")


def _check_arguments(path: str, spelling: str, arguments: Any) -> None:
    count = SPELLINGS[spelling]
    if not isinstance(arguments, list) or not arguments:
        raise UserError(
            f"{path}: {spelling} needs a list with at least one value, got {arguments!r}."
        )
    if count is None:
        for index, argument in enumerate(arguments):
            if any(find(argument)):
                raise UserError(
                    f"{path}: a search space inside {spelling} (value {index}) is not supported."
                )
        return
    names = "[mean, std" if "randn" in spelling else "[low, high"
    names += ", step]" if count == 3 else "]"
    if len(arguments) != count or not all(_is_number(argument) for argument in arguments):
        raise UserError(f"{path}: {spelling} needs the numbers {names}, got {arguments!r}.")
    low, high = arguments[:2]
    if "randn" not in spelling and not low < high:
        raise UserError(f"{path}: {spelling} needs low < high, got {arguments!r}.")
    if "log" in spelling and low <= 0:
        raise UserError(f"{path}: {spelling} needs low > 0, got {arguments!r}.")
    if "int" in spelling and not all(isinstance(argument, int) for argument in arguments):
        raise UserError(f"{path}: {spelling} needs integers, got {arguments!r}.")
    if count == 3 and arguments[2] <= 0:
        raise UserError(f"{path}: {spelling} needs step > 0, got {arguments!r}.")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def choices(value: Any) -> list[Any]:
    """The values that a search space names one by one; a distribution names none."""
    if not is_search_space(value):
        return [value]
    spelling, arguments = next(iter(value.items()))
    return arguments if SPELLINGS[spelling] is None else []


def map_choices(value: dict[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """A search space with every value changed that it names; a distribution as it is."""
    spelling, arguments = next(iter(value.items()))
    if SPELLINGS[spelling] is not None:
        return value
    return {spelling: [change(argument) for argument in arguments]}


def to_tune(value: Any) -> Any:
    """Replaces YAML spellings by Tune's objects (imports Ray), everything else is kept."""
    from ray import tune

    if is_search_space(value):
        spelling, arguments = next(iter(value.items()))
        if SPELLINGS[spelling] is None:
            return getattr(tune, spelling)(arguments)
        return getattr(tune, spelling)(*arguments)
    if isinstance(value, dict):
        return {key: to_tune(child) for key, child in value.items()}
    if isinstance(value, list):
        return [to_tune(child) for child in value]
    return value


def seeds_for_samples(config: dict, num_samples: int) -> tuple[dict, int]:
    """Turns ``num_samples`` into seeds: sample k trains with ``seed + k``.

    Runs of the same seed are equal, so N samples of one seed would be N copies. A ``seed`` that is
    a search space is left alone.

    Returns:
        The config with a grid over seeds, and the number of samples left to Tune.
    """
    seed = config.get("seed")
    if num_samples == 1 or is_search_space(seed):
        return config, num_samples
    first = 0 if seed is None else seed
    if not isinstance(first, int):
        return config, num_samples
    return {**config, "seed": {"grid_search": [first + k for k in range(num_samples)]}}, 1


def suggest_spelling(key: str) -> str:
    """A hint for a misspelt search space such as ``gridsearch``."""
    return did_you_mean(key, SPELLINGS)
