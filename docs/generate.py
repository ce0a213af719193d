"""Fills what the pages say about settings, options and metrics from the code that defines them.

    python docs/generate.py            rewrites the pages
    python docs/generate.py --check    fails if one of them is out of date

Generated text stands between `<!-- generated: name -->` and `<!-- end of generated -->`. The
tables of results have marks of their own, which paper/publish.py fills.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGES = ("yaml.md", "command-line.md", "metrics.md", "rllib-features.md")
_BLOCK = re.compile(r"(<!-- generated: (\w+) -->\n)(.*?)(<!-- end of generated -->)", re.DOTALL)


def pages() -> dict[Path, str]:
    """Every page with generated text, as it should read."""
    found = {}
    for name in PAGES:
        path = HERE / name
        text = path.read_text(encoding="utf-8")
        found[path] = _BLOCK.sub(lambda m: f"{m[1]}\n{_TABLES[m[2]]()}\n\n{m[4]}", text)
    return found


def settings_of_lanes() -> str:
    """What all five algorithms share."""
    from rllib_geoffpac.algorithms.config import LaneAlgorithmConfig

    return _settings("GeoffPAC", LaneAlgorithmConfig, ("training", "env_runners", "evaluation"))


def settings_of_emphatic() -> str:
    """What Geoff-PAC, ACE and Off-PAC add."""
    from rllib_geoffpac import GeoffPACConfig

    return _settings("GeoffPAC", GeoffPACConfig, ("training",))


def settings_of_deterministic() -> str:
    """What DDPG adds, and TD3 beyond it."""
    from rllib_geoffpac import DDPGConfig, TD3Config

    ddpg = _settings("DDPG", DDPGConfig, ("training",))
    return f"{ddpg}\n\nTD3 has these as well:\n\n{_settings('TD3', TD3Config, ('training',))}"


def _settings(algorithm: str, config_class: type, methods: tuple[str, ...]) -> str:
    from rllib_geoffpac.algorithms import ALGORITHMS

    defaults = vars(ALGORITHMS[algorithm].get_default_config())
    rows = ["| key | default | meaning |", "|---|---|---|"]
    for method in methods:
        for key, meaning in _arguments(getattr(config_class, method)).items():
            rows.append(f"| `{key}` | {_yaml(defaults[key])} | {_cell(meaning)} |")
    return "\n".join(rows)


def _arguments(function: Callable) -> dict[str, str]:
    """The arguments in a Google-style docstring, in their order; without **kwargs."""
    text = (inspect.getdoc(function) or "").partition("Args:\n")[2]
    found: dict[str, str] = {}
    for line in text.splitlines():
        start = re.match(r"    (\w+): (.*)", line)
        if start:
            key = start[1]
            found[key] = start[2]
        elif not line.startswith("        "):
            break
        else:
            found[key] += " " + line.strip()
    return {key: meaning for key, meaning in found.items() if key != "kwargs"}


def _yaml(value: Any) -> str:
    names = {None: "`null`", True: "`true`", False: "`false`"}
    if value is None or isinstance(value, bool):
        return names[value]
    return f"{value:,}" if isinstance(value, int) else f"`{value}`"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("( ", "(").split())


def options_of_train() -> str:
    """The options of `rllib train file`; `rllib train` and `example run` have them, too."""
    return _options("train", "file")


def options_of_evaluate() -> str:
    """The options of `rllib evaluate`."""
    return _options("evaluate")


def options_of_record() -> str:
    """The options of `rllib record`."""
    return _options("record")


def options_of_plot() -> str:
    """The options of `rllib plot`."""
    return _options("plot")


def options_of_report() -> str:
    """The options of `rllib report`."""
    return _options("report")


def options_of_watch() -> str:
    """The options of `rllib watch`."""
    return _options("watch")


def metrics() -> str:
    """All metrics, place by place."""
    from rllib_geoffpac.metrics import glossary

    return glossary().strip()


def rllib_settings() -> str:
    """What becomes of every setting of RLlib, method by method."""
    from rllib_geoffpac.algorithms.rllib_settings import HONOURED, REFUSED, RENAMED_BY_RLLIB

    parts = []
    for method in sorted({*HONOURED, *REFUSED, *RENAMED_BY_RLLIB}):
        rows = [f"### {method}", "", "| setting | what happens | |", "|---|---|---|"]
        for key, words in HONOURED.get(method, {}).items():
            rows.append(f"| `{key}` | honoured | {_cell(words)} |")
        for key, words in REFUSED.get(method, {}).items():
            rows.append(f"| `{key}` | error | {_cell(words)} |")
        for key in RENAMED_BY_RLLIB.get(method, ()):
            rows.append(f"| `{key}` | RLlib's old name | |")
        parts.append("\n".join(rows))
    return "\n\n".join(parts)


def _options(*verb: str) -> str:
    import typer

    from rllib_cli.app import app

    command: Any = typer.main.get_command(app)
    for word in verb:
        command = command.commands[word]
    rows = ["| option | meaning |", "|---|---|"]
    for parameter in command.params:
        if parameter.param_type_name != "option":
            continue
        names = [*parameter.opts, *parameter.secondary_opts]
        value = "" if parameter.is_flag else f" {parameter.metavar or 'VALUE'}"
        spelled = ", ".join(f"`{name}{value if name.startswith('--') else ''}`" for name in names)
        rows.append(f"| {spelled} | {_cell(parameter.help or '')} |")
    return "\n".join(rows)


_TABLES: dict[str, Callable[[], str]] = {
    function.__name__: function
    for function in (
        settings_of_lanes,
        settings_of_emphatic,
        settings_of_deterministic,
        options_of_train,
        options_of_evaluate,
        options_of_record,
        options_of_plot,
        options_of_report,
        options_of_watch,
        metrics,
        rllib_settings,
    )
}


def main() -> None:
    """Rewrites or checks the pages."""
    stale = [path for path, text in pages().items() if path.read_text(encoding="utf-8") != text]
    if "--check" in sys.argv[1:]:
        if stale:
            names = ", ".join(path.name for path in stale)
            sys.exit(f"{names}: out of date; run python docs/generate.py")
        return
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
