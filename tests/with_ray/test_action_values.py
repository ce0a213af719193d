"""Action values in the real pipeline: exact gradients, exact fixed points, mutants, determinism."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from finite_mdps import AGREES, CASES, DIFFERS, deviation
from harness import CONFIGS, MDPEnv, built, digests, learner_of, stream_of, tiny_config, train

from rllib_geoffpac import probe
from rllib_geoffpac.algorithms.algorithm import LaneTrainingData
from rllib_geoffpac.maths.finite_mdp import FiniteMDP
from rllib_geoffpac.maths.tables import softmax_policy
from rllib_geoffpac.modules.numpy_forward import numpy_policy
from rllib_geoffpac.updates import action_values, learned

# ---------------------------------------------------------------------------------------------
# The actor's two terms, with frozen tables, against the exact limits.


def tables(case, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(scale=2.0, size=case.mdp.behavior.shape)


def frozen_config(case, kernel="torch", algorithm="GeoffPAC", episodic=False, **training):
    if algorithm == "GeoffPAC":
        training["gamma_hat"] = case.gamma_hat
    return (
        CONFIGS[algorithm]()
        .environment(MDPEnv, env_config={"mdp": case.mdp, "episodic": episodic})
        .training(
            critic="action_value",
            module="tabular",
            kernel=kernel,
            dtype="float64",
            rho_clip=float("inf"),
            density_ratio_clip=float("inf"),
            lambda_2=1.0,
            interest_fn=lambda states: case.mdp.interest[states],
            num_lanes=200,
            replay_capacity=200,
            replay_batch_size=0,
            **training,
        )
        .env_runners(rollout_fragment_length=200)
    )


def freeze(case, learner) -> None:
    """Arbitrary tables; the second critic of a pair is another one."""
    module = learner.rl_module
    with torch.no_grad():
        module.pi.table.copy_(torch.as_tensor(case.logits))
        for name, first in (("q", 1), ("q_u", 11)):
            for k, critic in enumerate(getattr(module, name, [])):
                critic.network.table.copy_(torch.as_tensor(tables(case, first + k)))
        if learner.config.uses_density_ratio:
            module.c.table.copy_(torch.as_tensor(case.density_ratio)[:, None])


def measured(case, **config) -> tuple[dict[str, float], probe.PolicyGradientEstimate]:
    """How many standard errors both terms are from their limits."""
    lambda_1, gamma_hat = config["lambda_1"], case.gamma_hat
    limits = {"density_ratio": case.density_ratio, "action_values": tables(case, 1)}
    limits["counterfactual_action_values"] = tables(case, 11)
    if config.get("algorithm") == "ACE":
        gamma_hat, limits["density_ratio"] = 0.0, np.ones(case.mdp.num_states)
    with built(frozen_config(case, **config)) as algo:
        freeze(case, learner_of(algo))
        estimate = probe.policy_gradient(algo, 300, burn_in=50)
    expected = case.mdp.action_value_limits(
        case.policy, gamma_hat=gamma_hat, lambda_1=lambda_1, **limits
    )
    apart = {
        "first": deviation(estimate.z1, estimate.z1_stderr, expected.first),
        "second": deviation(estimate.z2, estimate.z2_stderr, expected.second),
    }
    return apart, estimate


@pytest.mark.parametrize(
    ("name", "kernel", "lambda_1"), [("continuing", "fast", 0.7), ("episodic", "torch", 1.0)]
)
def test_the_probe_measures_the_exact_terms(ray, name, kernel, lambda_1):
    episodic = name == "episodic"
    apart, estimate = measured(CASES[name], kernel=kernel, lambda_1=lambda_1, episodic=episodic)
    assert max(apart.values()) < AGREES, apart
    # Both stand out of the noise, or agreement would mean nothing.
    for z, stderr in ((estimate.z1, estimate.z1_stderr), (estimate.z2, estimate.z2_stderr)):
        assert deviation(z, stderr, 0 * z) > DIFFERS


def test_ace_has_the_first_term_alone(ray):
    apart, estimate = measured(CASES["episodic"], algorithm="ACE", lambda_1=1.0)
    assert apart["first"] < AGREES
    assert not estimate.z2.any()


def test_the_probe_kills_a_missing_density_ratio(ray, monkeypatch):
    monkeypatch.setattr(action_values, "clip_density_ratio", lambda ratio, clip: 0 * ratio + 1)
    apart, _ = measured(CASES["continuing"], lambda_1=0.7)
    assert min(apart.values()) > DIFFERS


def test_the_probe_kills_a_missing_trace(ray, monkeypatch):
    monkeypatch.setattr(
        action_values,
        "mixed_emphasis",
        lambda interest, ratio, f1, *, lambda_1: interest * ratio,
    )
    apart, _ = measured(CASES["continuing"], lambda_1=1.0)
    assert apart["first"] > DIFFERS > AGREES > apart["second"]


# ---------------------------------------------------------------------------------------------
# Q and Q_u with tables, on an MDP without chance, where they converge to the exact values.

GAMMA_HAT = 0.5


def certain_mdp() -> FiniteMDP:
    """Five states, two actions, every transition certain; three of them end an episode in 0."""
    successor = np.array([[1, 2], [3, 0], [4, 1], [0, 2], [3, 0]])
    discount = np.array([[0.5, 0.3], [0.5, 0.0], [0.3, 0.5], [0.0, 0.5], [0.5, 0.0]])
    transitions, shape = np.zeros((5, 2, 5)), (5, 2)
    for pair in np.ndindex(shape):
        transitions[(*pair, successor[pair])] = 1
    rng = np.random.default_rng(0)
    rewards = np.repeat(rng.normal(size=(*shape, 1)), 5, axis=2)
    discounts = np.repeat(discount[:, :, None], 5, axis=2)
    return FiniteMDP(
        transitions, rewards, discounts, np.full(shape, 0.5), rng.uniform(0.5, 2.0, size=5)
    )


MDP = certain_mdp()
LOGITS = np.random.default_rng(1).normal(size=(5, 2))


def learned_tables(mutate=None, *, kernel="torch"):
    """Q and Q_u after 400 locksteps of 40 lanes; pi stands still."""
    config = (
        CONFIGS["GeoffPAC"]()
        .environment(MDPEnv, env_config={"mdp": MDP, "episodic": True})
        .training(
            critic="action_value",
            module="tabular",
            kernel=kernel,
            dtype="float64",
            gamma_hat=GAMMA_HAT,
            lambda_2=1.0,
            interest_fn=lambda states: MDP.interest[states],
            num_lanes=40,
            replay_capacity=40,
            replay_batch_size=0,
            learning_starts=0,
            optimizer_type="sgd",
            action_value_lr=2.0,
            counterfactual_action_value_lr=2.0,
            grad_clip=None,
            target_update_freq=1,
            policy_delay=10**9,
        )
        .env_runners(rollout_fragment_length=200)
        .reporting(min_sample_timesteps_per_iteration=40 * 400)
    )
    with built(config) as algo:
        learner = learner_of(algo)
        with torch.no_grad():
            learner.rl_module.pi.table.copy_(torch.as_tensor(LOGITS))
            learner.rl_module.pi_target.table.copy_(torch.as_tensor(LOGITS))
        if mutate is not None:
            update = learner.backend.update
            functions = tuple(mutate.get(f.name, f) for f in update.settings.functions)
            update.settings = dataclasses.replace(update.settings, functions=functions)
        train(algo, 1)
        module = learner.rl_module
        return [
            critic.network.table.detach().numpy().copy()
            for critics in (module.q, module.q_u)
            for critic in critics
        ]


def exact_tables() -> list[np.ndarray]:
    policy = softmax_policy(LOGITS)
    q, q_u = MDP.action_values(policy), MDP.counterfactual_action_values(policy, GAMMA_HAT)
    return [q, q, q_u, q_u]


def test_the_critics_converge_to_the_exact_values(ray, kernel):
    for learned_table, exact in zip(learned_tables(kernel=kernel), exact_tables(), strict=True):
        np.testing.assert_allclose(learned_table, exact, atol=1e-6)


def spoilt(function, change):
    """The function with a rule that is given something else."""

    def rule(own, given):
        return function.rule(own, given=given._replace(**change(given)))

    return {function.name: dataclasses.replace(function, rule=rule)}


def with_batch(**columns):
    def change(given):
        new = {name: make(given.batch) for name, make in columns.items()}
        return {"batch": given.batch._replace(**new)}

    return change


def with_gamma_hat(factor):
    def change(given):
        gamma_hat = given.numbers["gamma_hat"] * factor(given.batch)
        return {"numbers": {**given.numbers, "gamma_hat": gamma_hat}}

    return change


def going_on(batch):
    return (batch.discount > 0).to(batch.discount.dtype)


MUTANTS = {
    "Q_u without i": spoilt(
        learned.Q_U, with_batch(next_interest=lambda b: torch.ones_like(b.interest))
    ),
    "Q_u with i of S_t": spoilt(learned.Q_U, with_batch(next_interest=lambda b: b.interest)),
    "Q_u at S_t for S_{t+1}": spoilt(
        learned.Q_U, with_batch(next_observations=lambda b: b.observations)
    ),
    "Q_u discounted by gamma": spoilt(learned.Q_U, with_gamma_hat(lambda b: b.discount)),
    "Q_u masked at teleports": spoilt(learned.Q_U, with_gamma_hat(going_on)),
    "Q going on at terminations": spoilt(
        learned.Q, with_batch(discount=lambda b: b.discount + 0.5 * (b.discount == 0))
    ),
    "Q with a constant gamma": spoilt(learned.Q, with_batch(discount=lambda b: 0.5 * going_on(b))),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_every_mistake_leads_elsewhere(ray, mutant):
    found = learned_tables(MUTANTS[mutant])
    wrong = slice(0, 2) if mutant.startswith("Q ") else slice(2, 4)
    for learned_table, exact in zip(found[wrong], exact_tables()[wrong], strict=True):
        assert np.abs(learned_table - exact).max() > 1e-2


def test_teleports_left_out_teach_nothing_about_them(ray):
    """C's and U's mistake, too: a termination's row must stay in Q_u's loss."""
    mutant = spoilt(learned.Q_U, with_batch(valid=lambda b: b.valid * going_on(b)))
    ends = MDP.discounts[:, :, 0] == 0
    for learned_table in learned_tables(mutant)[2:]:
        assert not learned_table[ends].any()  # as it was at the start
        assert learned_table[~ends].all()


# ---------------------------------------------------------------------------------------------
# Resources never change the result.


def small_config(kernel="fast"):
    return tiny_config(
        kernel=kernel,
        critic="action_value",
        lambda_1=0.0,
        lambda_2=1.0,
        policy_distribution="truncated_gaussian",
        actor_replay_batch_size=2,
        overlap_target=0.9,
        tau=0.05,
        truncation="bootstrap",
        clip_action_values=True,
        policy_average=7.0,
        updates_per_lockstep=2,
        policy_delay=3,
    )


@pytest.fixture(scope="module")
def expected(ray) -> list[str]:
    return digests(small_config(), 3)


@pytest.mark.parametrize(("length", "num_env_runners"), [(1, 0), (7, 2)])
def test_fragments_and_env_runners_do_not_matter(expected, length, num_env_runners):
    config = small_config().env_runners(
        rollout_fragment_length=length, num_env_runners=num_env_runners
    )
    assert digests(config, 3) == expected
    assert len(set(expected)) == 3


def test_a_resumed_run_and_a_recorded_stream_learn_the_same(expected, tmp_path):
    config = small_config().env_runners(experience_cache=str(tmp_path / "streams"))
    with built(config) as algo:
        first = [r["weights_digest"] for r in train(algo, 2)]
        checkpoint = algo.save_to_path(str(tmp_path / "checkpoint"))
    with built(config.copy(copy_frozen=False)) as algo:
        algo.restore_from_path(checkpoint)
        assert [*first, train(algo, 1)[0]["weights_digest"]] == expected
    with built(config.copy(copy_frozen=False)) as algo:
        assert [r["weights_digest"] for r in train(algo, 2)] == first
        assert train(algo, 1)[0]["weights_digest"] == expected[2]


def test_fragments_do_not_matter_to_torch_either(ray):
    lengths = (7, 50)
    first, second = (
        digests(small_config("torch").env_runners(rollout_fragment_length=n), 2) for n in lengths
    )
    assert first == second


# ---------------------------------------------------------------------------------------------
# What acts, and with which discount pi is judged.


def test_the_average_of_pi_acts_and_learning_does_not_see_it(ray, kernel):
    modules = []
    for power in (None, 7.0):
        config = tiny_config("ACE", kernel, policy_average=power, actor_lr=0.05)
        with built(config.evaluation(evaluation_interval=1, evaluation_duration=2)) as algo:
            result = train(algo, 2)[-1]
            modules.append(
                (learner_of(algo).rl_module, result["evaluation"]["env_runners"]["j_pi"])
            )
    (plain, j_pi), (averaged, averaged_j_pi) = modules
    for name, parameter in plain.state_dict().items():
        assert torch.equal(averaged.state_dict()[name], parameter), name
    assert j_pi != averaged_j_pi
    states = torch.randn(5, 3)
    acted = averaged.forward_inference({"obs": states})["action_dist_inputs"][:, :2]
    assert torch.equal(acted, averaged.pi_average(states))
    assert not torch.equal(acted, averaged.pi(states))
    played = numpy_policy(averaged)(states.numpy())
    np.testing.assert_allclose(played, acted.detach().numpy(), atol=1e-6)
    assert not torch.equal(averaged.acting_std_parameter, averaged.std_parameter)


def test_the_average_weighs_late_iterates_more(ray):
    """About n^(p-1): for p = 1 it is the plain mean of what pi was after every update."""
    config = tiny_config("ACE", "torch", policy_average=1, actor_lr=0.05, dtype="float64")
    with built(config.env_runners(rollout_fragment_length=1)) as algo:
        learner, iterates = learner_of(algo), []
        for _ in range(25):
            data = LaneTrainingData(episodes=stream_of(algo, 1))
            algo.learner_group.update(training_data=data)
            iterates.append(learner.rl_module.pi[0].weight.detach().numpy().copy())
        average = learner.rl_module.pi_average[0].weight.detach().numpy()
    np.testing.assert_allclose(average, np.mean(iterates[10:], axis=0), atol=1e-12)


def test_the_discount_of_learning_is_not_that_of_j_pi(ray):
    config = tiny_config(learning_gamma=0.5).evaluation(evaluation_interval=1)
    with built(config) as algo:
        columns = learner_of(algo).aligner.align(stream_of(algo, 20))
        assert set(np.unique(columns["discount"])) == {0.0, 0.5}
        assert algo.eval_env_runner_group.local_env_runner.config.gamma == 0.99


def test_ace_and_off_pac_with_robust_parts_are_geoff_pac_at_gamma_hat_0(ray):
    configs = [
        CONFIGS["GeoffPAC"].robust(steps=20_000).training(gamma_hat=0.0),
        CONFIGS["ACE"].robust(steps=20_000),
        CONFIGS["OffPAC"].robust(steps=20_000),
    ]
    learned = [
        digests(config.environment("Pendulum-v1").training(learning_starts=10), 2)
        for config in configs
    ]
    assert learned[0] == learned[1] == learned[2]
    assert len(set(learned[0])) == 2
