"""The settings of one algorithm: what a user may write, and what RLlib is given for it.

What is known about a setting comes from the ``AlgorithmConfig`` itself: the annotations of its
methods, its attributes, and what its ``validate()`` says to a value.
"""

from collections.abc import Iterable
from typing import Any

from rllib_cli.errors import UserError, exception_summary
from rllib_cli.experiment import code_references, names, search_space, value_types
from rllib_geoffpac.compat import BATCH_SIZE_ATTRIBUTE, SETTING_ATTRIBUTES, is_deprecated
from rllib_geoffpac.validation import did_you_mean

# What a user writes -> the argument of the config's method.
_ARGUMENTS = {"callbacks": "callbacks_class", "framework_str": "framework"} | {
    attribute: key for key, attribute in SETTING_ATTRIBUTES.items()
}
_NOT_SETTINGS = {"algo_class", "framework_str", "model", "in_evaluation"}
# Attribute of a callback given as a function -> the argument of ``callbacks()`` behind it.
_CALLBACKS = "callbacks_on_"


class Settings:
    """The settings of an algorithm.

    Args:
        default: Its ``AlgorithmConfig`` as it comes.
        run: Its name, for messages.
    """

    def __init__(self, default: Any, run: str):
        self.default = default
        self.run = run
        self.annotations = value_types.annotations_of(default)
        public = {key: value for key, value in vars(default).items() if key[0] != "_"}
        self.deprecated = {
            key
            for key, value in public.items()
            if is_deprecated(value) and key not in self.annotations
        } - set(names.OLD_CONFIG_KEYS)
        callbacks = {key.removeprefix("callbacks_") for key in public if key.startswith(_CALLBACKS)}
        # The private ones are what a Python experiment may have set through a method.
        private = set(vars(default)) - set(public)
        named = {"framework", "callbacks", "train_batch_size_per_learner"} | callbacks
        self.known = (
            set(public) - _NOT_SETTINGS - self.deprecated - set(names.OLD_CONFIG_KEYS)
        ) | private | set(SETTING_ATTRIBUTES) | named  # fmt: skip

    def annotation(self, key: str) -> Any:
        """What the config's method says about a setting; Any if it says nothing."""
        if key.startswith(_CALLBACKS):
            key = key.removeprefix("callbacks_")
        return self.annotations.get(_ARGUMENTS.get(key, key), Any)

    def check(self, config: dict[str, Any], where: str = "config") -> None:
        """Every key is a setting of the algorithm, and every plain value is of a possible type.

        Raises:
            UserError: For the first that is not.
        """
        for key, value in config.items():
            self._check_key(key, config, where)
            if key == "evaluation_config" and isinstance(value, dict):
                self.check(value, f"{where}.{key}")
            elif key not in ("env", "policies"):  # checked where they are made
                for candidate in search_space.choices(value):
                    self._check_value(key, candidate, where)

    def check_keys(self, keys: Iterable[str], where: str) -> None:
        """Every key is a setting of the algorithm.

        Raises:
            UserError: For the first that is not.
        """
        for key in keys:
            self._check_key(key, {}, where)

    def _check_key(self, key: str, config: dict[str, Any], where: str) -> None:
        if key in self.deprecated:
            raise UserError(
                f"{where}: RLlib has deprecated {key!r}: it would have no effect. Leave it out."
                f"{did_you_mean(key, self.known)}"
            )
        if key not in self.known:
            hint = did_you_mean(key, self.known) or search_space.suggest_spelling(key)
            raise UserError(f"{where}: {self.run} has no setting {key!r}.{hint}")
        per_learner = config.get(
            "train_batch_size_per_learner", vars(self.default).get(BATCH_SIZE_ATTRIBUTE)
        )
        if key == "train_batch_size" and per_learner is not None:
            raise UserError(
                f"{where}: train_batch_size would have no effect, because {self.run} has "
                f"train_batch_size_per_learner {per_learner}. Set that one instead."
            )

    def _check_value(self, key: str, value: Any, where: str) -> None:
        annotation, standard = self.annotation(key), getattr(self.default, key, None)
        if isinstance(value, list) and self._takes_schedule(key, annotation):
            _check_schedule(key, value, where)
            return
        if code_references.is_kept_as_text(key) or _fits(value, annotation):
            return
        # Some of RLlib's annotations are narrower than its own defaults.
        if value is None or type(value) is not type(standard):
            raise UserError(
                f"{where}: {key} is {value!r} ({type(value).__name__}); it must be "
                f"{value_types.describe(annotation)} (default: {standard!r})."
            )

    def _takes_schedule(self, key: str, annotation: Any) -> bool:
        """Not every key that takes a schedule says so; then the config's own check does."""
        if value_types.takes_schedule(annotation):
            return True
        if not value_types.matches(0.5, annotation) or key not in vars(self.default):
            return False
        standard = vars(self.default)[key]
        number = standard if isinstance(standard, float) else 1e-3
        # The first step must be 0: a config that looks at schedules refuses the second.
        good, bad = ([[step, number], [9, number]] for step in (0, 1))
        return self._is_valid(key, good) and not self._is_valid(key, bad)

    def _is_valid(self, key: str, value: Any) -> bool:
        asked = self.default.copy(copy_frozen=False)
        setattr(asked, key, value)
        try:
            asked.validate()
        except Exception:  # it may do with the value what only a number allows
            return False
        return True

    def for_rllib(self, config: dict[str, Any], where: str = "config") -> dict[str, Any]:
        """What ``AlgorithmConfig.update_from_dict`` takes: code imported, attributes by name.

        Search spaces stay as they are written, around values that are changed.

        Raises:
            UserError: If code cannot be imported.
        """
        given: dict[str, Any] = {}
        for key, value in config.items():
            if key == "evaluation_config" and isinstance(value, dict):
                value = self.for_rllib(value, f"{where}.{key}")
            elif key != "env":
                annotation = self.annotation(key)
                value = code_references.resolve(value, annotation, key, where)
                value = self._as_meant(key, value, annotation)
            if f"callbacks_{key}" in vars(self.default):
                key = f"callbacks_{key}"
            given[SETTING_ATTRIBUTES.get(key, key)] = value
        return given

    def _as_meant(self, key: str, value: Any, annotation: Any) -> Any:
        if search_space.is_search_space(value):
            return search_space.map_choices(value, lambda v: self._as_meant(key, v, annotation))
        if key == "policies":
            return self._policies(value)
        return value_types.as_meant(value, annotation)

    def _policies(self, value: Any) -> Any:
        """Names, or a mapping from names to specs, where nothing stands for the default one."""
        from ray.rllib.policy.policy import PolicySpec

        if isinstance(value, dict):
            value = {name: PolicySpec() if spec is None else spec for name, spec in value.items()}
        try:
            return self.default.copy(copy_frozen=False).multi_agent(policies=value).policies
        except ValueError as error:
            raise UserError(f"config: policies: {exception_summary(error)}") from None

    def references(self, config: dict[str, Any]) -> list[str]:
        """The ``package.module:name`` in a config, the environment's among them."""
        found: list[str] = []
        for key, value in config.items():
            if key == "evaluation_config" and isinstance(value, dict):
                found += self.references(value)
            elif key == "env":
                found += [e for e in search_space.choices(value) if code_references.is_reference(e)]
            else:
                found += code_references.find_references(value, self.annotation(key), key)
        return found


def _fits(value: Any, annotation: Any) -> bool:
    """Whether the annotation allows the value, or a reference in place of code.

    Where RLlib takes code it also takes several, as it does with files, without saying so.
    """
    if value_types.matches(value, annotation):
        return True
    if not value_types.is_code(annotation):
        return False
    if isinstance(value, list):
        return all(_fits(element, annotation) for element in value)
    return code_references.is_reference(value)


def _check_schedule(key: str, value: list[Any], where: str) -> None:
    from ray.rllib.utils.schedules.scheduler import Scheduler

    try:
        Scheduler.validate(fixed_value_or_schedule=value, setting_name=key, description="value")
        steps = [step for step, number in value if float(number) == number]
        if steps != sorted(steps):
            raise ValueError("its steps must ascend")
    except (ValueError, TypeError, IndexError) as error:
        raise UserError(
            f"{where}: {key} is {value!r}; a schedule is [[0, value], [step, value], ...]: "
            f"{exception_summary(error, 160)}"
        ) from None
