"""The torch backend: the readable truth, for any module, optimizer and device."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import tree

from rllib_geoffpac.updates.backend import Backend, Chunk, Memory, Report, Update
from rllib_geoffpac.updates.descent import Descent
from rllib_geoffpac.updates.networks import Rule
from rllib_geoffpac.updates.torch_descent import TorchDescent

if TYPE_CHECKING:
    from ray.rllib.core.rl_module.torch import TorchRLModule


class TorchPolicy:
    """pi by a module's own methods."""

    def __init__(self, module: TorchRLModule):
        self._module = module

    @property
    def std_parameter(self) -> torch.Tensor | None:
        return self._module.std_parameter

    def __call__(self, observations: torch.Tensor) -> torch.Tensor:
        return self._module.function("pi", observations)

    def log_prob(self, observations: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        return self._module.log_prob(observations, actions)

    def action(self, observations: torch.Tensor, noise: torch.Tensor | None) -> torch.Tensor:
        return self._module.action(observations, noise)


class TorchNetworks:
    """`Networks` over a module's own methods, by autograd.

    Args:
        module: Has `function`, `log_prob`, `entropy`, `parameters_of` and target copies.
        optimizers: By the names of the functions.
        grad_clip: Bound of each function's gradient; None: no bound.
        descent: What else is done with a gradient.
    """

    def __init__(
        self,
        module: TorchRLModule,
        optimizers: dict[str, torch.optim.Optimizer],
        grad_clip: float | None,
        descent: Descent,
    ):
        self.module, self.optimizers = module, optimizers
        self.parameters = {name: module.parameters_of(name) for name in optimizers}
        self.descend = TorchDescent(self.parameters, optimizers, grad_clip, descent)
        pairs = [
            (source.parameters(), copied.parameters())
            for source, copied in module.get_target_network_pairs()
        ]
        self._pairs = [pair for both in pairs for pair in zip(*both, strict=True)]

    def __call__(self, name: str, *inputs: torch.Tensor, target: bool = False) -> Any:
        return self.module.function(name, *inputs, target=target)

    def log_prob(self, observations: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        return self.module.log_prob(observations, actions)

    def entropy(self, observations: torch.Tensor) -> torch.Tensor:
        return self.module.entropy(observations)

    def std(self) -> torch.Tensor | None:
        return self.module.distribution.std(self.module.std_parameter)

    def action(
        self, observations: torch.Tensor, noise: torch.Tensor | None, target: bool = False
    ) -> torch.Tensor:
        return self.module.action(observations, noise, target=target)

    def encode(self, actions: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        return self.module.distribution.encode(actions, like)

    def gradients(self, rule: Callable[[TorchPolicy], torch.Tensor]) -> torch.Tensor:
        with torch.enable_grad():
            numbers = rule(TorchPolicy(self.module))
        rows = torch.eye(len(numbers), dtype=numbers.dtype, device=numbers.device)
        gradients = torch.autograd.grad(numbers, self.parameters["pi"], rows, is_grads_batched=True)
        return torch.cat([g.reshape(len(numbers), -1) for g in gradients], dim=1)

    def scores(self, observations: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        return self.gradients(lambda pi: pi.log_prob(observations, actions))

    def learn(self, name: str, rule: Rule) -> Any:
        with torch.enable_grad():
            learned = TorchPolicy(self.module) if name == "pi" else partial(self, name)
            objective, reported = rule(learned)
        gradients = torch.autograd.grad(objective, self.parameters[name])
        self.descend(name, gradients, objective)
        return tree.map_structure(torch.Tensor.detach, reported)

    def ascend(self, name: str, direction: torch.Tensor) -> None:
        parameters = self.parameters[name]
        parts = direction.split([p.numel() for p in parameters])
        self.descend(name, [-d.view_as(p) for p, d in zip(parameters, parts, strict=True)])

    def update_targets(self, rate: float) -> None:
        if rate:
            for source, copied in self._pairs:
                copied.lerp_(source, rate)

    def update_average(self, rate: float) -> None:
        pairs = zip(self.parameters["pi"], self.module.average_parameters(), strict=True)
        for source, average in pairs:
            average.lerp_(source, rate)

    def choose(self, condition: bool, yes: Any, no: Any) -> Any:
        return yes if condition else no

    def when(self, condition: bool, action: Callable[[], Any]) -> Any:
        return action() if condition else {}


class TorchBackend(Backend):
    """Runs an update lockstep by lockstep on a torch module."""

    name = "torch"

    def __init__(
        self,
        update: Update,
        module: TorchRLModule,
        optimizers: dict[str, torch.optim.Optimizer],
        grad_clip: float | None,
        memory: Memory,
        descent: Descent | None = None,
    ):
        super().__init__(update)
        self.module, self.descent = module, descent or Descent()
        self.networks = TorchNetworks(module, optimizers, grad_clip, self.descent)
        first = next(iter(self.networks.parameters.values()))[0]
        self.dtype, self.device = first.dtype, first.device
        self._memory: Memory = self._tensors(memory)

    def run(self, chunk: Chunk, learn: bool) -> Report:
        reports: list[dict[str, torch.Tensor]] = []
        with torch.no_grad(), _flushed_denormals():
            for t in range(chunk.length):
                inputs = self._tensors(chunk.row(t))
                self.networks.descend.begin(inputs.numbers)
                self._memory, report = self.update(self.networks, self._memory, inputs, learn=learn)
                reports.append(report | self.networks.descend.norms)
                if learn and self.descent.after_update is not None:
                    self.descent.after_update()
            look = self._tensors(chunk.look)
            summary = self.update.summary(self.networks, self._memory, look)
        names = dict.fromkeys(name for report in reports for name in report)
        nothing = torch.zeros((), dtype=self.dtype, device=self.device)
        arrays = {
            name: torch.stack([report.get(name, nothing) for report in reports]).cpu().numpy()
            for name in names
        }
        return Report(arrays, summary, chunk.length)

    def sum_terms(self, chunk: Chunk) -> np.ndarray:
        total: Any = 0.0
        with torch.no_grad():
            for t in range(chunk.length):
                inputs = self._tensors(chunk.row(t))
                self._memory, terms, _ = self.probed.advance(self.networks, self._memory, inputs)
                z1 = terms.z1.per_lane()
                z2 = torch.zeros_like(z1) if terms.z2 is None else terms.z2.per_lane()
                total = total + torch.stack([z1, z2]).double()
        return total.cpu().numpy()

    def named_parameters(self) -> dict[str, np.ndarray]:
        return {name: p.detach().cpu().numpy() for name, p in self.module.state_dict().items()}

    def snapshot(self) -> Any:
        optimizers = {n: o.state_dict() for n, o in self.networks.optimizers.items()}
        return copy.deepcopy((self.module.state_dict(), optimizers, self._memory))

    def roll_back(self, snapshot: Any) -> None:
        parameters, optimizers, self._memory = copy.deepcopy(snapshot)
        self.module.load_state_dict(parameters)
        for name, state in optimizers.items():
            self.networks.optimizers[name].load_state_dict(state)

    def get_memory(self) -> Memory:
        return tree.map_structure(_to_numpy, self._memory)

    def set_memory(self, memory: Memory) -> None:
        self._memory = self._tensors(memory)

    def store(self) -> None:
        """Nothing to do: the module and the optimizers are what it works on."""

    def hand_over(self) -> None:
        """Nothing to do, see `store`."""

    def _tensors(self, arrays: Any) -> Any:
        """Numpy to tensors of the module's dtype; indices, booleans and numbers as they are."""

        def convert(array: Any) -> Any:
            if not isinstance(array, np.ndarray):
                return array
            tensor = torch.as_tensor(array)
            # Bytes are observations, which travel so to save memory.
            is_number = tensor.is_floating_point() or tensor.dtype == torch.uint8
            dtype = self.dtype if is_number else tensor.dtype
            # Copied into torch's aligned memory: the last bits of a matrix product may depend on
            # where its operands begin.
            return torch.empty(tensor.shape, dtype=dtype, device=self.device).copy_(tensor)

        return tree.map_structure(convert, arrays)


@contextlib.contextmanager
def _flushed_denormals() -> Iterator[None]:
    """Takes denormal numbers for 0, in this thread only and only here.

    Traces and moments decay into them, and they cost a multiple of normal ones (1.1 to 1.3 of a
    whole lockstep). The flag is the processor's: left behind, it would change numpy's results.
    """
    smallest = torch.tensor(5e-324, dtype=torch.float64)
    flushed_before = bool(smallest * 1 == 0)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(flushed_before)


def _to_numpy(value: Any) -> Any:
    return value.detach().cpu().numpy().copy() if torch.is_tensor(value) else value
