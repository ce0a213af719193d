"""Where the reproduction's files are."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
DATA = ROOT / "paper" / "data"
CURVES = DATA / "curves"
EXAMPLES = ROOT / "tuned_examples"
PUBLISHED = (
    ROOT / "README.md",
    ROOT / "docs" / "results.md",
    ROOT / "docs" / "what-makes-it-work.md",
)
"""The pages with tables of the results, between their ``<!-- results: title -->`` marks."""
