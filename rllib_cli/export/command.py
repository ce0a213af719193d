"""The options of `rllib export`."""

from typing import Annotated

import typer

from rllib_cli.options import option


def export(
    checkpoint: Annotated[
        str, typer.Argument(metavar="CHECKPOINT", help="A checkpoint of a trial: folder or URI.")
    ],
    out: Annotated[str, option("File to write: .onnx, or .pt for TorchScript.", "--out")],
    weights_only: Annotated[
        bool,
        option(
            "Do not unpickle the checkpoint: read only arrays from it, settings from params.json.",
            "--weights-only",
        ),
    ] = False,
    sampled: Annotated[
        bool,
        option(
            "Actions are samples, chosen by uniform random numbers that the file takes as a "
            "second input.",
            "--sampled",
        ),
    ] = False,
) -> None:
    """Write a checkpoint's target policy as one file: ONNX or TorchScript.

    It maps observations to the mean or most likely action, or to a sample, and to the
    distribution's parameters, and describes its spaces itself.
    """
    from rllib_cli.export import files

    files.export_command(checkpoint, out, weights_only, sampled)
