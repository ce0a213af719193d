"""Size of the report of 200 trials, and milliseconds until it is usable in headless Chromium.

    python benchmarks/report_page.py [--rounds 5]

The page says itself when it is: the curves are drawn, and every button and the search answer. Needs
the extras `report` and `test`, and Debian's packages chromium and chromium-driver.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from headless import headless_chromium
from result_folders import write_sweep

from rllib_cli.report import page


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        grid = [{"gamma_hat": g / 20, "lambda_1": m / 10} for g in range(20) for m in range(10)]
        sweep = write_sweep(Path(folder, "sweep"), grid, reports=50, metrics=60)
        file = Path(folder, "page.html")
        page.report_command([str(sweep)], str(file))
        browser = headless_chromium(Path(folder, "chromium"))
        try:
            times = [milliseconds(browser, file) for _ in range(rounds)]
        finally:
            browser.quit()
        walls, works = zip(*times, strict=True)
        print(f"{file.stat().st_size / 1e6:.1f} MB, of {rounds} rounds median (lowest to highest):")
        for name, values in (("usable after", walls), ("work of the main thread", works)):
            middle = statistics.median(values)
            print(f"{name} {middle:.0f} ms ({min(values):.0f} to {max(values):.0f})")


def milliseconds(browser: Any, file: Path) -> tuple[float, float]:
    """From the navigation until the page is usable, and what of it the main thread computed.

    On a busy machine the second tells what the first would be on a quiet one.
    """
    browser.get("about:blank")
    browser.execute_cdp_cmd("Performance.enable", {})
    browser.get(file.as_uri())
    while not (ready := browser.execute_script("return document.documentElement.dataset.ready")):
        time.sleep(0.05)
    metrics = browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    seconds = {metric["name"]: metric["value"] for metric in metrics}
    return float(ready), 1000 * seconds["ThreadTime"]


if __name__ == "__main__":
    main()
