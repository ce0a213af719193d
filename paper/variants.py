"""Names of settings: how a run departs from the paper."""

from __future__ import annotations

from typing import Any

PAPER = "paper"
_EMPHATIC = {
    "value_baseline": None,
    "overlap_coeff": 0.0,
    "policy_distribution": "gaussian",
    "num_lanes": 10,
}
PAPER_SETTINGS: dict[str, dict[str, Any]] = {
    "GeoffPAC": {"gamma_hat": 0.2, "lambda_1": 0.7, "lambda_2": 0.6, **_EMPHATIC},
    "ACE": {"lambda_1": 0.0, **_EMPHATIC},
    "OffPAC": _EMPHATIC,
}
"""The settings that the experiments compare, at the paper's values."""


def variant_name(algo: str, params: dict[str, Any]) -> str:
    """How a run departs from the paper, such as ``value_baseline=ema, overlap_coeff=2``."""
    departures = [
        value if key == "policy_distribution" else f"{key}={_plain(value)}"
        for key, paper in PAPER_SETTINGS.get(algo, {}).items()
        if (value := params.get(key, paper)) != paper
    ]
    return ", ".join(departures) or PAPER


def variant_settings(algo: str, variant: str) -> dict[str, Any]:
    """The inverse of :func:`variant_name`: all compared settings of a run, numbers as floats."""
    settings = dict(PAPER_SETTINGS.get(algo, {}))
    for part in variant.split(", ") if variant != PAPER else ():
        key, _, value = part.rpartition("=")
        number = value.replace(".", "", 1).isdigit()
        settings[key or "policy_distribution"] = float(value) if number else value
    return settings


def _plain(value: Any) -> Any:
    return f"{value:g}" if isinstance(value, float) else value
