"""The closed-form kernel against a plain autograd implementation, loop by loop, in float64."""

import copy
import itertools
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from rllib_geoffpac.kernels import FastLockstep, LockstepSettings
from rllib_geoffpac.kernels.flat_networks import FlatNetworks
from rllib_geoffpac.maths.distributions import make_distribution
from rllib_geoffpac.maths.moments import RunningMoments

LANES, REPLAYED, INPUTS = 3, 8, 4
SYNC_EVERY, LEARNING_STARTS = 17, 5
BOX = gym.spaces.Box(np.array([-1.0, 0.5]), np.array([1.0, 4.0]), dtype=np.float64)
GEOFF_PAC = LockstepSettings(
    num_lanes=LANES,
    gamma_hat=0.6,
    lambda_1=0.7,
    lambda_2=0.6,
    rho_clip=2.0,
    density_ratio_clip=0.8,
    sn_loss_coeff=0.3,
    uses_second_trace=True,
    learning_rates={"pi": 2e-3, "v": 1e-2, "c": 1e-2},
    grad_clip=0.5,
)
ACE = replace(GEOFF_PAC, gamma_hat=0.0, uses_second_trace=False)


@pytest.fixture(autouse=True)
def one_thread():
    """As the learner runs; with more, torch waits for busy cores in every tiny call."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def some_interest(observations):
    return 0.5 + np.abs(observations).reshape(len(observations), -1).mean(axis=1)


class Networks:
    """pi, V, C and the target copies as the default module has them, the same for a seed."""

    def __init__(self, distribution, inputs=INPUTS, hiddens=(7, 5), has_c=True, dtype=None):
        torch.manual_seed(3)
        self.distribution = distribution

        def mlp(outputs):
            sizes, layers = [inputs, *hiddens], []
            for fan_in, fan_out in itertools.pairwise(sizes):
                layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
            return nn.Sequential(*layers, nn.Linear(sizes[-1], outputs)).to(dtype or torch.float64)

        self.pi, self.v, self.c = mlp(distribution.num_outputs), mlp(1), mlp(1) if has_c else None
        self.v_target, self.c_target = copy.deepcopy(self.v), copy.deepcopy(self.c)
        self.critics = [net for net in (self.v, self.c) if net]
        self.targets = [net for net in (self.v_target, self.c_target) if net]
        self.std_parameter = None
        if distribution.has_global_std:
            std_parameter = torch.linspace(-0.5, 0.3, distribution.num_outputs)
            self.std_parameter = nn.Parameter(std_parameter.to(dtype or torch.float64))

    def theta(self):
        own = [] if self.std_parameter is None else [self.std_parameter]
        return [*self.pi.parameters(), *own]

    def all(self):
        networks = [*self.critics, *self.targets]
        return self.theta() + [p for network in networks for p in network.parameters()]

    def optimizers(self, settings):
        kind = {"rmsprop": torch.optim.RMSprop, "sgd": torch.optim.SGD}[settings.optimizer]
        groups = {"pi": self.theta(), "v": list(self.v.parameters())}
        if self.c is not None:
            groups["c"] = list(self.c.parameters())
        return {name: kind(ps, lr=settings.learning_rates[name]) for name, ps in groups.items()}

    def kernel(self, settings):
        return FastLockstep(
            self.theta(),
            [list(network.parameters()) for network in self.critics],
            [list(network.parameters()) for network in self.targets],
            self.distribution,
            settings,
            RunningMoments(0.9),
        )


class Reference:
    """The definitions of DESIGN, one lane and one transition at a time, with autograd."""

    def __init__(self, networks, settings):
        self.networks, self.settings = networks, settings
        self.optimizers = networks.optimizers(settings)
        self.moments = RunningMoments(0.9)
        size = sum(p.numel() for p in networks.theta())
        self.lanes = [self.fresh(size) for _ in range(LANES)]
        self.losses = {}

    def fresh(self, size):
        zero = torch.zeros(size, dtype=torch.float64)
        return {"f1": 0.0, "rho": 0.0, "discount": 0.0, "f2": zero, "intrinsic": zero}

    def encode(self, observations):
        observations = torch.tensor(observations)
        if self.settings.first_state is None:
            return observations.double()
        return F.one_hot(observations - self.settings.first_state, INPUTS).double()

    def log_pi(self, batch):
        networks, outputs = self.networks, self.networks.pi(self.encode(batch["obs"]))
        actions = torch.tensor(batch["actions"])
        return networks.distribution.log_prob(outputs, networks.std_parameter, actions)

    def rho(self, batch):
        logp = self.log_pi(batch).tolist()
        ratios = [np.exp(a - b) for a, b in zip(logp, batch["action_logp"], strict=True)]
        return [min(ratio, self.settings.rho_clip) for ratio in ratios]

    def value(self, network, observations):
        return network(self.encode(observations))[:, 0]

    def density_ratio(self, network, observations):
        return F.softplus(network(self.encode(observations)))[:, 0]

    def delta(self, batch):
        next_value = self.value(self.networks.v_target, batch["new_obs"]).detach()
        target = torch.tensor(batch["rewards"]) + torch.tensor(batch["discount"]) * next_value
        return target - self.value(self.networks.v, batch["obs"])

    def minimise(self, name, loss, parameters):
        self.optimizers[name].zero_grad()
        loss.backward()
        self.apply(name, parameters)

    def apply(self, name, parameters):
        if self.settings.grad_clip is not None:
            nn.utils.clip_grad_norm_(parameters, self.settings.grad_clip)
        self.optimizers[name].step()

    def learn_critics(self, batch):
        networks, gamma_hat, count = self.networks, self.settings.gamma_hat, len(batch["rewards"])
        rho, delta = self.rho(batch), self.delta(batch)
        loss = sum(rho[i] * delta[i] ** 2 for i in range(count)) / count / 2
        self.losses["value_loss"] = loss.item()
        self.minimise("v", loss, list(networks.v.parameters()))
        if networks.c is None:
            return
        valid = [i for i in range(count) if batch["valid"][i]]
        ratio = self.density_ratio(networks.c, batch["new_obs"])
        ratio_before = self.density_ratio(networks.c_target, batch["obs"]).tolist()
        loss = normalization = ratio.sum() * 0
        for i in valid:
            target = gamma_hat * rho[i] * ratio_before[i] + 1 - gamma_hat
            loss = loss + (target - ratio[i]) ** 2 / len(valid) / 2
            others = [ratio[j].item() for j in valid if j != i]
            if others:
                deviation = np.mean(others) - 1
                normalization = normalization + deviation * ratio[i] / len(valid)
        self.losses["density_ratio_loss"] = loss.item()
        loss = loss + self.settings.sn_loss_coeff * normalization
        self.minimise("c", loss, list(networks.c.parameters()))

    def step(self, row, replayed, learn):
        networks, settings = self.networks, self.settings
        if learn:
            if replayed is not None:
                self.learn_critics(replayed)
            self.learn_critics(row)
        values = self.value(networks.v, row["obs"]).tolist()
        rhos, deltas, log_pi = self.rho(row), self.delta(row).tolist(), self.log_pi(row)
        baseline = self.moments.mean if settings.value_baseline == "ema" else 0.0
        force = settings.overlap_coeff * self.moments.std
        self.z1, self.z2, self.emphasis = 0, 0, []
        for lane in range(LANES):
            observation = row["obs"][lane : lane + 1]
            interest, ratio = 1.0, 1.0
            if settings.interest_fn is not None:
                interest = settings.interest_fn(observation)[0]
            if networks.c is not None:
                ratio = self.density_ratio(networks.c, observation).item()
            ratio = min(ratio, settings.density_ratio_clip)
            rho, delta = rhos[lane], deltas[lane]
            gradient = torch.autograd.grad(log_pi[lane], networks.theta(), retain_graph=True)
            score = torch.cat([g.reshape(-1) for g in gradient])
            past = self.lanes[lane]
            if row["chain_start"][lane]:
                past = self.fresh(len(score))
            f1 = past["discount"] * past["rho"] * past["f1"] + interest * ratio
            m1 = (1 - settings.lambda_1) * interest * ratio + settings.lambda_1 * f1
            self.z1 = self.z1 + rho * m1 * delta * score / LANES
            f2 = settings.gamma_hat * past["rho"] * past["f2"] + past["intrinsic"]
            m2 = (1 - settings.lambda_2) * past["intrinsic"] + settings.lambda_2 * f2
            if settings.uses_second_trace:
                weight = force + (0 if networks.c is None else values[lane] - baseline)
                self.z2 = self.z2 + settings.gamma_hat * interest * weight * m2 / LANES
            self.emphasis.append((f1, m1))
            discount, intrinsic = row["discount"][lane], ratio * rho * score
            self.lanes[lane] = {
                "f1": f1, "rho": rho, "discount": discount, "f2": f2, "intrinsic": intrinsic
            }  # fmt: skip
            if not row["valid"][lane]:
                self.lanes[lane] = self.fresh(len(score))
        self.moments.update(np.mean(values), np.mean(np.square(values)))
        if learn:
            direction, start = self.z1 + self.z2, 0
            for p in networks.theta():
                p.grad = -direction[start : start + p.numel()].view_as(p)
                start += p.numel()
            self.apply("pi", networks.theta())

    def sync_targets(self):
        for network, target in zip(self.networks.critics, self.networks.targets, strict=True):
            target.load_state_dict(network.state_dict())


def transitions(rng, count, action_space, settings, cuts=True, dtype=np.float64):
    """Random transitions with terminations, cuts and restarts of the chain."""
    if settings.first_state is None:
        observations = rng.normal(size=(2, count, INPUTS)).astype(dtype)
    else:
        observations = rng.integers(INPUTS, size=(2, count)) + settings.first_state
    if isinstance(action_space, gym.spaces.Discrete):
        actions = rng.integers(action_space.n, size=count) + action_space.start
    else:
        shape = (count, *action_space.shape)
        actions = rng.uniform(action_space.low, action_space.high, shape).astype(dtype)
    return {
        "obs": observations[0],
        "new_obs": observations[1],
        "actions": actions,
        "rewards": rng.normal(size=count).astype(dtype),
        "discount": np.where(rng.random(count) < 0.2, 0, rng.choice([0.9, 0.99])).astype(dtype),
        "action_logp": rng.normal(-1, 0.5, size=count).astype(dtype),
        "valid": (rng.random(count) > (0.2 if cuts else 0)).astype(dtype),
        "chain_start": rng.random(count) < (0.1 if cuts else 0),
    }


def run(lockstep, networks, settings, start, stop, replay=True, cuts=True, dtype=np.float64):
    space = networks.distribution.action_space
    for t in range(start, stop):
        rng = np.random.default_rng(t)
        row = transitions(rng, LANES, space, settings, cuts, dtype)
        replayed = transitions(rng, REPLAYED, space, settings, cuts, dtype)
        learn = t >= LEARNING_STARTS
        lockstep.step(row, replayed if replay and learn else None, learn)
        if (t + 1) % SYNC_EVERY == 0:
            lockstep.sync_targets()


def assert_equal_numbers(kernel, networks, reference, settings):
    for mine, truth in zip(networks.all(), reference.networks.all(), strict=True):
        torch.testing.assert_close(mine, truth, rtol=0, atol=1e-10)
    state = kernel.trace_state()
    names = ["f1", "rho", "discount"] + ["f2", "intrinsic"] * settings.uses_second_trace
    for name in names:
        truth = [torch.as_tensor(lane[name], dtype=torch.float64) for lane in reference.lanes]
        torch.testing.assert_close(getattr(state, name), torch.stack(truth), rtol=0, atol=1e-10)
    latest = kernel.latest
    truth = np.array(reference.emphasis).T
    assert np.allclose([latest["f1"], latest["m1"]], truth, rtol=0, atol=1e-10)
    for name, loss in reference.losses.items():
        assert latest[name] == pytest.approx(loss, abs=1e-10)
    for mine, truth in ((kernel.z1, reference.z1), (kernel.z2, reference.z2)):
        mine = kernel.policy.to_torch_order(mine)
        truth = torch.as_tensor(truth, dtype=torch.float64).expand_as(mine)
        torch.testing.assert_close(mine, truth, rtol=0, atol=1e-10)


CASES = {
    "geoff_pac": (GEOFF_PAC, {}),
    "truncated_gaussian": (GEOFF_PAC, {"kind": "truncated_gaussian"}),
    "categorical": (GEOFF_PAC, {"space": gym.spaces.Discrete(4, start=2)}),
    "discrete_observations": (replace(GEOFF_PAC, first_state=1), {}),
    "one_dimensional_box": (GEOFF_PAC, {"space": gym.spaces.Box(-2, 2, (1,), np.float64)}),
    "matrix_box": (GEOFF_PAC, {"space": gym.spaces.Box(-1, 1, (2, 2), np.float64)}),
    "baseline_and_overlap": (
        replace(GEOFF_PAC, value_baseline="ema", overlap_coeff=2.0, interest_fn=some_interest), {}
    ),
    "never_cut": (replace(GEOFF_PAC, lambda_2=1.0), {"cuts": False}),
    "no_replay": (replace(GEOFF_PAC, lambda_1=1.0, lambda_2=0.0), {"replay": False}),
    "no_clipping": (replace(GEOFF_PAC, grad_clip=None, rho_clip=1e9), {}),
    "sgd": (replace(GEOFF_PAC, optimizer="sgd"), {}),
    "no_hidden_layer": (GEOFF_PAC, {"hiddens": ()}),
    "one_hidden_layer": (GEOFF_PAC, {"hiddens": (6,)}),
    "three_hidden_layers": (GEOFF_PAC, {"hiddens": (6, 3, 5)}),
    "ace": (replace(ACE, interest_fn=some_interest, density_ratio_clip=0.8), {"has_c": False}),
    "off_pac": (replace(ACE, lambda_1=0.0), {"has_c": False, "kind": "truncated_gaussian"}),
    "ace_with_overlap": (
        replace(GEOFF_PAC, overlap_coeff=1.5, value_baseline="ema"), {"has_c": False}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_kernel_equals_autograd(name):
    settings, options = CASES[name]
    options = dict(options)
    distribution = make_distribution(options.pop("space", BOX), options.pop("kind", "gaussian"))
    how = {key: options.pop(key) for key in ("replay", "cuts") if key in options}
    networks, others = (Networks(distribution, **options) for _ in range(2))
    kernel, reference = networks.kernel(settings), Reference(others, settings)
    length = 240 if name in ("geoff_pac", "truncated_gaussian", "categorical", "ace") else 80
    for start in range(0, length, 40):
        run(kernel, networks, settings, start, start + 40, **how)
        run(reference, others, settings, start, start + 40, **how)
        assert_equal_numbers(kernel, networks, reference, settings)
    # The optimizers' states can be exchanged with torch's.
    optimizers = networks.optimizers(settings)
    kernel.store_optimizers(optimizers)
    for key, optimizer in optimizers.items():
        mine, truth = optimizer.state_dict(), reference.optimizers[key].state_dict()
        torch.testing.assert_close(mine["state"], truth["state"], rtol=0, atol=1e-10)


@pytest.mark.parametrize("settings", [GEOFF_PAC, ACE], ids=["geoff_pac", "ace"])
def test_saved_and_restored_kernel_continues_bit_for_bit(settings):
    """Through torch's own state: state_dicts of modules and optimizers, and a TraceState."""
    distribution = make_distribution(BOX, "gaussian")
    how = {"has_c": settings.uses_second_trace, "dtype": torch.float32}
    networks, restored = (Networks(distribution, **how) for _ in range(2))
    kernel, other = networks.kernel(settings), restored.kernel(settings)
    run(kernel, networks, settings, 0, 40, dtype=np.float32)

    optimizers, loaded = networks.optimizers(settings), restored.optimizers(settings)
    kernel.store_optimizers(optimizers)
    for name in optimizers:
        loaded[name].load_state_dict(copy.deepcopy(optimizers[name].state_dict()))
    other.load_optimizers(loaded)
    other.set_trace_state(kernel.trace_state())
    other.moments.set_state(kernel.moments.get_state())
    for name in ("pi", "v", "c", "v_target", "c_target"):
        if getattr(networks, name) is not None:
            state = copy.deepcopy(getattr(networks, name).state_dict())
            getattr(restored, name).load_state_dict(state)
    restored.std_parameter.data.copy_(networks.std_parameter)

    run(kernel, networks, settings, 40, 80, dtype=np.float32)
    run(other, restored, settings, 40, 80, dtype=np.float32)
    for mine, truth in zip(restored.all(), networks.all(), strict=True):
        assert torch.equal(mine, truth)
    assert other.critics_optimizer.num_steps == kernel.critics_optimizer.num_steps


def test_float32_follows_float64():
    distribution = make_distribution(BOX, "truncated_gaussian")
    wide, narrow = (Networks(distribution, dtype=d) for d in (torch.float64, torch.float32))
    for networks in (wide, narrow):
        run(networks.kernel(GEOFF_PAC), networks, GEOFF_PAC, 0, 40)
    for mine, truth in zip(narrow.all(), wide.all(), strict=True):
        assert mine.dtype == torch.float32
        torch.testing.assert_close(mine.double(), truth, rtol=0, atol=1e-3)


def test_a_restarted_lane_forgets_overflowed_traces():
    networks = Networks(make_distribution(BOX, "gaussian"))
    kernel = networks.kernel(GEOFF_PAC)
    run(kernel, networks, GEOFF_PAC, 0, 3, cuts=False)
    kernel.f1[0] = np.inf
    kernel.f2[0] = torch.inf
    row = transitions(np.random.default_rng(0), LANES, BOX, GEOFF_PAC, cuts=False)
    row["chain_start"][0] = True
    kernel.step(row, None, learn=True)
    state = kernel.trace_state()
    assert state.f1[0] == kernel.clipped_density_ratio[0]
    assert not state.f2[0].any()
    assert state.f2[1:].any(1).all()
    assert all(torch.isfinite(p).all() for p in networks.all())


class TestFlatNetworks:
    def parameters(self):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        return network, [*network.parameters(), nn.Parameter(torch.randn(2))]

    def test_values_survive_and_load_state_dict_writes_into_the_array(self):
        network, parameters = self.parameters()
        truth = copy.deepcopy(network)
        flat = FlatNetworks([parameters])
        x = torch.randn(5, 3)
        torch.testing.assert_close(network(x), truth(x))
        with torch.no_grad():
            truth[0].weight.fill_(2.5)
        network.load_state_dict(truth.state_dict())
        assert flat.is_attached()
        assert (flat.blocks(flat.values[0])[0][:-1] == 2.5).all()

    def test_a_parameter_with_other_memory_is_noticed_and_adopted(self):
        network, parameters = self.parameters()
        flat = FlatNetworks([parameters])
        network[0].bias.data = torch.full((4,), 7.0)
        assert not flat.is_attached()
        flat.adopt()
        assert flat.is_attached()
        assert (flat.blocks(flat.values[0])[0][-1] == 7).all()

    def test_torch_order_is_that_of_the_flattened_parameters(self):
        _, parameters = self.parameters()
        truth = torch.cat([p.detach().reshape(-1) for p in parameters])
        flat = FlatNetworks([parameters])
        assert torch.equal(flat.to_torch_order(flat.values[0]), truth)
        for array in (torch.randn(flat.size), torch.randn(4, flat.size)):
            assert torch.equal(flat.from_torch_order(flat.to_torch_order(array)), array)

    def test_other_networks_are_refused(self):
        network = nn.Sequential(nn.Linear(3, 4, bias=False), nn.Linear(4, 2))
        with pytest.raises(ValueError, match="Linear layers with biases"):
            FlatNetworks([list(network.parameters())])
