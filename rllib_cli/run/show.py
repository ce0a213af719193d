"""What `--show` adds to a finished run: J_pi beside a random agent's, a picture and a video."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rllib_cli import storage
from rllib_cli.errors import UserError
from rllib_cli.experiment.parse import Experiment, env_names
from rllib_cli.results import reading
from rllib_cli.run.progress import number

if TYPE_CHECKING:
    from rllib_cli.run.summary import Outcome

_RANDOM_EPISODES, _RANDOM_STEPS = 20, 5_000
_HORIZON = 1000
"""Steps after which an episode of an endless environment ends."""
FOLDER = "show"


def check(experiments: list[Experiment]) -> None:
    """Looks for what drawing and recording need, before anything is trained.

    Raises:
        UserError: If a library is missing, or the results are not on this machine.
    """
    from rllib_cli.evaluate.recording import check_can_record, use_headless_rendering
    from rllib_cli.plot.plots import check_installed

    folder = experiments[0].folder
    if storage.is_uri(folder):
        raise UserError("--show writes a picture and a video: give a --storage-path on this disk.")
    check_installed()
    check_can_record(folder)
    # MuJoCo decides on import how it renders.
    use_headless_rendering()


def show(finished: "list[tuple[Experiment, Outcome]]", console: Any) -> None:
    """Prints the table, draws the curves and records the best policy that can be rendered."""
    from rich.table import Table

    random = {env: random_agent(env) for e, _ in finished for env in env_names(e)}
    table = Table(box=None, pad_edge=False)
    for title in ("environment", "algorithm"):
        table.add_column(title)
    for title in ("J_pi", "random agent's"):
        table.add_column(title, justify="right")
    for experiment, _ in finished:
        for trial in reading.load([experiment.folder]):
            env = str(trial.params.get("env"))
            values = trial.curve(reading.common_metric([trial], None))[1]
            table.add_row(env, trial.run, number(values[-1]), number(random.get(env)))
    console.print()
    console.print(table)
    target = Path(finished[0][0].folder, FOLDER)
    picture = _draw([experiment.folder for experiment, _ in finished], target, random)
    console.print(f"\nCurves:\n  {picture}", markup=False)
    video = _record(finished, target)
    if video:
        console.print(f"An episode of the policy:\n  {video}", markup=False)


def random_agent(env: str) -> float:
    """J_pi of uniformly random actions, from a few episodes (gamma 0.99)."""
    from rllib_geoffpac.envs.make_env import create_env
    from rllib_geoffpac.maths.value import monte_carlo_values

    made = create_env(env, {})
    values: list[float] = []
    for episode in range(_RANDOM_EPISODES):
        made.reset(seed=episode)
        made.action_space.seed(episode)
        rewards: list[float] = []
        discounts: list[float] = []
        ended = False
        while not ended:
            _, reward, terminated, truncated, info = made.step(made.action_space.sample())
            rewards.append(float(reward))
            discounts.append(float(info.get("discount", 0.99)))
            ended = terminated or truncated or len(rewards) >= _HORIZON
        values.extend(monte_carlo_values(rewards, discounts))
        if len(values) >= _RANDOM_STEPS:
            break
    made.close()
    return sum(values) / len(values)


def _draw(folders: list[str], target: Path, random: dict[str, float]) -> Path:
    from rllib_cli.plot import plots

    levels = {"random agent": random}
    return plots.plot(folders, by=["run"], out=str(target / "curves.png"), levels=levels).path


def _record(finished: "list[tuple[Experiment, Outcome]]", target: Path) -> str | None:
    """A video of the best checkpoint of the first experiment whose environment can be rendered."""
    from rllib_cli.evaluate.measure import EvaluateOptions, evaluate

    for _, outcome in finished:
        if outcome.best_checkpoint is None:
            continue
        options = EvaluateOptions(episodes=1, video_dir=str(target), video_format="gif")
        try:
            return evaluate(outcome.best_checkpoint, options).videos[0]
        except UserError:
            for left in target.glob("episode_*"):
                os.remove(left)
    return None
