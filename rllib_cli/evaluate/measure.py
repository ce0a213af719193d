"""Rolls a checkpoint's target policy out and measures J_pi and the return."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from rllib_cli import interruption, out_files, storage
from rllib_cli.errors import UserError, exception_summary
from rllib_cli.evaluate import checkpoints
from rllib_cli.screen import Screen

TRUST_NOTE = (
    "This checkpoint is loaded with pickle, which can run code: use only those you trust, "
    "or --weights-only."
)


@dataclass(frozen=True)
class EvaluateOptions:
    """How to evaluate.

    Attributes:
        episodes: Number of episodes.
        env: Another environment than the one trained on; None keeps it.
        deterministic: Take the mean or most likely action instead of sampling pi.
        seed: Seed of the episodes and of the sampled actions.
        video_dir: Folder for one video per episode; None records nothing.
        video_format: ``mp4`` or ``gif``.
        weights_only: Read only arrays from the checkpoint, see `checkpoints`.
    """

    episodes: int = 10
    env: str | None = None
    deterministic: bool = False
    seed: int = 0
    video_dir: str | None = None
    video_format: str = "mp4"
    weights_only: bool = False


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation found; standard errors are over episodes.

    J_pi, the paper's metric, is the mean over all visited states of the discounted return from
    there to the end of the episode.
    """

    algorithm: str
    env: str
    checkpoint: str
    episodes: int
    deterministic: bool
    seed: int
    gamma: float
    j_pi: float
    j_pi_stderr: float
    episode_return_mean: float
    episode_return_stderr: float
    episode_len_mean: float
    episode_returns: list[float]
    episode_lengths: list[int]
    videos: list[str]


def evaluate(checkpoint: str | Path, options: EvaluateOptions | None = None) -> Evaluation:
    """Evaluates a checkpoint; no Ray process is started.

    Raises:
        UserError: If the checkpoint, the environment or an option is wrong.
    """
    options = options or EvaluateOptions()
    place = check_options(checkpoint, options)
    if options.video_dir:
        from rllib_cli.evaluate.recording import use_headless_rendering

        use_headless_rendering()
    from rllib_cli.evaluate import rollouts

    with interruption.unwinding(), storage.local_copy(place) as folder:
        config = checkpoints.load_config(folder, options.weights_only)
        if options.env is not None:
            config.environment(env=options.env)
        env = str(config.env)
        videos: list[str] = []
        episodes = rollouts.play(config, folder, options, videos)
    summary = rollouts.summarize(episodes)
    return Evaluation(
        algorithm=config.algo_class.__name__,
        env=env,
        checkpoint=place,
        episodes=options.episodes,
        deterministic=options.deterministic,
        seed=options.seed,
        gamma=config.gamma,
        episode_returns=[float(sum(episode.rewards)) for episode in episodes],
        episode_lengths=[len(episode.rewards) for episode in episodes],
        videos=videos,
        **{key: summary[key] for key in _SUMMARY_KEYS},
    )


_SUMMARY_KEYS = (
    "j_pi",
    "j_pi_stderr",
    "episode_return_mean",
    "episode_return_stderr",
    "episode_len_mean",
)


def check_options(checkpoint: str | Path, options: EvaluateOptions) -> str:
    """The checks that need no RLlib; returns the checkpoint's folder or URI."""
    if options.episodes < 1:
        raise UserError(f"--episodes is {options.episodes}; it must be at least 1.")
    if options.seed < 0:
        raise UserError(f"--seed is {options.seed}; it must be at least 0.")
    place = checkpoints.find_checkpoint(checkpoint)
    if options.video_dir:
        from rllib_cli.evaluate.recording import check_can_record

        check_can_record(options.video_dir)
    return place


def evaluate_command(checkpoint: str, options: EvaluateOptions, out: str | None) -> None:
    """``rllib evaluate``: evaluates, prints, and writes JSON."""
    target = None if out is None else out_files.checked(out)
    place = check_options(checkpoint, options)
    with Screen() as screen:
        if not options.weights_only:
            screen.console.print(TRUST_NOTE, style="dim", markup=False)
        try:
            result = evaluate(place, options)
        except (UserError, KeyboardInterrupt):
            raise
        except Exception as error:
            log = screen.keep_log(error)
            raise UserError(
                f"The checkpoint cannot be evaluated: {type(error).__name__}: "
                f"{exception_summary(error)} (details: {log})"
            ) from error
        screen.console.print(describe(result), markup=False)
        if target is not None:
            out_files.make_room(target)
            target.write_text(json.dumps(asdict(result), indent=2) + "\n")
            screen.console.print(f"Written: {out}", markup=False)


def describe(result: Evaluation) -> str:
    """The evaluation in a few lines."""
    how = "mean or most likely actions" if result.deterministic else "sampled actions"
    lines = [
        f"{result.algorithm} on {result.env}, {result.episodes} "
        f"episode{'s' * (result.episodes != 1)}, {how}, seed {result.seed}",
        f"J_pi    {_with_error(result.j_pi, result.j_pi_stderr, result.episodes)}",
        "return  "
        + _with_error(result.episode_return_mean, result.episode_return_stderr, result.episodes),
        f"length  {result.episode_len_mean:,.1f} steps",
    ]
    if result.episodes == 1:
        lines.append("One episode gives no standard error.")
    lines += [f"video   {path}" for path in result.videos]
    return "\n".join(lines)


def _with_error(value: float, error: float, episodes: int) -> str:
    return f"{value:.4g} +- {error:.2g}" if episodes > 1 else f"{value:.4g}"
