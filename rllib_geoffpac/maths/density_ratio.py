"""Learning the density ratio c(s) = d_gamma_hat(s) / d_mu(s).

Everything works on arrays of any library (`maths.arrays`); N is the number of transitions in the
batch. `valid` [N] is 1 for a transition of the chain and 0 where the lane was cut by
`truncation="bootstrap"`: the state after such a cut is not a successor of the state before it.
Teleports after a termination ARE transitions of the chain and stay in.
"""

from __future__ import annotations

from rllib_geoffpac.maths.arrays import Array


def density_ratio_loss(
    density_ratio_next: Array,
    target_density_ratio: Array,
    rho: Array,
    *,
    gamma_hat: Array | float,
    valid: Array,
) -> Array:
    """Half the mean squared error of the gamma_hat-discounted COP rule (paper, Eq. c_td).

    (gamma_hat rho_t C'(S_t) + (1 - gamma_hat) - C(S_{t+1}))^2 / 2, over the valid transitions; its
    semi-gradient moves C(S_{t+1}), because c at a state depends on the states BEFORE it.

    Args:
        density_ratio_next: [N] C(S_{t+1}), where S_{t+1} is the state the lane really goes to:
            after a termination the first state of the next episode.
        target_density_ratio: [N] C'(S_t) of the target network, without gradient.
        rho: [N] rho_t.
        gamma_hat: degree of counterfactualness; [N] where transitions differ in it.
        valid: [N] 1 or 0.

    Returns:
        The scalar loss, 0 when no transition is valid.
    """
    error = gamma_hat * rho * target_density_ratio + (1 - gamma_hat) - density_ratio_next
    return _valid_mean(error * error, valid) / 2


def leave_one_out_mean(density_ratio: Array, valid: Array) -> Array:
    """Return for every sample i the mean of C_j over the valid samples j != i: [N], [N] -> [N].

    Where there is no other valid sample the mean is 0.
    """
    weight = valid * 1.0
    others = weight.sum() - weight
    total = (weight * density_ratio).sum() - weight * density_ratio
    return total / (others + (others == 0))


def soft_normalization_loss(
    density_ratio: Array, detached_density_ratio: Array, valid: Array
) -> Array:
    """Surrogate whose gradient is that of the soft normalisation loss (paper, SNLoss).

    The loss (E_mu[C] - 1)^2 / 2 pulls the mean of C to 1, since d_mu^T c = 1. Its gradient
    (E[C] - 1) E[grad C] is a product of two expectations, so sample i contributes

        (mean over j != i of C_j - 1) grad C_i,

    with the mean taken over the other samples, which makes the product unbiased, and detached.
    Only the gradient of the returned number means something, not the number.

    Args:
        density_ratio: [N] C of the batch, with gradient.
        detached_density_ratio: [N] the same numbers without gradient.
        valid: [N] 1 or 0.

    Returns:
        The scalar surrogate; 0 with fewer than two valid samples, where no mean of others exists.
    """
    deviation = leave_one_out_mean(detached_density_ratio, valid) - 1
    enough = (valid * 1.0).sum() >= 2
    return _valid_mean(deviation * density_ratio, valid) * enough


def clip_density_ratio(density_ratio: Array, density_ratio_clip: float) -> Array:
    """Clip C into [0, density_ratio_clip], as it enters F1 and I (never the C loss)."""
    return density_ratio.clip(0, density_ratio_clip)


def _valid_mean(values: Array, valid: Array) -> Array:
    weight = valid * 1.0
    count = weight.sum()
    return (weight * values).sum() / (count + (count == 0))
