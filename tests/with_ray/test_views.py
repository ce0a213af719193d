"""The forward view, the emphases and the estimators of V through the real pipeline.

Against exact values on finite MDPs, with tables in float64 and nothing clipped; against mutants;
and bit for bit over everything that must not change what is learned.
"""

import numpy as np
import pytest
import torch
from finite_mdps import AGREES, CASES, DIFFERS, deviation
from harness import (
    NUM_LANES,
    built,
    deviations,
    digests,
    freeze,
    learner_of,
    mdp_config,
    stream_of,
    tiny_config,
    train,
)
from ray.rllib.algorithms.algorithm import Algorithm

from rllib_geoffpac import probe
from rllib_geoffpac.maths import fixed_points
from rllib_geoffpac.updates import learned, lockstep, weighted
from rllib_geoffpac.updates.backend import Chunk

BURN_IN, LENGTH = 20, 400
EPISODIC = CASES["episodic"]


def arbitrary(case, low=-2.0, high=2.0, seed=1):
    return np.random.default_rng(seed).uniform(low, high, case.mdp.num_states)


# ---------------------------------------------------------------------------------------------
# The policy gradient against its limits, and the mistakes that it must show.

VIEWS = {
    "forward": ({"view": "forward"}, {"u"}),
    "forward, learned": ({"view": "forward", "emphasis": "learned"}, {"u", "m"}),
    "forward, truncated": (
        {"view": "forward", "emphasis": "truncated", "trace_length": 2},
        {"u"},
    ),
    "backward, learned": ({"emphasis": "learned"}, {"m"}),
    "backward, truncated": ({"emphasis": "truncated", "trace_length": 3}, set()),
}


def view_limits(case, name, lambda_1, lambda_2):
    settings, critics = VIEWS[name]
    exact = dict(settings)
    if "u" in critics:
        exact["counterfactual_values"] = arbitrary(case)
    if "m" in critics:
        exact["learned_emphasis"] = arbitrary(case, 0.5, 3.0)
    return case.limits(lambda_1, lambda_2, **exact)


def view_algo(case, name, *, episodic, **keys):
    settings, critics = VIEWS[name]
    algo = mdp_config(case, episodic=episodic, **settings, **keys).build_algo()
    tables = {"u": arbitrary(case), "m": arbitrary(case, 0.5, 3.0)}
    freeze(case, learner_of(algo), **{critic: tables[critic] for critic in critics})
    return algo


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "stream", "lambdas"),
    [
        ("forward", "continuing", (1.0, 1.0)),
        ("forward, learned", "episodic", (0.7, 0.6)),
        ("forward, truncated", "continuing", (0.7, 0.6)),
        ("backward, learned", "episodic", (1.0, 1.0)),
        ("backward, truncated", "episodic", (0.7, 0.6)),
    ],
)
def test_the_probe_measures_the_exact_terms_of_every_view(ray, name, stream, lambdas):
    case, (lambda_1, lambda_2) = CASES[stream], lambdas
    keys = {"lambda_1": lambda_1, "lambda_2": lambda_2}
    algo = view_algo(case, name, episodic=stream == "episodic", **keys)
    try:
        estimate = probe.policy_gradient(algo, 200, burn_in=20)
    finally:
        algo.stop()
    limits = view_limits(case, name, lambda_1, lambda_2)
    assert deviation(estimate.z1, estimate.z1_stderr, 0 * limits.first) > DIFFERS
    assert deviation(estimate.z2, estimate.z2_stderr, 0 * limits.second) > DIFFERS
    assert max(deviations(estimate, limits).values()) < AGREES, deviations(estimate, limits)


@pytest.fixture(scope="module")
def frozen(ray):
    """The forward view with a learned emphasis on the episodic MDP, and its data."""
    algo = view_algo(EPISODIC, "forward, learned", episodic=True, lambda_1=0.7, lambda_2=0.6)
    learner = learner_of(algo)
    columns = learner.aligner.align(stream_of(algo, BURN_IN + LENGTH))
    yield learner, {name: column[BURN_IN:] for name, column in columns.items()}
    algo.stop()


def measured_terms(learner, columns) -> dict[str, float]:
    """Deviations of Z1 and Z2 from their limits; a lane is one sample."""
    inputs = learner.probed(columns)
    terms = learner.backend.sum_terms(Chunk(inputs, LENGTH)) / LENGTH
    errors = [z.std(axis=0, ddof=1) / np.sqrt(NUM_LANES) for z in terms]
    estimate = probe.PolicyGradientEstimate(*(z.mean(axis=0) for z in terms), *errors, NUM_LANES)
    return deviations(estimate, view_limits(EPISODIC, "forward, learned", 0.7, 0.6))


def spoil(monkeypatch, function, **changes):
    """Gives a function of the actor other arguments, each from those that it was given."""
    right = getattr(weighted, function)

    def wrong(*args, **named):
        return right(*[changes.get(str(k), lambda a: a)(a) for k, a in enumerate(args)], **named)

    monkeypatch.setattr(weighted, function, wrong)


def last_discount(monkeypatch) -> list:
    """Ends with the discounts of the transitions that the actor looks at."""
    right, seen = lockstep.td_error, []

    def td_error(reward, discount, next_value, value):
        seen.append(discount)
        return right(reward, discount, next_value, value)

    monkeypatch.setattr(lockstep, "td_error", td_error)
    return seen


@pytest.mark.slow
def test_the_shared_measurement_agrees_without_a_mistake(frozen):
    assert max(measured_terms(*frozen).values()) < AGREES


@pytest.mark.parametrize(
    "mutant",
    [
        "U along the wrong next state",
        "U discounted by gamma",
        "U masked at teleports",
        "C missing",
        "i of S_{t+1} missing",
        "teleports left out of Z2",
    ],
)
def test_the_probe_kills_every_mutant_of_the_forward_view(frozen, monkeypatch, mutant):
    learner, columns = frozen
    discount = last_discount(monkeypatch)
    if mutant == "U along the wrong next state":
        columns = columns | {"new_obs": columns["obs"]}
    elif mutant == "U discounted by gamma":
        spoil(monkeypatch, "counterfactual_td_error", **{"2": lambda u: u * discount[-1]})
    elif mutant == "U masked at teleports":
        spoil(monkeypatch, "counterfactual_td_error", **{"2": lambda u: u * (discount[-1] > 0)})
    elif mutant == "C missing":
        spoil(monkeypatch, "second_weight", **{"1": torch.ones_like})
    elif mutant == "i of S_{t+1} missing":
        spoil(monkeypatch, "mixed_counterfactual_value", **{"0": torch.ones_like})
    else:
        spoil(monkeypatch, "second_weight", **{"3": lambda valid: valid * (discount[-1] > 0)})
    assert measured_terms(learner, columns)["second"] > DIFFERS


# ---------------------------------------------------------------------------------------------
# What the critics learn, against their expected steps.


def steps_of(name: str, learner, columns) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard error over the lanes of one step of size 1 of a table: [S], [S]."""
    backend, numbers = learner.backend, learner.config.numbers()
    inputs = learner.probed(columns).current
    before = {n: p.clone() for n, p in learner.rl_module.state_dict().items()}
    moved = []
    for lane in range(NUM_LANES):
        batch = inputs.map(lambda c: c[:, lane])  # noqa: B023
        if inputs.before is not None:
            window = inputs.before.map(lambda c: np.moveaxis(c[:, :, lane], 0, 1))  # noqa: B023
            batch = batch._replace(before=window)
        with torch.no_grad():
            backend.update.learn_critics(backend.networks, backend._tensors(batch), numbers)
        table = getattr(learner.rl_module, name).table
        moved.append((table.detach() - before[f"{name}.table"]).squeeze(-1).numpy())
        learner.rl_module.load_state_dict(before)
    moved = np.array(moved)
    return moved.mean(axis=0), moved.std(axis=0, ddof=1) / np.sqrt(NUM_LANES)


def moves_alone(monkeypatch, learner, name: str) -> None:
    """That critic takes plain steps of size 1, the others stand still."""
    for critic in learner.config.learned_functions:
        (group,) = learner.backend.networks.optimizers[critic.name].param_groups
        monkeypatch.setitem(group, "lr", float(critic.name == name))


def expected_step(name: str) -> np.ndarray:
    mdp, policy = EPISODIC.mdp, EPISODIC.policy
    tables = fixed_points.tabular(mdp.num_states)
    if name == "u":
        rule = fixed_points.counterfactual_values(
            mdp, policy, tables, gamma_hat=EPISODIC.gamma_hat, values=EPISODIC.values
        )
        return rule.expected_update(arbitrary(EPISODIC))
    ratio = EPISODIC.density_ratio
    rule = fixed_points.emphasis(mdp, policy, tables, density_ratio=ratio)
    return rule.expected_update(arbitrary(EPISODIC, 0.5, 3.0))


@pytest.mark.parametrize("name", ["u", "m"])
def test_u_and_m_learn_along_their_expected_steps(frozen, monkeypatch, name):
    moves_alone(monkeypatch, frozen[0], name)
    mean, error = steps_of(name, *frozen)
    assert deviation(mean, error, 0 * mean) > DIFFERS
    assert deviation(mean, error, expected_step(name)) < AGREES


@pytest.mark.parametrize(
    ("name", "mutant"),
    [
        ("u", "masked at teleports"),
        ("u", "V without i"),
        ("m", "gamma of another transition"),
        ("m", "C missing"),
        ("m", "i of the wrong state"),
    ],
)
def test_mistakes_in_the_rules_of_u_and_m_show(frozen, monkeypatch, name, mutant):
    learner, columns = frozen
    moves_alone(monkeypatch, learner, name)
    error_of_u, target_of_m = learned.counterfactual_td_error, learned.emphasis_target
    discount = torch.as_tensor(columns["discount"])[:, 0]

    def u(interest, value, following, own, *, gamma_hat):
        if mutant == "masked at teleports":
            following = following * (discount > 0)
        else:
            interest = torch.ones_like(interest)
        return error_of_u(interest, value, following, own, gamma_hat=gamma_hat)

    def m(next_interest, ratio, gamma, rho, before, connected):
        if mutant == "gamma of another transition":
            gamma = gamma.roll(1)
        elif mutant == "C missing":
            ratio = torch.ones_like(ratio)
        else:
            next_interest = next_interest.roll(1)
        return target_of_m(next_interest, ratio, gamma, rho, before, connected)

    if mutant == "masked at teleports":  # the discounts of whichever lane it is
        right = learner.backend.update.learn_critics

        def learn_critics(networks, batch, numbers):
            nonlocal discount
            discount = batch.discount
            return right(networks, batch, numbers)

        monkeypatch.setattr(learner.backend.update, "learn_critics", learn_critics)
    monkeypatch.setattr(learned, "counterfactual_td_error", u)
    monkeypatch.setattr(learned, "emphasis_target", m)
    mean, error = steps_of(name, learner, columns)
    assert deviation(mean, error, expected_step(name)) > DIFFERS


def estimator_rule(estimator: str):
    mdp, policy, ratio = EPISODIC.mdp, EPISODIC.policy, EPISODIC.density_ratio
    tables = fixed_points.tabular(mdp.num_states)
    if estimator == "td":
        return fixed_points.td(mdp, policy, tables)
    if estimator == "cop_td":
        return fixed_points.cop_td(mdp, policy, tables, ratio)
    if estimator == "etd":
        return fixed_points.etd(mdp, policy, tables, ratio, lambda_1=0.7, trace_length=2)
    if estimator == "vtrace":
        return fixed_points.vtrace(mdp, policy, tables, num_steps=3)
    return fixed_points.tdrc(mdp, policy, tables)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["td", "cop_td", "etd", "vtrace", "tdrc"])
def test_every_estimator_moves_v_along_its_expected_step(ray, monkeypatch, estimator):
    """At arbitrary tables, where they differ; the fixed point of a table is v_pi for most."""
    keys = {"value_estimator": estimator, "vtrace_length": 3, "lambda_1": 0.7}
    if estimator == "etd":
        keys |= {"emphasis": "truncated", "trace_length": 2}
    correction = arbitrary(EPISODIC, seed=4)
    with built(mdp_config(EPISODIC, episodic=True, **keys)) as algo:
        learner = learner_of(algo)
        freeze(EPISODIC, learner, **({"h": correction} if estimator == "tdrc" else {}))
        moves_alone(monkeypatch, learner, "v")
        columns = learner.aligner.align(stream_of(algo, LENGTH))
        mean, error = steps_of("v", learner, columns)
    weights = np.concatenate([EPISODIC.values, correction])
    states, rule = EPISODIC.mdp.num_states, estimator_rule(estimator)
    step = rule.expected_update(weights[: len(rule.vector)])[:states]
    assert deviation(mean, error, 0 * step) > DIFFERS
    assert deviation(mean, error, step) < AGREES
    others = [estimator_rule(name) for name in ("td", "cop_td", "etd", "vtrace", "tdrc")]
    others = [o.expected_update(weights[: len(o.vector)])[:states] for o in others]
    apart = [deviation(mean, error, o) for o in others if not np.allclose(o, step)]
    assert min(apart) > DIFFERS


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["cop_td", "etd", "vtrace", "tdrc"])
def test_tables_converge_to_their_fixed_points(ray, estimator):
    """pi stands still; V, C and, in the forward view with a learned emphasis, U and M learn."""
    case = CASES["continuing"]
    keys = {"value_estimator": estimator, "vtrace_length": 3, "sn_loss_coeff": 0.0}
    if estimator == "etd":
        keys |= {"view": "forward", "emphasis": "learned"}
    if estimator == "cop_td":
        keys |= {"emphasis": "truncated", "trace_length": 2}
    steps = {"lr": 0.3, "actor_lr": 1e-12}
    steps |= {"target_update_freq": 1, "learning_starts": 0, "updates_per_lockstep": 2}
    config = mdp_config(case, **keys, **steps, tdrc_regularization=0.1)
    with built(config.reporting(min_sample_timesteps_per_iteration=500 * NUM_LANES)) as algo:
        freeze(case, learner_of(algo))
        train(algo, 1)
        found = {
            n: t.squeeze(-1).numpy() for n, t in learner_of(algo).rl_module.state_dict().items()
        }
    mdp, policy, gamma_hat = case.mdp, case.policy, case.gamma_hat
    value = mdp.values(policy)
    if estimator == "vtrace":
        tables = fixed_points.tabular(mdp.num_states)
        value = fixed_points.vtrace(mdp, policy, tables, num_steps=3).fixed_point()
    exact = {"v": value, "c": mdp.density_ratio(policy, gamma_hat)}
    if estimator == "etd":
        exact["u"] = mdp.counterfactual_values(policy, gamma_hat)
        exact["m"] = mdp.emphasis(policy, gamma_hat=gamma_hat)
    for name, table in exact.items():
        start = {"v": case.values, "c": case.density_ratio}.get(name, 1.0 * (name == "m"))
        near = 0.15 * np.abs(table - start).max()
        np.testing.assert_allclose(found[f"{name}.table"], table, atol=near, err_msg=name)


# ---------------------------------------------------------------------------------------------
# Bit for bit.

SETTINGS = {
    "forward": {
        "kernel": "fast",
        "view": "forward",
        "emphasis": "learned",
        "actor_replay_batch_size": 2,
        "overlap_target": 0.9,
        "updates_per_lockstep": 2,
        "truncation": "bootstrap",
    },
    "truncated": {
        "emphasis": "truncated",
        "trace_length": 3,
        "value_estimator": "vtrace",
        "actor_replay_batch_size": 2,
        "truncation": "bootstrap",
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_resources_and_restarts_never_change_what_is_learned(ray, name, tmp_path):
    def config(**runners):
        return tiny_config(**SETTINGS[name]).env_runners(**runners)

    expected = digests(config(), 3)
    assert len(set(expected)) == 3
    assert digests(config(rollout_fragment_length=7), 3) == expected
    assert digests(config(num_env_runners=2, rollout_fragment_length=50), 3) == expected
    recorded = str(tmp_path / "streams")
    for _ in range(2):  # recorded, then read
        assert digests(config(experience_cache=recorded), 2) == expected[:2]
    with built(config()) as algo:
        train(algo, 1)
        probe.policy_gradient(algo, 30, burn_in=3)
        checkpoint = algo.save_to_path(str(tmp_path / "checkpoint"))
    algo = Algorithm.from_checkpoint(checkpoint)
    try:
        assert [result["weights_digest"] for result in train(algo, 2)] == expected[1:]
    finally:
        algo.stop()
