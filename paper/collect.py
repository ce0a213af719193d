"""Collects runs into small CSV files, and makes summary, tables and pictures from these.

    python -m paper.collect RUNS_FOLDER     reads the folders that Tune wrote, then all below
    python -m paper.collect                 summary.csv and tables.md from curves/*.csv, the
                                            published tables and the tuned examples' headers
    python -m paper.collect --draw          also draws figures/*.png from them

Only the first form needs the run folders: whoever has this repository can do the others. Several
folders may be given, and a run that is still going on is collected up to its latest evaluation.
Committed runs that are in none of the folders stay: an experiment's seeds may come one by one.
"""

from __future__ import annotations

import argparse
import sys

from paper import curves, levels, publish, summary, tables
from paper.entries import entries
from paper.places import DATA, EXAMPLES, ROOT
from rllib_cli.errors import UserError
from rllib_cli.experiment import parse as experiments
from rllib_cli.plot import plots
from rllib_cli.results import reading
from rllib_cli.results.reading import TrialResult


def commands() -> dict[str, str]:
    """Experiment name -> the command that repeats it, from the experiment files."""
    return {
        experiment.name: f"rllib train file {path.relative_to(ROOT).as_posix()}"
        for path in sorted(EXAMPLES.glob("*/*.yaml"))
        for experiment in experiments.load(path)
    }


def _known(trials: list[TrialResult]) -> list[TrialResult]:
    """Leaves out what no experiment file defines: nobody could repeat it by a command."""
    known = commands()
    for name in sorted({trial.experiment for trial in trials} - set(known)):
        print(f"Left out: {name}, which no file in tuned_examples/ defines.")
    return [trial for trial in trials if trial.experiment in known]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="*", metavar="RUNS_FOLDER", help="folders that Tune wrote")
    parser.add_argument("--draw", action="store_true", help="draw the pictures")
    arguments = parser.parse_args()
    try:
        if arguments.runs:
            curves.write(curves.of_trials(_known(reading.load(arguments.runs))))
        table = curves.read()
        found, compared = entries(table), levels.read()
        summary.write(found, commands(), DATA / "summary.csv")
        tables.write(found, compared, DATA / "tables.md")
        changed = publish.publish(found, compared)
        if arguments.draw:
            plots.check_installed()
            from paper import draw

            changed += draw.draw_all(table, compared, DATA / "figures")
        for path in changed:
            print(path.relative_to(ROOT))
    except UserError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
