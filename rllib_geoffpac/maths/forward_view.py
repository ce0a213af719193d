"""The forward view: the policy gradient without traces, from a critic U of the values' value.

    u(s)      = i(s) v_pi(s) + gamma_hat E_pi[u(S') | s]
    delta^u_t = i(S_t) V(S_t) + gamma_hat U'(S_{t+1}) - U(S_t)
    Z_t       = rho_t grad log pi(A_t|S_t) [M1_t delta_t + C(S_t) delta^u_t]

has the limit of the paper's Z1_t + Z2_t for exact critics, and needs no vector of the size of
theta, no per-lane gradient and no time order. With action values Q and Q_u no rho either:

    Q_u(s, a) = gamma_hat E[i(S') Q(S', a') + Q_u(S', a')], a' drawn from pi(.|S')
    Z_t       = grad_theta E_{a ~ pi(.|S_t)}[M1_t Q(S_t, a) + C(S_t) Q_u(S_t, a)].

Two mistakes are easy. S_{t+1} in U, in Q_u and in what is mixed with them is the state that the
lane really goes to: after a termination the RESET observation, where V in delta_t needs the final
one. And gamma_hat is the only discount: gamma_{t+1} does not enter, so nothing is masked at
terminations.

Everything works on numpy arrays, torch tensors and JAX arrays alike; N is any number of
transitions. `valid` [N] is 1 for a transition of the chain and 0 where the lane was cut by
`truncation="bootstrap"`: there the state that follows is no successor, and nothing can be learned
about u.
"""

from __future__ import annotations

from rllib_geoffpac.maths.arrays import Array


def counterfactual_td_error(
    interest: Array,
    value: Array,
    next_counterfactual_value: Array,
    counterfactual_value: Array,
    *,
    gamma_hat: float,
) -> Array:
    """delta^u_t = i(S_t) V(S_t) + gamma_hat U'(S_{t+1}) - U(S_t): [N] each.

    For the actor `next_counterfactual_value` may be `mixed_counterfactual_value`; U itself is
    always learned from U'.

    Args:
        interest: [N] i(S_t).
        value: [N] V(S_t). It is the reward of u, so it belongs to the state that is left.
        next_counterfactual_value: [N] U'(S_{t+1}) of the target network, at the state that the lane
            really goes to.
        counterfactual_value: [N] U(S_t).
        gamma_hat: degree of counterfactualness, the only discount of u.
    """
    return interest * value + gamma_hat * next_counterfactual_value - counterfactual_value


def mixed_counterfactual_value(
    next_interest: Array, next_value: Array, next_counterfactual_value: Array, *, lambda_2: float
) -> Array:
    """(1 - lambda_2) i(S_{t+1}) V(S_{t+1}) + lambda_2 U(S_{t+1}): what the actor bootstraps from.

    It gives Z2 the limit that M2 = (1 - lambda_2) I + lambda_2 F2 gives it in the backward view.

    Args:
        next_interest: [N] i(S_{t+1}).
        next_value: [N] V(S_{t+1}), after a termination that of the RESET observation: not the
            V(S_{t+1}) of delta_t.
        next_counterfactual_value: [N] U(S_{t+1}), of the same state.
        lambda_2: in [0, 1]; 1 is unbiased.
    """
    return (1 - lambda_2) * next_interest * next_value + lambda_2 * next_counterfactual_value


def counterfactual_value_loss(rho: Array, counterfactual_td_error: Array, valid: Array) -> Array:
    """Half the mean of rho_t (delta^u_t)^2 over the valid of [N] transitions; 0 if none is."""
    weight = valid * 1.0
    count = weight.sum()
    squares = weight * rho * counterfactual_td_error * counterfactual_td_error
    return squares.sum() / (count + (count == 0)) / 2


def first_weight(rho: Array, m1: Array, td_error: Array) -> Array:
    """rho_t M1_t delta_t [N], the factor of grad log pi(A_t|S_t) in Z1_t."""
    return rho * m1 * td_error


def second_weight(
    rho: Array, density_ratio: Array, counterfactual_td_error: Array, valid: Array
) -> Array:
    """C(S_t) rho_t delta^u_t [N], the factor of grad log pi(A_t|S_t) in Z2_t.

    0 where the lane was cut: its traces would have restarted, so the action has no I either.
    """
    return valid * density_ratio * rho * counterfactual_td_error


def counterfactual_action_value_target(
    next_interest: Array,
    next_action_value: Array,
    next_counterfactual_action_value: Array,
    *,
    gamma_hat: float,
) -> Array:
    """gamma_hat (i(S') Q'(S', a') + Q'_u(S', a')) [N], a' from pi(.|S'): the target of Q_u(S, A).

    Args:
        next_interest: [N] i(S_{t+1}).
        next_action_value: [N] Q'(S_{t+1}, a'), at the state that the lane really goes to, also
            after a termination.
        next_counterfactual_action_value: [N] Q'_u(S_{t+1}, a').
        gamma_hat: discounts both: unlike U, Q_u leaves out the interest of its own state.
    """
    return gamma_hat * (next_interest * next_action_value + next_counterfactual_action_value)
