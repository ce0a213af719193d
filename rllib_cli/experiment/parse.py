"""From a YAML or Python file, or the command line, to a list of :class:`Experiment`."""

import copy
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rllib_cli import storage
from rllib_cli.errors import UserError
from rllib_cli.experiment import names, safe_yaml, search_space
from rllib_geoffpac.validation import did_you_mean

if TYPE_CHECKING:
    from ray.rllib.algorithms import Algorithm


@dataclass(frozen=True)
class Experiment:
    """One named experiment: what a top-level key of a tuned-example YAML holds.

    Attributes:
        name: The folder of its results, below ``storage_path``.
        run: Name of the algorithm.
        config: The algorithm's settings as written, ``env`` among them; may hold search spaces.
        stop: Flat result key -> value at which a trial ends.
        num_samples: Repetitions of each grid point (seeds).
        checkpoint_config: Keyword arguments of ``ray.tune.CheckpointConfig``.
        tune_config: ``metric``, ``mode``, ``scheduler``, ``search_alg``, ...
        failure_config: ``max_failures``.
        storage_path: Folder or URI that receives the experiment's folder; None is Tune's default.
        algorithm: The Algorithm class of a ``.py`` file; None finds it by ``run``.
    """

    name: str
    run: str
    config: dict[str, Any] = field(default_factory=dict)
    stop: dict[str, Any] = field(default_factory=dict)
    num_samples: int = 1
    checkpoint_config: dict[str, Any] = field(default_factory=dict)
    tune_config: dict[str, Any] = field(default_factory=dict)
    failure_config: dict[str, Any] = field(default_factory=dict)
    storage_path: str | None = None
    algorithm: "type[Algorithm] | None" = None

    @property
    def folder(self) -> str:
        """The experiment's results folder (a path or a URI)."""
        return storage.join(self.storage_path or default_storage_path(), self.name)

    @property
    def search_algorithm(self) -> str | None:
        """Who chooses the values of the trials; None: they are drawn before the run."""
        given = self.tune_config.get("search_alg")
        return given.get("type") if isinstance(given, dict) else given

    def drawn(self) -> tuple[dict[str, Any], int]:
        """The config, and how often Tune draws from it, with one seed per sample.

        A search algorithm compares its trials, so that they all have the same seed.
        """
        if self.search_algorithm is not None:
            return self.config, self.num_samples
        return search_space.seeds_for_samples(self.config, self.num_samples)


def default_storage_path() -> str:
    """Tune's default results folder."""
    return os.environ.get("RAY_AIR_STORAGE_PATH") or str(Path("~/ray_results").expanduser())


def load(path: str | Path) -> list[Experiment]:
    """Reads an experiment file: RLlib's classic YAML format, or Python with a ``config``.

    Raises:
        UserError: For a missing or malformed file, or an unknown key.
    """
    path = Path(path)
    if not path.exists():
        siblings = [str(path.parent / p.name) for p in _experiment_files(path.parent)]
        raise UserError(
            f"The experiment file {str(path)!r} does not exist.{did_you_mean(str(path), siblings)} "
            "'rllib example list' shows the shipped ones."
        )
    if path.is_dir():
        raise UserError(f"{str(path)!r} is a folder; give the experiment file inside it.")
    if path.suffix == ".py":
        from rllib_cli.experiment.python_file import load_python

        return [load_python(path)]
    if path.suffix not in (".yaml", ".yml", ".json"):
        raise UserError(
            f"{str(path)!r}: an experiment file ends in .yaml, .yml, .json or .py, "
            f"not in {path.suffix!r}."
        )
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{str(path)!r} is not valid YAML: it is not UTF-8 text.") from None
    except OSError as error:
        raise UserError(f"{str(path)!r} cannot be read: {error.strerror}.") from None
    return parse(text, source=str(path))


def _experiment_files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return [p for p in folder.iterdir() if p.suffix in (".yaml", ".yml", ".json", ".py")]


def parse(text: str, source: str = "experiment") -> list[Experiment]:
    """Parses the text of a YAML experiment file."""
    document = safe_yaml.loads(text, source)
    if document is None:
        raise UserError(f"{source} is empty; it needs a named experiment with at least 'run'.")
    if not isinstance(document, dict):
        raise UserError(
            f"{source}: an experiment file is a mapping from names to experiments, "
            f"got a {type(document).__name__}."
        )
    if "run" in document and not isinstance(document["run"], dict):
        raise UserError(
            f"{source}: 'run' stands at the top level; indent the whole experiment below a name, "
            "as in 'my-experiment:\\n  run: GeoffPAC\\n  env: ...'."
        )
    return [_from_mapping(name, spec, source) for name, spec in document.items()]


def _from_mapping(name: str, spec: Any, source: str) -> Experiment:
    where = f"{source}: {name}"
    if not name or "/" in name or "\x00" in name or name in (".", ".."):
        raise UserError(f"{source}: the experiment name {name!r} cannot be the name of a folder.")
    if not isinstance(spec, dict):
        raise UserError(f"{where} must be a mapping with at least 'run', got {spec!r}.")
    for key in spec:
        if key in names.OLD_EXPERIMENT_KEYS:
            raise UserError(
                f"{where}: {key!r} is no key of an experiment any more; "
                f"write {names.OLD_EXPERIMENT_KEYS[key]}."
            )
        if key not in names.EXPERIMENT_KEYS:
            raise UserError(
                f"{where}: unknown key {key!r}.{did_you_mean(key, names.EXPERIMENT_KEYS)} "
                f"An experiment has the keys {', '.join(names.EXPERIMENT_KEYS)}; "
                "settings of the algorithm go below 'config'."
            )
    if "run" not in spec:
        raise UserError(f"{where}: 'run', the name of the algorithm, is missing.")
    for key, kind in _KINDS.items():
        if spec.get(key) is not None and not isinstance(spec[key], kind):
            raise UserError(
                f"{where}: {key!r} must be {_KIND_NAMES[kind]}, got {spec[key]!r} "
                f"({type(spec[key]).__name__})."
            )
    config = dict(spec.get("config") or {})
    if spec.get("env") is not None:
        if config.get("env") not in (None, spec["env"]):
            raise UserError(
                f"{where}: 'env' is {spec['env']!r} and config's 'env' is {config['env']!r}. "
                "Keep one of the two."
            )
        config["env"] = spec["env"]
    return Experiment(
        name=name,
        run=spec["run"],
        config=config,
        stop=flatten(spec.get("stop") or {}),
        num_samples=1 if spec.get("num_samples") is None else spec["num_samples"],
        checkpoint_config=dict(spec.get("checkpoint_config") or {}),
        tune_config=dict(spec.get("tune_config") or {}),
        failure_config=dict(spec.get("failure_config") or {}),
        storage_path=_expand(spec.get("storage_path")),
    )


_KINDS = {
    "run": str,
    "stop": dict,
    "config": dict,
    "num_samples": int,
    "checkpoint_config": dict,
    "storage_path": str,
    "tune_config": dict,
    "failure_config": dict,
}
_KIND_NAMES = {str: "text", dict: "a mapping", int: "an integer"}


def from_command_line(algo: str, env: str | None, config: str | None, name: str) -> Experiment:
    """The experiment of ``rllib train --algo ... --env ... --config '{...}'``."""
    settings = mapping_option(config, "--config")
    if env is not None:
        settings["env"] = env
    return Experiment(name=name, run=algo, config=settings)


def mapping_option(text: str | None, option: str) -> dict[str, Any]:
    """Parses an option whose value is a YAML or JSON mapping."""
    if text is None:
        return {}
    value = safe_yaml.loads(text, option)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UserError(f"{option} must be a mapping such as '{{\"key\": 1}}', got {text!r}.")
    return value


def set_option(config: dict[str, Any], assignment: str) -> dict[str, Any]:
    """Returns a copy of ``config`` with one ``--set key=value`` applied.

    The value is read as YAML; dots in the key go into nested mappings.
    """
    key, equals, text = assignment.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts):
        raise UserError(
            f"--set {assignment!r}: write key=value, for instance --set lambda_1=0.7 "
            "or --set env_config.size=5."
        )
    value = safe_yaml.loads(text, f"--set {key.strip()}", inside=parts)
    config = copy.deepcopy(config)
    node = config
    for depth, part in enumerate(parts[:-1]):
        child = node.setdefault(part, {})
        if not isinstance(child, dict):
            raise UserError(
                f"--set {assignment!r}: {'.'.join(parts[: depth + 1])!r} is {child!r}, "
                "not a mapping that could hold a key."
            )
        node = child
    node[parts[-1]] = value
    return config


@dataclass(frozen=True)
class Overrides:
    """What the command line changes in every experiment of a file; None leaves it alone."""

    set: tuple[str, ...] = ()
    env: str | None = None
    data: str | None = None
    stop: str | None = None
    seed: int | None = None
    num_samples: int | None = None
    storage_path: str | None = None
    experiment_name: str | None = None
    checkpoint_freq: int | None = None
    checkpoint_at_end: bool | None = None
    keep_checkpoints_num: int | None = None
    max_failures: int | None = None


def override(experiments: list[Experiment], given: Overrides) -> list[Experiment]:
    """Applies the command line's options to all experiments."""
    return [_override(experiment, given, len(experiments) > 1) for experiment in experiments]


def _override(experiment: Experiment, given: Overrides, several: bool) -> Experiment:
    config = dict(experiment.config)
    if given.env is not None:
        config["env"] = given.env
    if given.seed is not None:
        config["seed"] = given.seed
    for assignment in given.set:
        config = set_option(config, assignment)
    if given.data is not None:
        config["input_"] = given.data
    for key in ("input_", "output"):
        on_this_machine = not config.get(f"{key.removesuffix('_')}_filesystem")
        if on_this_machine and is_data_path(config.get(key)):
            config[key] = _expand(config[key])  # a trial's own folder is elsewhere
    checkpoint_config = dict(experiment.checkpoint_config)
    for key, value in (
        ("checkpoint_frequency", given.checkpoint_freq),
        ("checkpoint_at_end", given.checkpoint_at_end),
        ("num_to_keep", given.keep_checkpoints_num),
    ):
        if value is not None:
            checkpoint_config[key] = value
    changes: dict[str, Any] = {"config": config, "checkpoint_config": checkpoint_config}
    if given.stop is not None:
        changes["stop"] = flatten(mapping_option(given.stop, "--stop"))
    if given.num_samples is not None:
        changes["num_samples"] = given.num_samples
    if given.max_failures is not None:
        changes["failure_config"] = {"max_failures": given.max_failures}
    if given.storage_path is not None:
        changes["storage_path"] = _expand(given.storage_path)
    if given.experiment_name is not None:
        if not given.experiment_name.strip() or given.experiment_name.startswith(("/", "..")):
            raise UserError(
                f"--experiment-name {given.experiment_name!r} must be a folder name below the "
                "storage path; choose that with --storage-path."
            )
        name = given.experiment_name.strip("/")
        changes["name"] = f"{name}/{experiment.name}" if several else name
    return replace(experiment, **changes)


def is_data_path(value: Any) -> bool:
    """Whether a setting names a local file or folder of data."""
    named = isinstance(value, str) and bool(value.strip())  # nothing at all is not this folder
    return named and value != "sampler" and not value.startswith("minari:")


def _expand(storage_path: str | None) -> str | None:
    """Tune needs an absolute path; URIs stay as they are."""
    if storage_path is None or storage.is_uri(storage_path):
        return storage_path
    return os.path.abspath(os.path.expanduser(storage_path))


def flatten(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """``{"env_runners": {"num_episodes": 1}}`` -> ``{"env_runners/num_episodes": 1}``."""
    flat: dict[str, Any] = {}
    for key, child in value.items():
        if isinstance(child, dict) and child:
            flat.update(flatten(child, f"{prefix}{key}/"))
        else:
            flat[f"{prefix}{key}"] = child
    return flat


def env_names(experiment: Experiment) -> list[str]:
    """The names of the environments of an experiment; several if they are searched over."""
    env: Any = experiment.config.get("env")
    if search_space.is_search_space(env):
        env = next(iter(env.values()))
    return [name for name in (env if isinstance(env, list) else [env]) if isinstance(name, str)]
