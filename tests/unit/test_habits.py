"""Tests of the tests: what they show, and what they refuse."""

import logging
import re
import warnings
from pathlib import Path

import pytest
import yaml

import rllib_geoffpac

ROOT = Path(__file__).parents[2]


def test_a_deprecated_name_of_ray_is_shown():
    with pytest.warns(DeprecationWarning, match="`old_name` has been deprecated"):
        logging.getLogger("ray._common.deprecation").warning("`old_name` has been deprecated")


def test_our_own_use_of_a_deprecated_name_is_an_error():
    log = logging.getLogger("ray._common.deprecation")
    file = str(Path(rllib_geoffpac.__file__).with_name("example.py"))
    scope = {"log": log, "warnings": warnings, "__name__": "rllib_geoffpac.example"}
    for use in ("log.warning('deprecated')", "warnings.warn('deprecated', DeprecationWarning)"):
        with pytest.raises(DeprecationWarning, match="deprecated"):
            exec(compile(use, file, "exec"), scope)


def test_the_workflow_tests_the_oldest_and_the_newest_ray_that_are_allowed():
    allowed = re.search(r'"ray\[rllib\]>=([\d.]+),<([\d.]+)"', (ROOT / "setup.py").read_text())
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())
    oldest = workflow["jobs"]["oldest-ray"]["env"]["RAY"]
    newest = re.search(r"^ray==([\d.]+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert oldest == f"{allowed[1]}.0"
    minor = int(newest[1].split(".")[1])
    assert allowed[2] == f"2.{minor + 1}"


def test_every_tool_of_the_checks_is_pinned_and_asked_for():
    pins = (ROOT / "constraints.txt").read_text()
    extras = (ROOT / "setup.py").read_text()
    for tool in ("ruff", "mypy", "mkdocs", "pytest", "pytest-cov"):
        assert f"\n{tool}==" in pins
        assert f'"{tool}>=' in extras


def test_constraints_hold_versions_and_nothing_of_a_machine():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert all(re.fullmatch(r"#.*|[\w.-]+==[\w.]+", line) for line in lines)


def test_every_room_is_a_package_that_the_wheel_holds():
    rooms = {
        p.parent for name in ("rllib_geoffpac", "rllib_cli") for p in (ROOT / name).rglob("*.py")
    }
    assert [
        str(room.relative_to(ROOT)) for room in rooms if not (room / "__init__.py").exists()
    ] == []
