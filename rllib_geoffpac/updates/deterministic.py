"""One update of DDPG and TD3 from a replay batch.

Read it beside the papers' pseudocode, Algorithm 1 in both. Like the emphatic update it is written
over `Networks` and runs on every backend.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rllib_geoffpac.maths.arrays import Array, as_type
from rllib_geoffpac.maths.deterministic import critic_loss, q_target, smoothed_target_action
from rllib_geoffpac.updates.networks import Function, Networks
from rllib_geoffpac.updates.transitions import Transitions

ACTOR_METRICS = ("actor_objective", "action_saturation_share")
"""What is reported of the updates in which the actor is due."""

_SATURATED = 0.99  # of the half width of the action box


class Replayed(NamedTuple):
    """What one update learns from.

    Attributes:
        batch: [N, ...] replayed transitions, actions [N, d] in the unit box.
        noise: [N, d] standard normal numbers for TD3's target action; None for DDPG.
        actor_is_due: Whether pi and the target copies learn in this update.
        numbers: Hyperparameters that are numbers, by their config keys.
    """

    batch: Transitions
    noise: Array | None
    actor_is_due: Array
    numbers: Mapping[str, Array]


class DeterministicUpdate:
    """Everything that one update of DDPG or TD3 does; there is nothing to remember.

    TD3 differs by its two critics, of which `q_target` takes the lower one, by the noise on the
    target action, and by when the actor is due.
    """

    losses: tuple[str, ...] = ()
    """Nothing is reported but of learning."""

    def summary(self, networks: Networks, memory: tuple, look: None) -> dict[str, Array]:
        """Nothing beyond what every update reports."""
        return {}

    def __call__(
        self, networks: Networks, memory: tuple, inputs: Replayed, *, learn: bool = True
    ) -> tuple[tuple, dict[str, Array]]:
        """One update; returns the empty memory and scalars to report."""
        batch, numbers = inputs.batch, inputs.numbers
        action = networks("pi", batch.next_observations, target=True)
        if inputs.noise is not None:
            action = smoothed_target_action(
                action, inputs.noise, numbers["target_noise"], numbers["target_noise_clip"]
            )
        next_q = networks("q", batch.next_observations, action, target=True)
        target = q_target(batch.rewards, batch.discount, next_q)

        def critics(q: Function) -> tuple[Array, Array]:
            values = q(batch.observations, batch.actions)
            loss = critic_loss(values, target)
            return loss, {"critic_loss": loss, "q_mean": values[0].mean()}

        def actor(pi: Function) -> tuple[Array, dict[str, Array]]:
            action = pi(batch.observations)
            objective = networks("q", batch.observations, action)[0].mean()
            saturated = as_type(abs(action) > _SATURATED, action).mean()
            return -objective, dict(zip(ACTOR_METRICS, (objective, saturated), strict=True))

        def learn_actor() -> dict[str, Array]:
            report = networks.learn("pi", actor)
            networks.update_targets(numbers["tau"])
            return report

        report = networks.learn("q", critics)
        report["q_target_mean"] = target.mean()
        return (), report | networks.when(inputs.actor_is_due, learn_actor)
