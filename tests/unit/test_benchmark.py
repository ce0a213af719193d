"""The throughput benchmark runs through and says what it promises; no speed is tested here."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from harness import built, learner_of

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import throughput
import yardsticks

ENV = "Pendulum-v1"


def test_a_ratio_compares_within_rounds():
    # The machine is three times slower in the second round, for everybody.
    rates = {"whole": [80.0, 30.0, 80.0], "one": [100.0, 33.0, 100.0], "other": [90.0, 90.0, 90.0]}
    assert throughput.ratio(rates, "whole", "one") == pytest.approx(0.8)
    assert throughput.ratio(rates, "whole", "one", "other") == pytest.approx(80 / 90)


def test_a_share_is_of_the_time_and_not_of_the_rate():
    rates = {"part": [300.0, 300.0, 100.0], "rest": [100.0, 100.0, 300.0]}
    assert throughput.share(rates, "part", "rest") == pytest.approx(0.25)


def test_the_worst_environment_counts():
    assert throughput.worst("full_over_textbook", [8.0, 12.0]) == 8.0
    assert throughput.worst("sampling_over_bare", [1.1, 1.2]) == 1.2


def test_the_textbook_loop_learns():
    loop = yardsticks.TextbookLoop(ENV, 3)
    before = {name: [p.clone() for p in loop.parameters[name]] for name in loop.parameters}
    loop.run(20)
    for name, parameters in before.items():
        pairs = zip(parameters, loop.parameters[name], strict=True)
        assert all((old != new).any() for old, new in pairs), name
    assert all(np.isfinite(p.detach()).all() for ps in loop.parameters.values() for p in ps)
    assert np.abs(loop.f2).sum() > 0


def test_the_bare_loop_does_the_learners_work(ray):
    with built(throughput.make_config(ENV, lanes=3)) as algo:
        learner = learner_of(algo)
        before = learner.weights_digest()
        loop = yardsticks.BareLoop(ENV, learner)
        loop.run(100)
        assert learner.weights_digest() == before  # the warm-up
        loop.run(20)
        assert learner.weights_digest() != before


def test_the_benchmark_reports_every_ratio(ray, monkeypatch, capsys):
    monkeypatch.setattr(throughput, "ENVIRONMENTS", [ENV])
    arguments = argparse.Namespace(quick=True, rounds=1, seconds=0.01, sweep_locksteps=100)
    results = json.loads(json.dumps(throughput.run(arguments)))
    assert set(results["ratios"]) == set(throughput.TARGETS)
    assert all(ratio > 0 for ratio in results["ratios"].values())
    table = capsys.readouterr().out
    for word in ("bare gymnasium", "full, 2 env runners", "textbook loop", *throughput.TARGETS):
        assert word in table
