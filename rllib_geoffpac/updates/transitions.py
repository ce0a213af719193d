"""A batch of transitions by the paper's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rllib_geoffpac.maths.arrays import Array, namespace


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

    @property
    def successors(self) -> Array:
        """[N, ...] where the lane really went on."""
        chain = self.chain_observations
        return self.next_observations if chain is None else chain

    @classmethod
    def of(cls, columns: Mapping[str, Array]) -> Transitions:
        """From the columns of a training batch or of the replay ring, by RLlib's names."""
        needed, optional = COLUMNS[:-3], COLUMNS[-3:]
        return cls(*(columns[name] for name in needed), *(columns.get(n) for n in optional))

    def first(self, count: int) -> Transitions:
        """The first `count` of them."""
        return Transitions(*(None if c is None else c[:count] for c in self))

    def followed_by(self, others: Transitions) -> Transitions:
        """These and then those."""
        concatenate = namespace(self.rewards).concatenate
        pairs = zip(self, others, strict=True)
        return Transitions(*(None if a is None else concatenate([a, b]) for a, b in pairs))


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
