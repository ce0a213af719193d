"""What the `rllib` command asks this package before it imports Ray; see `rllib_cli.plugins`."""

from rllib_geoffpac.diagnosis import diagnose
from rllib_geoffpac.metrics import ALGORITHMS, METRICS, metrics_of

__all__ = ["ALGORITHMS", "CODE_KEYS", "METRICS", "SETTING_LABELS", "diagnose", "metrics_of"]

CODE_KEYS = frozenset({"behavior", "interest_fn", "module"})
"""Settings that may be `package.module:name`; the algorithms import it themselves."""

SETTING_LABELS = {
    "gamma_hat": r"$\hat\gamma$",
    "lambda_1": r"$\lambda_1$",
    "lambda_2": r"$\lambda_2$",
}
"""What a plot writes for the settings that the paper has a symbol for."""
