"""Finite MDPs as logged data: a data set that IS the distribution of mu, and sampled ones.

In `exact_data` all choices are between two equally likely ones, so that the list of all outcomes of
a fixed number of coin tosses, cut where an episode ends, has every episode as often as mu makes it:
what an estimator says of it is its limit, without noise.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from rllib_geoffpac.maths.episodes import Episodes
from rllib_geoffpac.maths.finite_mdp import FiniteMDP
from rllib_geoffpac.maths.off_policy_evaluation import Data
from rllib_geoffpac.maths.tables import softmax_policy


class Logged(NamedTuple):
    """Logged data of an MDP and the policy that they are to evaluate."""

    mdp: FiniteMDP
    policy: np.ndarray  # [S, A]
    states: np.ndarray  # [N]
    actions: np.ndarray  # [N]
    data: Data


def layered_mdp(seed: int) -> tuple[FiniteMDP, np.ndarray]:
    """An MDP with episodes of 1 to 3 transitions, and a policy: states 0, 1; 2, 3; 4, 5.

    From layer k both actions lead to the two states of layer k + 1, each with chance 1/2; but
    action 1 in an even state ends the episode with chance 1/2 instead of leading to the first.
    """
    rng = np.random.default_rng(seed)
    transitions, discounts = np.zeros((6, 2, 6)), np.full((6, 2, 6), 0.8)
    for state, action in itertools.product(range(6), range(2)):
        nexts = outcomes(state, action)
        for following in nexts:
            targets = [0, 1] if following is None else [following]
            transitions[state, action, targets] += 0.5 / len(targets)
    # A step to a later state goes on, one to a start state is the end.
    discounts[:, :, :2] = 0
    discounts *= rng.uniform(0.5, 1, size=discounts.shape)
    rewards = np.repeat(rng.normal(size=(6, 2, 1)), 6, axis=2)
    mdp = FiniteMDP(
        transitions, rewards, discounts, np.full((6, 2), 0.5), rng.uniform(0.5, 2, size=6)
    )
    return mdp, softmax_policy(rng.normal(size=(6, 2)))


def outcomes(state: int, action: int) -> tuple[int | None, int | None]:
    """The two equally likely successors inside the episode; None is its end."""
    if state >= 4:
        return None, None
    first = 2 * (state // 2) + 2
    return (None if state % 2 == 0 and action == 1 else first), first + 1


def exact_data(seed: int = 0) -> Logged:
    """All episodes of `layered_mdp`, each as often as it is likely."""
    mdp, policy = layered_mdp(seed)
    episodes = []
    for start, *coins in itertools.product(range(2), repeat=7):
        state, episode = start, []
        for action, coin in zip(coins[::2], coins[1::2], strict=True):
            following = outcomes(state, action)[coin]
            episode.append((state, action, 0 if following is None else following))
            if following is None:
                break
            state = following
        episodes.append(episode)
    return _logged(mdp, policy, episodes)


def repeated(logged: Logged, times: int, extra: int) -> Logged:
    """The same episodes `times` over, and episode `extra` once more."""
    index = logged.data.episodes
    rows = [*np.tile(np.arange(index.num_transitions), times)]
    rows += range(index.starts[extra], index.ends[extra] + 1)
    lengths = [*np.tile(index.lengths, times), index.lengths[extra]]
    columns = {name: getattr(logged.data, name)[rows] for name in logged.data._fields[1:]}
    data = Data(Episodes(lengths), **columns)
    return logged._replace(states=logged.states[rows], actions=logged.actions[rows], data=data)


def sampled_data(mdp: FiniteMDP, policy: np.ndarray, count: int, seed: int) -> Logged:
    """`count` episodes of mu; the MDP's episodes end with the discount 0 and start in 0 or 1."""
    rng = np.random.default_rng(seed)
    choose, move = mdp.behavior.cumsum(axis=1), mdp.transitions.cumsum(axis=2)
    start = mdp.transitions[0, 0, :2] / mdp.transitions[0, 0, :2].sum()
    states, running = rng.choice(2, size=count, p=start), np.arange(count)
    rows = []
    while len(running):
        actions = (choose[states, :-1] < rng.random((len(states), 1))).sum(axis=1)
        nexts = (move[states, actions, :-1] < rng.random((len(states), 1))).sum(axis=1)
        rows.append(np.stack([running, states, actions, nexts]))
        going_on = mdp.discounts[states, actions, nexts] > 0
        running, states = running[going_on], nexts[going_on]
    owner, states, actions, nexts = np.concatenate(rows, axis=1)
    order = np.argsort(owner, kind="stable")
    return _with_columns(
        mdp, policy, np.bincount(owner), states[order], actions[order], nexts[order]
    )


def _logged(mdp: FiniteMDP, policy: np.ndarray, episodes: list) -> Logged:
    lengths = [len(episode) for episode in episodes]
    states, actions, nexts = np.array(list(itertools.chain(*episodes))).T
    return _with_columns(mdp, policy, lengths, states, actions, nexts)


def _with_columns(mdp, policy, lengths, states, actions, nexts) -> Logged:
    step = (states, actions, nexts)
    rho = (policy / mdp.behavior)[step[:2]]
    data = Data(
        Episodes(lengths), mdp.rewards[step], mdp.discounts[step], rho, mdp.interest[states]
    )
    return Logged(mdp, policy, states, actions, data)
