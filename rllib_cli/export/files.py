"""Writes a policy as ONNX or TorchScript (imports torch and RLlib inside functions)."""

import importlib.util
import json
import warnings
from pathlib import Path
from typing import Any

from rllib_cli import interruption, out_files, storage
from rllib_cli.errors import UserError, exception_summary
from rllib_cli.evaluate import checkpoints
from rllib_cli.screen import Screen
from rllib_geoffpac.compat import save_torchscript

FORMATS = (".onnx", ".pt")
DESCRIPTION = "policy.json"
"""The name of the description: of an ONNX file's metadata, and of a file inside TorchScript's."""


def export_command(checkpoint: str, out: str, weights_only: bool, sampled: bool) -> None:
    """Exports, and says what the file holds."""
    target = check_out(out)
    place = checkpoints.find_checkpoint(checkpoint)
    with Screen() as screen:
        try:
            description = export(place, target, weights_only, sampled)
        except (UserError, KeyboardInterrupt):
            raise
        except Exception as error:
            log = screen.keep_log(error)
            raise UserError(
                f"The checkpoint cannot be exported: {type(error).__name__}: "
                f"{exception_summary(error)} (details: {log})"
            ) from error
        screen.console.print(
            f"Wrote {target}: {description['algorithm']}'s policy on {description['env']}, "
            f"{' and '.join(description['inputs'])} to {', '.join(description['outputs'])} "
            f"({description['distribution'].replace('_', ' ')}).",
            markup=False,
        )


def check_out(out: str) -> Path:
    """The file to write.

    Raises:
        UserError: If its format is not known, it can't be written, or a library is missing.
    """
    target = out_files.checked(out, FORMATS)
    missing = [name for name in ("onnx", "onnxscript") if not importlib.util.find_spec(name)]
    if target.suffix == ".onnx" and missing:
        raise UserError(
            f"ONNX needs {' and '.join(missing)}: pip install 'rllib_geoffpac[export]'. "
            "TorchScript (.pt) needs nothing more."
        )
    return target


def export(
    place: str, target: Path, weights_only: bool = False, sampled: bool = False
) -> dict[str, Any]:
    """Writes the target policy of a checkpoint; returns its description.

    Raises:
        UserError: If the algorithm's policy can't be exported.
    """
    with interruption.unwinding(), storage.local_copy(place) as folder:
        config = checkpoints.load_config(folder, weights_only)
        make = getattr(config, "exported_policy", None)
        if make is None:
            raise UserError(
                f"{config.algo_class.__name__} can't be exported: its config does not say how its "
                "policy acts. RLlib's algorithms are deployed with RLModule.from_checkpoint."
            )
        policy, description = make(checkpoints.load_weights(folder, weights_only), sampled)
    description |= {"algorithm": config.algo_class.__name__, "env": str(config.env)}
    write = _write_onnx if target.suffix == ".onnx" else _write_torchscript
    out_files.make_room(target)
    write(policy, description, target)
    return description


def _example(policy: Any) -> tuple[Any, ...]:
    """The inputs of two rows, so that their number is seen to be free."""
    import torch

    space = policy.module.observation_space
    space.seed(0)
    observations = torch.stack([torch.as_tensor(space.sample()) for _ in range(2)])
    noise = torch.full((2, policy.noise_size), 0.5, dtype=torch.float64)
    return (observations, noise) if policy.noise_size else (observations,)


def _write_onnx(policy: Any, description: dict[str, Any], target: Path) -> None:
    import onnx
    import torch

    rows = torch.export.Dim("rows")
    program = torch.onnx.export(
        policy,
        _example(policy),
        input_names=description["inputs"],
        output_names=description["outputs"],
        dynamic_shapes=tuple({0: rows} for _ in description["inputs"]),
        dynamo=True,
        verbose=False,
    )
    assert program is not None
    model = program.model_proto
    onnx.helper.set_model_props(model, {DESCRIPTION: json.dumps(description)})
    onnx.save(model, str(target))


def _write_torchscript(policy: Any, description: dict[str, Any], target: Path) -> None:
    import torch

    with warnings.catch_warnings():
        # That shapes of the example become constants, and that torch.export will follow.
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(policy, _example(policy))
        save_torchscript(traced, str(target), {DESCRIPTION: json.dumps(description)})
