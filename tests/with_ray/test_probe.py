"""The measured policy gradient of the real pipeline against the exact one, and against mutants.

Everything runs through the real env runners, connectors and learner, with tables for pi, V and C in
float64, no clipping, and a fixed arbitrary C and V, for which `FiniteMDP.limits` knows E[Z1] and
E[Z2].
"""

import finite_mdps
import numpy as np
import pytest
import torch
from finite_mdps import (
    AGREES,
    CASES,
    DIFFERS,
    PIPELINE_MUTANTS,
    TRACE_MUTANTS,
    density_ratio_gradient,
    deviation,
)
from harness import (
    NUM_LANES,
    built,
    deviations,
    freeze,
    learner_of,
    mdp_config,
    stream_of,
    tiny_config,
    train,
)

from rllib_geoffpac import probe
from rllib_geoffpac.connectors.lane_aligner import DISCOUNT, VALID
from rllib_geoffpac.maths import emphatic
from rllib_geoffpac.updates import learned, lockstep
from rllib_geoffpac.updates.backend import Chunk
from rllib_geoffpac.updates.transitions import Transitions

BURN_IN, NUM_LOCKSTEPS = 50, 600


# The continuing MDP has discounts that depend on the transition; the episodic one has terminations
# inside one endless stream (discount 0), or real ones with resets.
STREAMS = {
    "continuing": ("continuing", False),
    "episodic": ("episodic", False),
    "episodic with resets": ("episodic", True),
}


@pytest.mark.parametrize("lambdas", [(1.0, 1.0), (0.7, 0.6)])
@pytest.mark.parametrize("stream", STREAMS)
def test_the_probe_measures_the_exact_terms(ray, stream, lambdas):
    name, episodic = STREAMS[stream]
    case = CASES[name]
    lambda_1, lambda_2 = lambdas
    config = mdp_config(case, episodic=episodic, lambda_1=lambda_1, lambda_2=lambda_2)
    with built(config) as algo:
        freeze(case, learner_of(algo))
        estimate = probe.policy_gradient(algo, 300, burn_in=BURN_IN)
    limits = case.limits(lambda_1, lambda_2)
    # Both terms stand out of the noise, or agreement would mean nothing.
    assert deviation(estimate.z1, estimate.z1_stderr, 0 * limits.first) > DIFFERS
    assert deviation(estimate.z2, estimate.z2_stderr, 0 * limits.second) > DIFFERS
    assert max(deviations(estimate, limits).values()) < AGREES, deviations(estimate, limits)


@pytest.mark.parametrize("algorithm", ["ACE", "OffPAC"])
def test_ace_and_off_pac_follow_their_own_limits(ray, algorithm):
    case = CASES["episodic"]
    lambda_1 = 1.0 if algorithm == "ACE" else 0.0
    with built(mdp_config(case, episodic=True, lambda_1=lambda_1, algorithm=algorithm)) as algo:
        freeze(case, learner_of(algo))
        estimate = probe.policy_gradient(algo, 200, burn_in=BURN_IN)
    limits = case.mdp.limits(
        case.policy,
        gamma_hat=0.0,
        lambda_1=lambda_1,
        lambda_2=1.0,
        density_ratio=np.ones(case.mdp.num_states),
        values=case.values,
    )
    assert deviation(estimate.z1, estimate.z1_stderr, limits.first) < AGREES
    assert not estimate.z2.any()


def test_the_standard_errors_are_honest(ray):
    """Over many probes of a few lanes the errors are as large as the standard errors say."""
    case = CASES["episodic"]
    limits = case.limits(1.0, 1.0)
    scaled = []
    for seed in range(8):
        config = mdp_config(case, num_lanes=4, replay_capacity=4).debugging(seed=seed)
        with built(config) as algo:
            freeze(case, learner_of(algo))
            estimate = probe.policy_gradient(algo, 800, burn_in=50)
        assert estimate.num_samples == 32  # 8 stretches of 100 locksteps
        moving = estimate.z2_stderr > 1e-12
        scaled.append(((estimate.z2 - limits.second) / estimate.z2_stderr)[moving])
    assert 0.6 < np.std(scaled) < 1.6


# ---------------------------------------------------------------------------------------------
# Mutants: the same data through the learner's code with one mistake each.


class RememberedScores:
    """The learner's scores of all locksteps: costly, and the same for every mutant."""

    def __init__(self, learner, fragments):
        columns, networks = learner.aligner.align(fragments), learner.backend.networks
        pairs = zip(*(torch.as_tensor(columns[name]) for name in ("obs", "actions")), strict=True)
        self.scores = [networks.scores(*pair) for pair in pairs]
        self.next = iter(())

    def __call__(self, observations, actions):
        return next(self.next)


@pytest.fixture(scope="module")
def frozen(ray):
    """By case: an algorithm with frozen tables, and its fragments, simulated once."""
    algos, shared = [], {}
    for name, case in CASES.items():
        algo = mdp_config(case, episodic=name == "episodic").build_algo()
        algos.append(algo)
        learner = learner_of(algo)
        freeze(case, learner)
        fragments = stream_of(algo, BURN_IN + NUM_LOCKSTEPS)
        learner.backend.networks.scores = RememberedScores(learner, fragments)
        shared[name] = (learner, fragments)
    yield shared
    for algo in algos:
        algo.stop()


def measure(learner, fragments) -> probe.PolicyGradientEstimate:
    """The probe's averages for fragments at hand; a lane is one sample."""
    scores = learner.backend.networks.scores
    scores.next = iter(scores.scores)
    learner.set_memory(learner._fresh_memory())
    columns = learner.aligner.align(fragments)
    sums = []
    for part in (slice(BURN_IN), slice(BURN_IN, None)):
        inputs = learner.probed({name: c[part] for name, c in columns.items()})
        sums.append(learner.backend.sum_terms(Chunk(inputs, len(inputs.chain_start))))
    terms = sums[1] / NUM_LOCKSTEPS
    errors = [z.std(axis=0, ddof=1) / np.sqrt(NUM_LANES) for z in terms]
    return probe.PolicyGradientEstimate(*(z.mean(axis=0) for z in terms), *errors, NUM_LANES)


def measure_density_ratio_gradient(learner, fragments) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard error over the lanes of the C loss's gradient: [S], [S].

    One plain SGD step of size 1 on the transitions of one lane, without soft normalisation, moves
    the table of C by minus the mean gradient; then the table is put back.
    """
    backend, table = learner.backend, learner.rl_module.c.table
    columns, numbers = learner.aligner.align(fragments), learner.config.numbers()
    before, gradients = table.detach().clone(), []
    for lane in range(NUM_LANES):
        batch = Transitions.of({name: c[BURN_IN:, lane] for name, c in columns.items()})
        with torch.no_grad():
            backend.update.learn_critics(backend.networks, backend._tensors(batch), numbers)
        gradients.append((before - table.detach()).squeeze(-1).numpy())
        with torch.no_grad():
            table.copy_(before)
    gradients = np.array(gradients)
    return gradients.mean(axis=0), gradients.std(axis=0, ddof=1) / np.sqrt(NUM_LANES)


TRACE_MUTANT_CASES = [
    (mutant, case) for mutant, facts in TRACE_MUTANTS.items() for case in facts.cases
]


@pytest.mark.parametrize("name", CASES)
def test_the_shared_measurement_agrees_without_a_mistake(frozen, name):
    estimate = measure(*frozen[name])
    assert max(deviations(estimate, CASES[name].limits(1.0, 1.0)).values()) < AGREES


@pytest.mark.parametrize(("mutant", "name"), TRACE_MUTANT_CASES)
def test_the_probe_kills_every_mutant_of_the_step_function(frozen, monkeypatch, mutant, name):
    facts = TRACE_MUTANTS[mutant]
    monkeypatch.setattr(emphatic, "advance", facts.advance)
    estimate = measure(*frozen[name])
    assert deviations(estimate, CASES[name].limits(1.0, 1.0))[facts.spoils] > DIFFERS


@pytest.mark.parametrize("name", CASES)
def test_the_probe_kills_a_clipped_rho(frozen, monkeypatch, name):
    learner, fragments = frozen[name]
    monkeypatch.setattr(learner.config, "_is_frozen", False)
    monkeypatch.setattr(learner.config, "rho_clip", 1.0)
    estimate = measure(learner, fragments)
    spoilt = PIPELINE_MUTANTS["rho clipped everywhere"].spoils
    assert deviations(estimate, CASES[name].limits(1.0, 1.0))[spoilt] > DIFFERS


@pytest.mark.parametrize("name", CASES)
def test_the_probe_kills_gamma_t_in_the_td_error(frozen, monkeypatch, name):
    learner, fragments = frozen[name]
    right, before = lockstep.td_error, [torch.zeros(NUM_LANES, dtype=torch.float64)]

    def td_error(reward, discount, next_value, value):
        before.append(discount)
        return right(reward, before[-2], next_value, value)

    monkeypatch.setattr(lockstep, "td_error", td_error)
    estimate = measure(learner, fragments)
    spoilt = PIPELINE_MUTANTS["gamma_t in delta"].spoils
    assert deviations(estimate, CASES[name].limits(1.0, 1.0))[spoilt] > DIFFERS


def test_the_probe_kills_a_termination_that_does_not_cut_the_discount(frozen, monkeypatch):
    learner, fragments = frozen["episodic"]
    right = learner.aligner.align

    def align(fragments):
        columns = right(fragments)
        columns[DISCOUNT] = np.where(columns[DISCOUNT] == 0, np.float32(0.9), columns[DISCOUNT])
        return columns

    monkeypatch.setattr(learner.aligner, "align", align)
    estimate = measure(learner, fragments)
    assert deviations(estimate, CASES["episodic"].limits(1.0, 1.0))["first"] > DIFFERS


def test_the_probe_kills_traces_that_restart_at_every_reset(frozen, monkeypatch):
    """`truncation="bootstrap"`'s cut applied to terminations: F2 must live on through teleports."""
    learner, fragments = frozen["episodic"]
    right = learner.aligner.align

    def align(fragments):
        columns = right(fragments)
        columns[VALID] = (columns[DISCOUNT] > 0).astype(np.float32)
        return columns

    monkeypatch.setattr(learner.aligner, "align", align)
    estimate = measure(learner, fragments)
    assert deviations(estimate, CASES["episodic"].limits(1.0, 1.0))["second"] > DIFFERS


@pytest.fixture
def plain_density_ratio_steps(frozen, monkeypatch):
    """C learns by SGD steps of size 1 without soft normalisation, so that gradients can be read."""
    for learner, _ in frozen.values():
        networks = learner.backend.networks
        sgd = torch.optim.SGD(learner.rl_module.c.parameters(), lr=1.0)
        monkeypatch.setitem(networks.optimizers, "c", sgd)
        still = torch.optim.SGD(learner.rl_module.v.parameters(), lr=0.0)
        monkeypatch.setitem(networks.optimizers, "v", still)
        for key, value in {"_is_frozen": False, "sn_loss_coeff": 0.0}.items():
            monkeypatch.setattr(learner.config, key, value)


@pytest.mark.parametrize("name", CASES)
def test_the_density_ratio_learns_along_its_expected_gradient(
    frozen, plain_density_ratio_steps, name
):
    mean, error = measure_density_ratio_gradient(*frozen[name])
    expected = density_ratio_gradient(CASES[name])
    assert deviation(mean, error, 0 * expected) > DIFFERS
    assert deviation(mean, error, expected) < AGREES


@pytest.mark.parametrize("mutant", ["C masked at teleports", "C skipped at teleports"])
def test_the_density_ratio_check_kills_mistakes_at_teleports(
    frozen, plain_density_ratio_steps, monkeypatch, mutant
):
    learner, fragments = frozen["episodic"]
    right_loss, update = learned.density_ratio_loss, learner.backend.update
    right_step, discount = update.learn_critics, []

    def learn_critics(networks, batch, numbers):
        discount.append(batch.discount)
        return right_step(networks, batch, numbers)

    def density_ratio_loss(ratio, target, rho, *, gamma_hat, valid):
        inside = (discount[-1] > 0).to(rho.dtype)
        if mutant == "C masked at teleports":
            rho = rho * inside
        else:
            valid = valid * inside
        return right_loss(ratio, target, rho, gamma_hat=gamma_hat, valid=valid)

    monkeypatch.setattr(update, "learn_critics", learn_critics)
    monkeypatch.setattr(learned, "density_ratio_loss", density_ratio_loss)
    mean, error = measure_density_ratio_gradient(learner, fragments)
    assert deviation(mean, error, density_ratio_gradient(CASES["episodic"])) > DIFFERS


def test_every_listed_mistake_has_a_mutant_test():
    """Mistakes that are added to `finite_mdps` can't be forgotten here."""
    tested = {"rho clipped everywhere", "gamma_t in delta"}
    tested |= {"C masked at teleports", "C skipped at teleports"}
    assert set(finite_mdps.PIPELINE_MUTANTS) == tested


# ---------------------------------------------------------------------------------------------
# The probe as an instrument.


def assert_probing_leaves_no_trace(config, plain_config):
    with built(config) as probed, built(plain_config) as untouched:
        train(probed, 1)
        train(untouched, 1)
        estimates = [probe.policy_gradient(probed, 60, burn_in=5) for _ in range(2)]
        digests = [[r["weights_digest"] for r in train(a, 2)] for a in (probed, untouched)]
    assert digests[0] == digests[1]
    # From the same traces and the same place in the stream come the same numbers.
    for first, second in zip(*estimates, strict=True):
        np.testing.assert_array_equal(first, second)
    assert np.linalg.norm(estimates[0].z1) > 0
    assert np.linalg.norm(estimates[0].z2) > 0


def test_probing_leaves_no_trace(ray, kernel):
    def config():
        return tiny_config(kernel=kernel, value_baseline="ema", overlap_coeff=0.5)

    assert_probing_leaves_no_trace(config(), config())


def test_probing_remote_env_runners_and_a_remote_learner_leaves_no_trace(ray):
    remote = tiny_config().env_runners(num_env_runners=1).learners(num_learners=1)
    assert_probing_leaves_no_trace(remote, tiny_config())


def test_the_probe_does_not_depend_on_the_fragment_length(ray, kernel):
    estimates = []
    for length in (1, 7, 50):
        config = tiny_config(kernel=kernel).env_runners(rollout_fragment_length=length)
        with built(config) as algo:
            estimates.append(probe.policy_gradient(algo, 61, burn_in=3))
    for other in estimates[1:]:
        np.testing.assert_allclose(other.z1, estimates[0].z1, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(other.z2_stderr, estimates[0].z2_stderr, rtol=1e-9, atol=1e-12)


def test_too_few_locksteps_are_refused(ray, kernel):
    with built(tiny_config(kernel=kernel)) as algo:
        with pytest.raises(ValueError, match="`num_locksteps` is 5; at least 6 are needed"):
            probe.policy_gradient(algo, 5)
        with pytest.raises(ValueError, match="`burn_in` is -1"):
            probe.policy_gradient(algo, 50, burn_in=-1)
