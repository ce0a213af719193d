"""An update on one backend without Ray: always the same networks and data, in float64."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch

from rllib_geoffpac import ACEConfig, DDPGConfig, GeoffPACConfig, TD3Config
from rllib_geoffpac.learners.threads import use_one_thread
from rllib_geoffpac.maths.emphatic import fresh_traces
from rllib_geoffpac.maths.moments import fresh_moments
from rllib_geoffpac.modules import MLPRLModule, TabularRLModule
from rllib_geoffpac.modules.deterministic_actor_critic import DeterministicActorCriticRLModule
from rllib_geoffpac.updates.action_values import ActionValueUpdate
from rllib_geoffpac.updates.backend import Chunk
from rllib_geoffpac.updates.choice import make_backend
from rllib_geoffpac.updates.deterministic import DeterministicUpdate, Replayed
from rllib_geoffpac.updates.emphatic import EmphaticUpdate
from rllib_geoffpac.updates.lockstep import Lockstep, Memory
from rllib_geoffpac.updates.optimizers import make_optimizer
from rllib_geoffpac.updates.transitions import Transitions

LANES, REPLAYED, CHUNK = 4, 9, 10
BOX = gym.spaces.Box(np.float32([-2, 0]), np.float32([2, 5]))
PLANE = gym.spaces.Box(-9, 9, (4,), np.float32)
STATES = gym.spaces.Discrete(5, start=3)


def transitions(rng, count, observation_space, action_space, cuts=True) -> Transitions:
    """[CHUNK, count, ...] random transitions with terminations and cuts."""
    shape = (CHUNK, count)
    if isinstance(observation_space, gym.spaces.Discrete):
        states = rng.integers(observation_space.n, size=(2, *shape)) + observation_space.start
    else:
        states = rng.normal(size=(2, *shape, *observation_space.shape))
    if isinstance(action_space, gym.spaces.Discrete):
        actions = rng.integers(action_space.n, size=shape) + action_space.start
    else:
        actions = rng.uniform(action_space.low, action_space.high, (*shape, *action_space.shape))
    return Transitions(
        states[0],
        actions,
        rng.normal(size=shape),
        states[1],
        rng.normal(-1, 0.5, size=shape),
        np.where(rng.random(shape) < 0.2, 0, 0.9),
        (rng.random(shape) > (0.2 if cuts else 0)).astype(float),
        rng.random(shape),
        rng.random(shape),
    )


class Run:
    """An update on one backend, without Ray; always from the same networks and data."""

    def __init__(
        self, config, kernel, observations=PLANE, actions=BOX, module=MLPRLModule, **model
    ):
        use_one_thread()
        torch.manual_seed(5)
        self.config, self.spaces = config.training(dtype="float64"), (observations, actions)
        self.deterministic = isinstance(config, DDPGConfig)
        module = DeterministicActorCriticRLModule if self.deterministic else module
        config.rl_module(model_config={"fcnet_hiddens": [7, 5], **model})
        self.module = module(
            observation_space=observations,
            action_space=actions,
            inference_only=False,
            model_config=config.model_config,
        )
        self.module.make_target_networks()
        self.optimizers = {
            name: make_optimizer(
                config.optimizer_type,
                self.module.parameters_of(name),
                config.learning_rate(name),
                decay,
            )
            for name, decay in config.weight_decays.items()
        }
        update = DeterministicUpdate() if self.deterministic else self._emphatic()
        self.backend = make_backend(
            kernel,
            update,
            self.module,
            self.optimizers,
            config.grad_clip,
            () if self.deterministic else self._memory(),
            chunk_size=CHUNK,
            learner_class=object,
        )
        self.start = {name: p.copy() for name, p in self.backend.named_parameters().items()}

    def _emphatic(self):
        update = ActionValueUpdate if self.config.uses_action_values else EmphaticUpdate
        return update(self.config.update_settings())

    def _memory(self):
        size = sum(p.numel() for p in self.module.parameters_of("pi"))
        lanes, second = np.zeros(LANES), self.config.uses_second_trace
        settings = self.config.update_settings()
        return Memory(
            fresh_traces(lanes, size if second else None),
            fresh_moments(lanes),
            None if settings.weights_scores else np.zeros(size),
            np.zeros(size) if second else None,
            np.zeros(()) if settings.controls_overlap else None,
        )

    def chunk(self, seed: int, count: int = CHUNK) -> Chunk:
        rng = np.random.default_rng(seed)
        numbers = {n: np.full(CHUNK, value) for n, value in self.config.numbers().items()}
        if self.deterministic:
            unit = gym.spaces.Box(-1, 1, (2,))
            batch = transitions(rng, REPLAYED, self.spaces[0], unit)
            noise = rng.normal(size=(CHUNK, REPLAYED, 2)) if "target_noise" in numbers else None
            due = (seed * CHUNK + 1 + np.arange(CHUNK)) % self.config.actor_interval == 0
            batch = Transitions(*batch[:4], behavior_logp=None, discount=batch.discount, valid=None)
            return Chunk(Replayed(batch, noise, due, numbers), count)
        numbers["target_rate"] = (np.arange(CHUNK) == 6) * 1.0
        if "overlap_target" in numbers:
            numbers["overlap_rate"] = np.full(CHUNK, 0.1)
        current = transitions(rng, LANES, *self.spaces)
        starts = rng.random((CHUNK, LANES)) < 0.1
        replayed = transitions(rng, REPLAYED, *self.spaces)
        several = self.config.updates_per_lockstep > 1
        last = rng.random(CHUNK) < 0.5 if several else None
        noise = [None, None]
        if self.config.uses_action_values:
            due = (seed * CHUNK + 1 + np.arange(CHUNK)) % self.config.policy_delay == 0
            numbers["actor_is_due"] = due * 1.0
            if self.config.policy_average:
                numbers["average_rate"] = 1 / (1 + seed * CHUNK + np.arange(CHUNK))
            if self.config.clip_action_values:
                numbers |= {"target_low": np.full(CHUNK, -0.4), "target_high": np.full(CHUNK, 0.5)}
            size = self.module.distribution.noise_size
            rows = LANES + REPLAYED + LANES + self.config.actor_replay_batch_size * LANES
            noise = [rng.random((CHUNK, rows, size)), rng.random((REPLAYED, size))]
        look = (replayed.observations[0], np.ones(REPLAYED), noise[1])
        return Chunk(Lockstep(current, starts, replayed, numbers, last, noise[0]), count, look)

    def learn(self, chunks: int, first: int = 0) -> list:
        return [self.backend.run(self.chunk(t), True) for t in range(first, first + chunks)]


GEOFF_PAC = {"gamma_hat": 0.6, "sn_loss_coeff": 0.3, "lr": 3e-3}
ACTION_VALUE = {
    "critic": "action_value",
    "lambda_2": 1.0,
    "lambda_1": 0.0,
    "num_lanes": LANES,
    "actor_replay_batch_size": 1,
    "replay_batch_size": 2,
    "overlap_target": 0.9,
    "tau": 0.1,
    "lr": 3e-3,
}
FORWARD = {"view": "forward", "lambda_1": 0.0, "actor_replay_batch_size": 2, "num_lanes": LANES}
CASES = {
    "geoff_pac": (GeoffPACConfig, GEOFF_PAC, {}),
    "truncated_gaussian": (
        GeoffPACConfig,
        {**GEOFF_PAC, "policy_distribution": "truncated_gaussian"},
        {},
    ),
    "beta": (GeoffPACConfig, {**GEOFF_PAC, "policy_distribution": "beta"}, {}),
    "categorical": (GeoffPACConfig, GEOFF_PAC, {"actions": gym.spaces.Discrete(4, start=2)}),
    "discrete_observations": (GeoffPACConfig, GEOFF_PAC, {"observations": STATES}),
    "tables": (
        GeoffPACConfig,
        GEOFF_PAC,
        {"observations": STATES, "actions": gym.spaces.Discrete(3), "module": TabularRLModule},
    ),
    "matrix_box": (
        GeoffPACConfig,
        GEOFF_PAC,
        {"actions": gym.spaces.Box(-1, 1, (2, 2), np.float32)},
    ),
    "baseline_and_overlap": (
        GeoffPACConfig,
        {**GEOFF_PAC, "value_baseline": "ema", "overlap_coeff": 2.0},
        {},
    ),
    "no_clipping": (
        GeoffPACConfig,
        {**GEOFF_PAC, "grad_clip": None, "rho_clip": float("inf")},
        {},
    ),
    "adam": (GeoffPACConfig, {**GEOFF_PAC, "optimizer_type": "adam"}, {}),
    "sgd": (GeoffPACConfig, {**GEOFF_PAC, "optimizer_type": "sgd"}, {}),
    "tanh": (GeoffPACConfig, GEOFF_PAC, {"fcnet_activation": "tanh"}),
    "no_hidden_layer": (GeoffPACConfig, GEOFF_PAC, {"fcnet_hiddens": []}),
    "three_hidden_layers": (GeoffPACConfig, GEOFF_PAC, {"fcnet_hiddens": [6, 3, 5]}),
    "ace": (ACEConfig, {"lambda_1": 0.7}, {}),
    "ace_with_overlap": (ACEConfig, {"lambda_1": 0.7, "overlap_coeff": 1.5}, {}),
    "forward": (
        GeoffPACConfig,
        {**GEOFF_PAC, **FORWARD, "overlap_target": 0.9, "updates_per_lockstep": 2},
        {},
    ),
    "forward_learned_etd": (
        GeoffPACConfig,
        {**GEOFF_PAC, **FORWARD, "lambda_1": 0.7, "emphasis": "learned", "value_estimator": "etd"},
        {},
    ),
    "learned_tdrc": (ACEConfig, {"emphasis": "learned", "value_estimator": "tdrc"}, {}),
    "backward_with_overlap_target": (GeoffPACConfig, {**GEOFF_PAC, "overlap_target": 0.9}, {}),
    "ace_with_actor_replay": (ACEConfig, {"actor_replay_batch_size": 2, "num_lanes": 4}, {}),
    "action_values": (
        GeoffPACConfig,
        {
            **GEOFF_PAC,
            **ACTION_VALUE,
            "policy_distribution": "truncated_gaussian",
            "clip_action_values": True,
            "actor_ascends": "lower",
            "conservatism": 0.1,
            "policy_average": 2,
        },
        {},
    ),
    "action_values_of_a_beta": (
        ACEConfig,
        {**ACTION_VALUE, "policy_distribution": "beta", "tau": None, "overlap_target": None},
        {"observations": STATES},
    ),
    "action_value_tables": (
        GeoffPACConfig,
        {**GEOFF_PAC, **ACTION_VALUE, "actor_replay_batch_size": 0, "lambda_1": 0.7},
        {"observations": STATES, "actions": gym.spaces.Discrete(3), "module": TabularRLModule},
    ),
    "ddpg": (DDPGConfig, {}, {}),
    "td3": (TD3Config, {}, {}),
    "action_beside_the_state": (DDPGConfig, {}, {"action_layer": 0}),
    "action_at_the_last_layer": (DDPGConfig, {}, {"action_layer": 9}),
    "action_in_the_middle": (TD3Config, {}, {"action_layer": 2, "fcnet_hiddens": [6, 3, 5]}),
    "three_critics": (
        TD3Config,
        {"critic_weight_decay": 0.1},
        {"num_critics": 3, "action_layer": 1},
    ),
    "clipped_together": (TD3Config, {"grad_clip": 0.1, "policy_delay": 3}, {}),
    "td3_with_rmsprop": (TD3Config, {"optimizer_type": "rmsprop", "policy_delay": 1}, {}),
    "states_and_late_action": (DDPGConfig, {}, {"observations": STATES}),
}


def run_of(name: str, kernel: str) -> Run:
    config, training, model = CASES[name]
    run = Run(config().training(**training), kernel, **model)
    assert run.backend.name == kernel
    return run
