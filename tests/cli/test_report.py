"""`rllib report`: the page as a person sees it, in a real browser."""

import re
import time

import pytest
from headless import CHROMIUM, DRIVER, headless_chromium
from result_folders import write_sweep

from rllib_cli.report import page

needs_browser = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver (Debian: chromium-driver)"
)
LOSS = "learners/default_policy/value_loss"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    driver = headless_chromium(tmp_path_factory.mktemp("chromium"))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def report(browser, tmp_path_factory):
    """The page of a grid of six settings with three seeds, open."""
    settings = [{"gamma_hat": g, "lambda_1": lam} for g in (0.1, 0.2, 0.6) for lam in (0.5, 0.7)]
    folder = write_sweep(
        tmp_path_factory.mktemp("runs") / "grid",
        settings,
        seeds=3,
        command="rllib train file grid.yaml",
    )
    (folder / "play.gif").write_bytes(b"GIF89a\x01\x00\x01\x00\x00\x00\x00;")
    page.report_command([str(folder)], None)
    return open_page(browser, folder / "report.html")


def open_page(browser, path):
    browser.get_log("browser"), browser.get_log("performance")
    browser.get(path.as_uri())
    wait_until(lambda: browser.execute_script("return document.documentElement.dataset.ready"))
    return browser


def wait_until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the page never got there"
        time.sleep(0.05)


def traces(browser):
    """The names of the curves that are drawn."""
    return browser.execute_script(
        "return document.querySelector('#plots .plot').data.map(trace => trace.name)"
    )


def click(browser, selector):
    browser.execute_script("document.querySelector(arguments[0]).click()", selector)


@needs_browser
@pytest.mark.slow
def test_the_page_loads_without_an_error_and_asks_no_host(report):
    assert [entry for entry in report.get_log("browser") if entry["level"] == "SEVERE"] == []
    asked = re.findall(r'"url":"((?:http|ws)[^"]*)"', str(report.get_log("performance")))
    assert asked == []


@needs_browser
@pytest.mark.slow
def test_a_seed_can_be_switched_off_and_on(report):
    assert any("seed 1" in name for name in traces(report))
    click(report, '#seeds [data-value="1"]')
    assert not any("seed 1" in name for name in traces(report))
    assert any("mean of 2" in name for name in traces(report))
    click(report, '#seeds [data-value="1"]')
    assert any("mean of 3" in name for name in traces(report))


@needs_browser
@pytest.mark.slow
def test_a_metric_can_be_chosen_and_says_what_it_means(report):
    button = f'#metric-list [data-key="{LOSS}"]'
    meaning = report.execute_script("return document.querySelector(arguments[0]).title", button)
    assert "delta" in meaning
    click(report, button)
    title = "return document.querySelector('#plots .plot').layout.yaxis.title.text"
    assert report.execute_script(title) == "value_loss"
    assert meaning in report.execute_script("return document.getElementById('meaning').textContent")
    click(report, '#metric-list [data-key="evaluation/env_runners/j_pi"]')


@needs_browser
@pytest.mark.slow
def test_small_numbers_are_not_shown_as_nothing(report):
    shown = "return [1.001e-5, 0, -0.00012345, 1234567, null].map(format)"
    assert report.execute_script(shown) == ["1.001e-5", "0", "-0.0001235", "1,235,000", ""]


@needs_browser
@pytest.mark.slow
def test_grids_tables_commands_and_videos_are_on_the_page(report):
    cells = report.execute_script(
        "return document.querySelector('#heat-plots .plot').data[0].z.flat()"
    )
    assert len(cells) == 6 and None not in cells
    text = report.execute_script("return document.body.innerText")
    assert "rllib train file grid.yaml --resume" in text and "rllib evaluate" in text
    rows = "return document.querySelectorAll('#final-table tbody tr').length"
    assert report.execute_script(rows) == 6
    assert re.search(r"\d \[.*, .*\]", text), "no interquartile mean with its interval"
    picture = "return document.querySelector('#video-list img').src"
    assert report.execute_script(picture).startswith("data:image/gif")


@needs_browser
@pytest.mark.slow
def test_it_is_readable_on_a_phone_in_light_and_dark(report):
    report.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True},
    )
    try:
        sizes = "return [document.documentElement.scrollWidth, innerWidth]"
        wait_until(lambda: len(set(report.execute_script(sizes))) == 1)
        ground = "return getComputedStyle(document.body).backgroundColor"
        before = report.execute_script(ground)
        click(report, "#theme")
        assert report.execute_script(ground) != before
    finally:
        report.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.slow
@needs_browser
def test_one_seed_has_no_standard_error(browser, tmp_path):
    folder = write_sweep(tmp_path / "one", [{"gamma_hat": 0.1}], seeds=1)
    page.report_command([str(folder)], None)
    open_page(browser, folder / "report.html")
    rows = "return [...document.querySelectorAll('#final-table tbody tr')].map(r => r.innerText)"
    (row,) = browser.execute_script(rows)
    assert "Hopper-v5" in row and "±" not in row


@needs_browser
@pytest.mark.slow
def test_a_trial_is_found_among_200_and_the_page_stays_small(browser, tmp_path):
    settings = [{"gamma_hat": g / 20, "lambda_1": m / 10} for g in range(20) for m in range(10)]
    folder = write_sweep(tmp_path / "sweep", settings, reports=50, metrics=60)
    page.report_command([str(folder)], str(tmp_path / "page.html"))
    assert (tmp_path / "page.html").stat().st_size < 15e6
    open_page(browser, tmp_path / "page.html")
    browser.execute_script(
        "const find = document.getElementById('find'); find.value = 'gamma_hat=0.35 lambda_1=0.4';"
        "find.dispatchEvent(new Event('input'))"
    )
    found = browser.execute_script(
        "return [...document.querySelectorAll('#trial-table tbody tr')].map(r => r.dataset.trial)"
    )
    assert found == ["trial_00074_0"]
    click(browser, "#trial-table tbody tr")
    widest = "return document.querySelector('#plots .plot').data.filter(t => t.line.width === 4)"
    assert [trace["meta"] for trace in browser.execute_script(widest)] == ["trial_00074_0"]


def test_a_page_that_is_no_page_is_refused(rllib_here, tmp_path):
    folder = write_sweep(tmp_path / "run", [{}])
    refused = rllib_here("report", folder, "--out", "page.png")
    assert refused.status == 2 and "must end in .html or .htm" in refused.err


def test_a_folder_without_results_is_named(rllib_here, tmp_path):
    (tmp_path / "empty").mkdir()
    refused = rllib_here("report", tmp_path / "empty")
    assert refused.status == 2 and "holds no results" in refused.err


@needs_browser
@pytest.mark.slow
def test_without_an_evaluation_the_page_shows_what_there_is(browser, tmp_path):
    folder = write_sweep(tmp_path / "learning", [{}], reports=3, evaluated=False)
    page.report_command([str(folder)], None)
    shown = open_page(browser, folder / "report.html")
    assert [entry for entry in shown.get_log("browser") if entry["level"] == "SEVERE"] == []
    chosen = shown.execute_script("return document.getElementById('metric').value")
    assert chosen == "learners/default_policy/total_loss"
    assert traces(shown)
