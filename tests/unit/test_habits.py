"""Tests of the tests: what they show, and what they refuse."""

import logging
import warnings
from pathlib import Path

import pytest

import rllib_geoffpac


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
