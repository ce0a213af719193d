"""Every backend does what torch does: the same updates on random transitions, in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import tree
from backend_runs import CASES, CHUNK, Run, run_of

from rllib_geoffpac import GeoffPACConfig
from rllib_geoffpac.modules import MLPRLModule
from rllib_geoffpac.updates.backend import Chunk
from rllib_geoffpac.updates.choice import why_not_fast


@pytest.mark.parametrize("name", CASES)
def test_the_compiled_backend_equals_torch(name):
    truth, fast = (run_of(name, kernel) for kernel in ("torch", "fast"))
    chunks = 24 if name in ("geoff_pac", "td3") else 8
    reports = [run.learn(chunks) for run in (truth, fast)]
    for name_, expected in truth.backend.named_parameters().items():
        assert not np.array_equal(expected, truth.start[name_]), name_
        learned = fast.backend.named_parameters()[name_]
        np.testing.assert_allclose(learned, expected, rtol=0, atol=1e-10, err_msg=name_)
    memories = [tree.flatten(run.backend.get_memory()) for run in (truth, fast)]
    for expected, own in zip(*memories, strict=True):
        if expected is None:
            assert own is None
            continue
        np.testing.assert_allclose(own, expected, rtol=0, atol=1e-10)
    for expected, own in zip(*reports, strict=True):
        for part in ("of_steps", "of_chunk"):
            mine, theirs = getattr(own, part)(), getattr(expected, part)()
            assert mine.keys() == theirs.keys()
            for key, values in theirs.items():
                np.testing.assert_allclose(mine[key], values, rtol=0, atol=1e-10, err_msg=key)
    # The optimizers' states can be exchanged with torch's.
    fast.backend.store()
    for key, optimizer in truth.optimizers.items():
        mine, theirs = fast.optimizers[key].state_dict(), optimizer.state_dict()
        states = [
            {p: {n: v for n, v in s.items() if v is not None} for p, s in d["state"].items()}
            for d in (mine, theirs)
        ]
        states = [{p: s for p, s in d.items() if s} for d in states]
        torch.testing.assert_close(*states, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["geoff_pac", "td3"])
def test_what_others_write_into_the_module_is_taken_over(name):
    for kernel in ("torch", "fast"):
        once, twice = run_of(name, kernel), run_of(name, kernel)
        once.learn(4)
        twice.learn(2)
        twice.backend.hand_over()
        saved = {n: p.clone() for n, p in twice.module.state_dict().items()}
        with torch.no_grad():
            for parameter in twice.module.parameters():
                parameter.zero_()
        twice.module.load_state_dict(saved)
        twice.learn(2, first=2)
        for key, expected in once.backend.named_parameters().items():
            np.testing.assert_array_equal(twice.backend.named_parameters()[key], expected)


@pytest.mark.parametrize("name", ["geoff_pac", "td3"])
def test_a_chunk_can_be_cut_anywhere(name):
    """Bit for bit: how data are cut into fragments must not show."""
    whole, cut = run_of(name, "fast"), run_of(name, "fast")
    whole.learn(3)
    for seed in range(3):
        chunk = cut.chunk(seed)
        for first, last in ((0, 1), (1, 4), (4, CHUNK)):
            part = tree.map_structure(
                lambda a: a[first:last] if a is not None else None,  # noqa: B023
                chunk.inputs,
            )
            cut.backend.run(Chunk(part, last - first, chunk.look), True)
    for key, expected in whole.backend.named_parameters().items():
        np.testing.assert_array_equal(cut.backend.named_parameters()[key], expected)


@pytest.mark.parametrize("kernel", ["torch", "fast"])
def test_nothing_but_the_memory_changes_without_learning(kernel):
    run = run_of("geoff_pac", kernel)
    report = run.backend.run(run.chunk(0), False)
    for name, parameter in run.backend.named_parameters().items():
        np.testing.assert_array_equal(parameter, run.start[name])
    assert "value_loss" not in report.of_steps()
    assert run.backend.get_memory().traces.f1.any()


@pytest.mark.parametrize("kernel", ["torch", "fast"])
def test_denormal_numbers_are_left_to_others_as_they_are(kernel):
    run = run_of("geoff_pac", kernel)
    run.learn(1)
    assert np.array([5e-324])[0] * 1 > 0


@pytest.mark.parametrize("kernel", ["torch", "fast"])
def test_a_snapshot_brings_everything_back(kernel):
    run, other = run_of("geoff_pac", kernel), run_of("geoff_pac", kernel)
    run.learn(1)
    snapshot = run.backend.snapshot()
    run.learn(3, first=1)
    run.backend.roll_back(snapshot)
    run.learn(1, first=1)
    other.learn(2)
    for key, expected in other.backend.named_parameters().items():
        np.testing.assert_array_equal(run.backend.named_parameters()[key], expected)


@pytest.mark.parametrize("kernel", ["torch", "fast"])
def test_a_restarted_lane_forgets_overflowed_traces(kernel):
    run = run_of("geoff_pac", kernel)
    run.learn(1)
    memory = run.backend.get_memory()
    memory.traces.f1[0] = np.inf
    memory.traces.f2[0] = np.inf
    run.backend.set_memory(memory)
    chunk = run.chunk(1)
    chunk.inputs.chain_start[0, 0] = True
    run.backend.run(chunk, True)
    assert run.backend.is_finite()
    assert np.isfinite(run.backend.get_memory().traces.f2).all()


# ---------------------------------------------------------------------------------------------
# The compiled backend declines by itself.


class OtherModule(MLPRLModule):
    """Could compute anything."""


class OtherLearner:
    """Has an own idea of gradients."""

    def postprocess_gradients_for_module(self, **kwargs):
        return kwargs


def test_another_module_is_declined_with_the_reason():
    module = Run(GeoffPACConfig(), "torch", module=OtherModule).module
    assert "the module is a OtherModule" in why_not_fast("auto", module)
    with pytest.raises(ValueError, match=r"`kernel` is 'fast', but .* is a OtherModule"):
        why_not_fast("fast", module)


def test_another_layer_is_declined_with_the_reason():
    module = Run(GeoffPACConfig(), "torch", fcnet_activation="silu").module
    assert "a SiLU is none of its layers" in why_not_fast("auto", module)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda p: torch.optim.AdamW(p), "the optimizer is a AdamW"),
        (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), "the optimizer has momentum=0.9"),
        (lambda p: torch.optim.RMSprop(p, centered=True), "the optimizer has centered=True"),
        (lambda p: torch.optim.Adam(p, amsgrad=True), "the optimizer has amsgrad=True"),
    ],
)
def test_another_optimizer_is_declined_with_the_reason(make, reason):
    run = Run(GeoffPACConfig(), "torch")
    optimizers = {**run.optimizers, "v": make(run.module.parameters_of("v"))}
    assert f"{reason} (of v)" in why_not_fast("auto", run.module, optimizers)


def test_an_override_of_the_learner_is_declined_with_the_reason():
    module = Run(GeoffPACConfig(), "torch").module
    reason = why_not_fast("auto", module, learner_class=OtherLearner)
    assert reason.startswith("OtherLearner overrides `postprocess_gradients_for_module`")


def test_without_jax_torch_serves_and_the_log_says_what_is_missed(monkeypatch, caplog):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with caplog.at_level("INFO", logger="rllib_geoffpac"):
        assert Run(GeoffPACConfig(), "auto").backend.name == "torch"
    assert "JAX is not installed (pip install 'rllib_geoffpac[fast]'" in caplog.text
