"""Learners of equal structure share one compiled program, and learn as if each had its own."""

from __future__ import annotations

import gc
import pickle
import weakref
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
import torch
from backend_runs import Run

from rllib_geoffpac import ACEConfig, GeoffPACConfig
from rllib_geoffpac.maths.distributions import Categorical, DiagonalGaussian
from rllib_geoffpac.updates.emphatic import EmphaticUpdate
from rllib_geoffpac.updates.learned import V
from rllib_geoffpac.updates.xla import program
from rllib_geoffpac.updates.xla.optimizers import CompiledOptimizer
from rllib_geoffpac.updates.xla.program import Program, key_of, shared


@pytest.fixture(autouse=True)
def nothing_shared_yet():
    shared.cache_clear()


@pytest.fixture
def traced(monkeypatch) -> list:
    """Grows while something is traced."""
    seen: list = []

    class Networks(program.XlaNetworks):
        def __init__(self, *arguments):
            seen.append(1)
            super().__init__(*arguments)

    monkeypatch.setattr(program, "XlaNetworks", Networks)
    return seen


def ace(hidden=(3,), config=None, **training) -> Run:
    """The smallest program there is."""
    config = (config or ACEConfig()).training(**training)
    return Run(config, "fast", fcnet_hiddens=list(hidden))


def learned(run: Run) -> dict[str, np.ndarray]:
    run.learn(2)
    return {name: value.copy() for name, value in run.backend.named_parameters().items()}


@pytest.mark.slow
def test_a_second_learner_of_equal_structure_traces_nothing_and_one_of_another_does(traced):
    ace().learn(1)
    assert traced
    traced.clear()
    ace(lr=0.01, grad_clip=0.3, lambda_1=0.2, tau=0.5).learn(1)
    assert not traced
    ace(hidden=(4,)).learn(1)
    assert traced


@pytest.mark.slow
def test_what_is_learned_is_the_same_bit_for_bit_with_and_without_sharing():
    first, second = ace(lr=0.01), ace(lr=0.02)
    assert first.backend.program is second.backend.program
    together = learned(first), learned(second)
    alone = []
    for rate in (0.01, 0.02):
        shared.cache_clear()
        alone.append(learned(ace(lr=rate)))
    for one, other in zip(together, alone, strict=True):
        assert one.keys() == other.keys()
        for name, value in one.items():
            np.testing.assert_array_equal(value, other[name])
    name = next(iter(together[0]))
    assert not np.array_equal(together[0][name], together[1][name])


OTHERS = {
    "other layers": lambda: ace(hidden=(3, 3)),
    "another width": lambda: ace(hidden=(4,)),
    "no bound of the gradient": lambda: ace(grad_clip=None),
    "another optimizer": lambda: ace(optimizer_type="adam"),
    "another distribution": lambda: ace(policy_distribution="beta"),
    "another part switched on": lambda: ace(overlap_target=0.9),
    "another algorithm": lambda: ace(config=GeoffPACConfig()),
    "other bounds of the actions": lambda: Run(
        ACEConfig(), "fast", actions=gym.spaces.Box(-1, 1, (2,)), fcnet_hiddens=[3]
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_whatever_is_traced_as_a_constant_gives_a_program_of_its_own(name):
    assert ace().backend.program is ace().backend.program
    assert OTHERS[name]().backend.program is not ace().backend.program


def test_the_size_of_a_chunk_is_part_of_the_program():
    update, structure = ace().backend.update, ace().backend.program.structure
    assert Program(update, structure, 5) == Program(update, structure, 5)
    assert Program(update, structure, 5) != Program(update, structure, 6)


@pytest.mark.slow
def test_the_names_of_the_numbers_are_part_of_what_is_traced(traced):
    """Two numbers in another order must not take each other's places."""
    run = ace()
    run.learn(1)
    traced.clear()
    chunk = run.chunk(3)
    turned = dict(reversed(chunk.inputs.numbers.items()))
    again = ace()
    again.learn(1)
    run.backend.run(chunk, True)
    assert not traced
    again.backend.run(chunk._replace(inputs=chunk.inputs._replace(numbers=turned)), True)
    assert traced
    for name, value in run.backend.named_parameters().items():
        np.testing.assert_allclose(again.backend.named_parameters()[name], value, atol=1e-12)


def test_of_an_optimizer_the_learning_rate_alone_is_left_out():
    def key(**options):
        optimizer = torch.optim.RMSprop([torch.zeros(2)], **options)
        return key_of(CompiledOptimizer(optimizer, None))

    assert key(lr=0.1) == key(lr=0.2)
    assert len({key(), key(weight_decay=0.1), key(alpha=0.9), key(eps=1e-3)}) == 4


def test_what_a_user_writes_is_equal_to_itself_alone():
    class Mine(EmphaticUpdate):
        pass

    settings = ACEConfig().update_settings()
    mine = Mine(settings)
    assert key_of(mine) == key_of(mine) != key_of(Mine(settings))
    assert key_of(EmphaticUpdate(settings)) == key_of(EmphaticUpdate(settings))
    rules = [replace(V, rule=lambda v, given: (0, 0)) for _ in range(2)]
    assert key_of(V) == key_of(V) != key_of(rules[0]) != key_of(rules[1])


def test_numbers_and_arrays_are_told_apart_to_the_bit():
    assert key_of(1) != key_of(1.0) != key_of(True)
    assert key_of(0.0) != key_of(-0.0)
    assert key_of(np.zeros(2)) == key_of(np.zeros(2)) != key_of(np.zeros(2, np.float32))
    assert key_of(np.array([0.0])) != key_of(np.array([-0.0]))
    low = DiagonalGaussian(gym.spaces.Box(-1, 1, (2,)))
    high = DiagonalGaussian(gym.spaces.Box(-1, 2, (2,)))
    assert key_of(low) == key_of(DiagonalGaussian(gym.spaces.Box(-1, 1, (2,), seed=3)))
    assert key_of(low) != key_of(high)
    one, other = (Categorical(gym.spaces.Discrete(3, start=start)) for start in (0, 1))
    assert key_of(one) != key_of(other)


def test_a_copy_of_a_space_is_the_same_to_a_program():
    """Every algorithm has copies of its own."""
    space = gym.spaces.Box(-1, 1, (2,))
    copied = pickle.loads(pickle.dumps(space))
    assert copied.dtype is not space.dtype
    assert key_of(DiagonalGaussian(space)) == key_of(DiagonalGaussian(copied))


def test_a_shared_program_keeps_nothing_of_the_learner_that_made_it():
    run = ace()
    parts = [run.module, *run.optimizers.values(), run.backend]
    alive = [weakref.ref(part) for part in parts]
    assert isinstance(run.module, torch.nn.Module)
    program = run.backend.program
    del run, parts
    gc.collect()
    assert [ref() for ref in alive] == [None] * len(alive)
    assert shared(program) is program
