"""The options of `rllib evaluate`."""

from enum import Enum
from typing import Annotated

import typer

from rllib_cli.errors import UserError
from rllib_cli.options import Env, option


class VideoFormat(str, Enum):
    """File formats of recorded episodes."""

    mp4 = "mp4"
    gif = "gif"


def evaluate(
    checkpoint: Annotated[
        str, typer.Argument(metavar="CHECKPOINT", help="A checkpoint of a trial: folder or URI.")
    ],
    episodes: Annotated[
        int | None, option("Number of episodes (default: 10).", "--episodes")
    ] = None,
    data: Annotated[
        str | None,
        option(
            "Play nothing: estimate J_pi, J_mu and J_gamma_hat from logged data, a folder or URI "
            "of episodes or minari:DATASET-ID.",
            "--data",
            metavar="DATASET",
        ),
    ] = None,
    gamma_hat: Annotated[
        float | None,
        option("With --data: of J_gamma_hat (default: the checkpoint's).", "--gamma-hat"),
    ] = None,
    behavior: Annotated[
        str | None,
        option(
            "With --data: mu, uniform, estimated or package.module:name (default: the "
            "checkpoint's); log-densities in the data come before uniform.",
            "--behavior",
        ),
    ] = None,
    updates: Annotated[
        int | None,
        option(
            "With --data: learning steps of each network that is fitted (default: 3000).",
            "--updates",
        ),
    ] = None,
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
    """Roll a checkpoint's target policy out, and print J_pi and return with standard errors.

    With --data, estimate its objectives from logged data instead.
    """
    if data is not None:
        from rllib_cli.evaluate import logged

        played = {"--episodes": episodes, "--env": env, "--video-dir": video_dir}
        logged.evaluate_logged_command(
            checkpoint,
            logged.LoggedOptions(
                data, gamma_hat, behavior, deterministic, updates, seed, weights_only
            ),
            [flag for flag, value in played.items() if value is not None],
            out,
        )
        return
    estimated = {"--gamma-hat": gamma_hat, "--behavior": behavior, "--updates": updates}
    for flag, value in estimated.items():
        if value is not None:
            raise UserError(f"{flag} is for logged data: give them with --data, or leave it out.")
    from rllib_cli.evaluate import measure as evaluation

    evaluation.evaluate_command(
        checkpoint,
        evaluation.EvaluateOptions(
            episodes=10 if episodes is None else episodes,
            env=env,
            deterministic=deterministic,
            seed=seed,
            video_dir=video_dir,
            video_format=video_format.value,
            weights_only=weights_only,
        ),
        out,
    )
