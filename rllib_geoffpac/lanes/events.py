"""What went wrong and was survived, counted the same way wherever it happens.

A lane, an env runner's answer and an algorithm each hold `EventCounts`; what is counted below is
handed upwards with `take` and ends in the algorithm, which keeps the counts in its checkpoints and
reports them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

ENV_FAILURES = "env_failures"
"""An environment raised, and a new episode (in evaluation: the same one) began in a fresh one."""
LANES_RESIMULATED = "lanes_resimulated"
"""A lane was brought to its place by simulating its episode again."""
LANES_NOT_REPRODUCIBLE = "lanes_not_reproducible"
"""A lane could not be brought back: its environment is not a function of its reset seed."""
RECORDED_CHUNKS_DAMAGED = "recorded_chunks_damaged"
"""A damaged file of a recorded stream was removed."""
ENV_RUNNERS_LOST = "env_runners_lost"
"""An env runner's process ended, and another one did its work."""
ENV_RUNNERS_HUNG = "env_runners_hung"
"""An env runner gave no answer in time, and was replaced."""

EVALUATION_EVENTS = (ENV_FAILURES, ENV_RUNNERS_LOST, ENV_RUNNERS_HUNG)
SAMPLING_EVENTS = (
    ENV_FAILURES,
    LANES_RESIMULATED,
    LANES_NOT_REPRODUCIBLE,
    RECORDED_CHUNKS_DAMAGED,
    ENV_RUNNERS_LOST,
    ENV_RUNNERS_HUNG,
)


class EventCounts(Counter[str]):
    """How often each event happened; a mapping from its name, added up with `update`.

    Args:
        names: The events that can happen, counted from 0 on: they are reported even if none did.
        counts: Counts to go on from, of a checkpoint for example.

    Example:
        >>> events = EventCounts(EVALUATION_EVENTS)
        >>> events["env_failures"] += 2
        >>> total = EventCounts()
        >>> total.update(events.take())
        >>> total["env_failures"], events["env_failures"]
        (2, 0)
    """

    def __init__(self, names: tuple[str, ...] = (), counts: Mapping[str, int] | None = None):
        super().__init__(dict.fromkeys(names, 0))
        self.update(counts or {})

    def take(self) -> dict[str, int]:
        """Returns what was counted and starts again from 0."""
        counts = dict(self)
        for name in self:
            self[name] = 0
        return counts

    def __reduce__(self) -> tuple:  # Counter's own takes the counts for the first argument
        return type(self), ((), dict(self))
