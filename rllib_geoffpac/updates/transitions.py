"""A batch of transitions by the paper's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from rllib_geoffpac.maths.arrays import Array, namespace
from rllib_geoffpac.maths.value import importance_ratio
from rllib_geoffpac.updates.networks import Networks


class Transitions(NamedTuple):
    """N transitions of the behaviour policy's chain; any library's arrays.

    Attributes:
        observations: [N, ...] S_t.
        actions: [N, ...] A_t.
        rewards: [N] R_{t+1}.
        next_observations: [N, ...] S_{t+1}: where the lane really went on, but the final
            observation after a time limit with `truncation="bootstrap"`.
        behavior_logp: [N] log mu(A_t|S_t).
        discount: [N] gamma_{t+1}.
        valid: [N] 0 for a transition cut by `truncation="bootstrap"`, else 1.
        interest: [N] i(S_t); None where nobody asks for it.
        next_interest: [N] i(S_{t+1}); None where nobody asks for it.
        chain_observations: [N, ...] where the lane really went on, also after a time limit; None:
            `next_observations` has it, or nobody asks for it.
        before: The transitions of the same lanes before them; None: nobody asks for them.
    """

    observations: Array
    actions: Array
    rewards: Array
    next_observations: Array
    behavior_logp: Array
    discount: Array
    valid: Array
    interest: Array | None = None
    next_interest: Array | None = None
    chain_observations: Array | None = None
    before: Window | None = None

    @property
    def successors(self) -> Array:
        """[N, ...] where the lane really went on."""
        chain = self.chain_observations
        return self.next_observations if chain is None else chain

    @classmethod
    def of(cls, columns: Mapping[str, Array], before: Window | None = None) -> Transitions:
        """From the columns of a training batch or of the replay ring, by RLlib's names."""
        needed, optional = COLUMNS[:-3], COLUMNS[-3:]
        named = (*(columns[name] for name in needed), *(columns.get(n) for n in optional))
        return cls(*named)._replace(before=before)

    def map(self, function: Callable[..., Array], *others: Transitions) -> Transitions:
        """A function of every column (and those of others); `before` is left out."""
        rows = zip(*(batch[:-1] for batch in (self, *others)), strict=True)
        return Transitions(*(None if row[0] is None else function(*row) for row in rows))

    def first(self, count: int) -> Transitions:
        """The first `count` of them."""
        window = self.before
        if window is not None:
            window = window.map(lambda column: column[:, :count])
        return self.map(lambda column: column[:count])._replace(before=window)

    def followed_by(self, others: Transitions) -> Transitions:
        """These and then those."""
        concatenate, window = namespace(self.rewards).concatenate, self.before
        if window is not None and others.before is not None:
            window = window.map(lambda a, b: concatenate([a, b], 1), others.before)
        return self.map(lambda a, b: concatenate([a, b]), others)._replace(before=window)

    def and_before(self, count: int) -> Transitions:
        """[count + 1, N, ...] with the `count` transitions before each of them, oldest first."""
        rows = self.map(lambda column: column[None])
        if not count or self.before is None:
            return rows
        concatenate, window = namespace(self.rewards).concatenate, self.before.last(count)
        return window.transitions.map(lambda a, b: concatenate([a, b]), rows)

    def flat(self) -> Transitions:
        """[n, N, ...] as [n * N, ...]."""
        return self.map(lambda column: column.reshape(-1, *column.shape[2:]))


class Window(NamedTuple):
    """The n transitions of the same lane before each of N, time-major, the oldest first.

    Attributes:
        transitions: [n, N, ...].
        connected: [n, N] 1 where a transition leads to the state of the next row, that after the
            last row being the N transitions' own; 0 where the lane was cut or did not exist yet.
        exists: [n, N] 1; 0 where the lane did not exist yet, and the row means nothing.
    """

    transitions: Transitions
    connected: Array
    exists: Array

    def map(self, function: Callable[..., Array], *others: Window) -> Window:
        """A function of every array (and those of others)."""
        transitions = self.transitions.map(function, *(other.transitions for other in others))
        rows = zip(*((w.connected, w.exists) for w in (self, *others)), strict=True)
        return Window(transitions, *(function(*row) for row in rows))

    def last(self, count: int) -> Window:
        """The `count` rows that are nearest."""
        return self.map(lambda column: column[-count:])


def ratios(
    networks: Networks, batch: Transitions, numbers: Mapping[str, Array]
) -> tuple[Array, Array]:
    """rho_t = pi(A_t|S_t) / mu(A_t|S_t): as it is, and clipped to [0, rho_clip]."""
    target_logp = networks.log_prob(batch.observations, batch.actions)
    rho = importance_ratio(target_logp, batch.behavior_logp)
    return rho, rho.clip(max=numbers["rho_clip"])


INTEREST, NEXT_INTEREST, CHAIN_OBS = "interest", "next_interest", "chain_obs"
COLUMNS = (
    "obs",
    "actions",
    "rewards",
    "new_obs",
    "action_logp",
    "discount",
    "valid",
    INTEREST,
    NEXT_INTEREST,
    CHAIN_OBS,
)
"""The columns in the order of `Transitions`."""
