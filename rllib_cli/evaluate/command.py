"""The options of `rllib evaluate`."""

from enum import Enum
from typing import Annotated

import typer

from rllib_cli.options import Env, option


class VideoFormat(str, Enum):
    """File formats of recorded episodes."""

    mp4 = "mp4"
    gif = "gif"


def evaluate(
    checkpoint: Annotated[str, typer.Argument(help="A checkpoint of a trial: folder or URI.")],
    episodes: Annotated[int, option("Number of episodes (default: 10).", "--episodes")] = 10,
    env: Env = None,
    deterministic: Annotated[
        bool,
        option(
            "Take the policy's mean or most likely action (default: sample).", "--deterministic"
        ),
    ] = False,
    seed: Annotated[int, option("Seed of episodes and actions (default: 0).", "--seed")] = 0,
    video_dir: Annotated[
        str | None, option("Record every episode into this folder.", "--video-dir")
    ] = None,
    video_format: Annotated[
        VideoFormat, option("Format of the videos: mp4 or gif.", "--video-format")
    ] = VideoFormat.mp4,
    out: Annotated[str | None, option("Write the result as JSON.", "--out")] = None,
    weights_only: Annotated[
        bool,
        option(
            "Do not unpickle the checkpoint: read only arrays from it, settings from params.json. "
            "Use it for checkpoints of strangers.",
            "--weights-only",
        ),
    ] = False,
) -> None:
    """Roll a checkpoint's target policy out, and print J_pi and return with standard errors."""
    from rllib_cli.evaluate import measure as evaluation

    evaluation.evaluate_command(
        checkpoint,
        evaluation.EvaluateOptions(
            episodes=episodes,
            env=env,
            deterministic=deterministic,
            seed=seed,
            video_dir=video_dir,
            video_format=video_format.value,
            weights_only=weights_only,
        ),
        out,
    )
