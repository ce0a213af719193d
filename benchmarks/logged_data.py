"""Geoff-PAC, TD3, CQL and IQL on one data set: picture, numbers and table of docs/data.md.

    python benchmarks/logged_data.py ~/ray_results --write

after the commands in the heads of tuned_examples/data/*.yaml. It draws what `rllib plot` draws.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

from rllib_cli.plot import plots
from rllib_cli.plot.plots import Row
from rllib_cli.results import reading

TASKS = {"Hopper-v5": "hopper", "HalfCheetah-v5": "halfcheetah"}
UPDATES = {
    "GeoffPAC": "9,000 x 110",
    "TD3": "29,000 x 100",
    "CQL": "750 x 256",
    "IQL": "750 x 256",
}
"""Number of updates, and from how many transitions each learns."""
RETURN = "evaluation/env_runners/episode_return_mean"
X = "training_iteration"
ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "data.md"
NUMBERS = ROOT / "paper" / "data" / "logged_data.csv"
PICTURE = ROOT / "paper" / "data" / "figures" / "logged_data.png"
BEGIN, END = "<!-- logged data: table -->", "<!-- end of table -->"


def folders(place: Path) -> list[str]:
    """Those of the experiments that have results."""
    named = [place / f"data-{t}-{algo.lower()}" for t in TASKS.values() for algo in UPDATES]
    return [str(folder) for folder in named if any(folder.glob("*/result.json"))]


def write_numbers(paths: list[str], file: Path) -> None:
    """CSV: a row for each evaluation of every run."""
    with open(file, "w", newline="", encoding="utf-8") as out:
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow(["task", "algo", "seed", "iteration", "return", "hours"])
        for trial in reading.load(paths):
            hours = [report["time_total_s"] / 3600 for report in trial.reports]
            curve = zip(*trial.curve(RETURN, X), hours, strict=True)
            name = trial.params["env"], trial.run, trial.params["seed"]
            rows.writerows([*name, int(x), f"{y:.5g}", f"{h:.3g}"] for x, y, h in curve)


def table(rows: list[Row]) -> str:
    """Markdown: a line for each task and algorithm."""
    titles = ["task", "algorithm", "updates x transitions", "last return", "of each seed", "best"]
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for row in rows:
        seeds = ", ".join(f"{value:.3g}" for value in row.finals)
        last = f"{row.last:.3g} +- {row.last_error:.2g}"
        cells = [row.panel, row.label, UPDATES[row.label], last, seeds, f"{row.best:.3g}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Draws and prints; with --write into the repository."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="Where `rllib train` has put the results.")
    parser.add_argument("--write", action="store_true", help="Put them into the repository.")
    arguments = parser.parse_args()
    place = arguments.folder.expanduser()
    paths = folders(place)
    picture = PICTURE if arguments.write else place / PICTURE.name
    drawn = plots.plot(paths, RETURN, ["run"], str(picture), x=X)
    text = table(drawn.rows)
    print(text)
    if arguments.write:
        write_numbers(paths, NUMBERS)
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
