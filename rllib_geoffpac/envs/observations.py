"""How observations travel, from lanes to the learner and to pi: as flat arrays of one dtype.

A Box is flattened, a Discrete state is one number. Of a structured space (Dict, Tuple,
MultiDiscrete, MultiBinary) the parts lie one after the other; the env-to-module connectors get
them back as the environment gave them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

# The largest number up to which float32 holds all whole numbers.
_EXACT = 1 << 24


def check_observation_space(space: gym.Space) -> gym.Space:
    """Returns the observation space, or says what is allowed."""
    for part in _parts(space):
        if not isinstance(part, Box | Discrete | MultiDiscrete | MultiBinary):
            raise ValueError(
                f"The observation space {space} is not supported: allowed are Box, Discrete, "
                f"MultiDiscrete, MultiBinary, and Dict and Tuple of them, but {part} is none. "
                "Convert it in a gymnasium wrapper of the environment."
            )
        if part is not space and not isinstance(part, Box) and _largest(part) > _EXACT:
            raise ValueError(
                f"The observation space {space} is not supported: of {part}, which is a part of "
                f"it, observations up to {_EXACT} are allowed. Split it into several digits."
            )
    return space


def is_structured(space: gym.Space) -> bool:
    """Whether a network can't take the observations as they travel, without a connector."""
    return not isinstance(space, Box | Discrete)


def observation_dtype(space: gym.Space) -> np.dtype:
    """The dtype in which observations travel: bytes for bytes, int64 for Discrete, else float32."""
    if isinstance(space, Discrete):
        return np.dtype(np.int64)
    in_bytes = all(
        isinstance(part, MultiBinary) or (isinstance(part, Box) and part.dtype == np.uint8)
        for part in _parts(space)
    )
    return np.dtype(np.uint8 if in_bytes else np.float32)


def observation_shape(space: gym.Space) -> tuple[int, ...]:
    """The shape in which observations travel: () for Discrete, else flat."""
    if isinstance(space, Discrete):
        return ()
    return (sum(_size(part) for part in _parts(space)),)


def make_encoder(space: gym.Space) -> Callable[[Any], np.ndarray]:
    """The function from the environment's observations to flat ones."""
    shape, dtype = observation_shape(space), observation_dtype(space)
    if not is_structured(space):
        return lambda observation: np.asarray(observation, dtype).reshape(shape)

    def encode(observation: Any) -> np.ndarray:
        values = [np.asarray(value, dtype).reshape(-1) for value in _values(space, observation)]
        return np.concatenate(values)

    return encode


def make_decoder(space: gym.Space) -> Callable[[np.ndarray], Any]:
    """The function from flat observations back to the environment's, as new arrays."""

    def decode(part: gym.Space, flat: np.ndarray) -> tuple[Any, np.ndarray]:
        if isinstance(part, Dict):
            made = {}
            for key, child in part.spaces.items():
                made[key], flat = decode(child, flat)
            return made, flat
        if isinstance(part, Tuple):
            items = []
            for child in part.spaces:
                item, flat = decode(child, flat)
                items.append(item)
            return tuple(items), flat
        size = _size(part)
        values = flat[:size].astype(part.dtype).reshape(part.shape or ())
        return (values[()] if isinstance(part, Discrete) else values), flat[size:]

    return lambda flat: decode(space, np.atleast_1d(flat))[0]


def _parts(space: gym.Space) -> Iterator[gym.Space]:
    """The spaces that a Dict or Tuple is made of, in the order in which they travel."""
    if isinstance(space, Dict | Tuple):
        children = space.spaces.values() if isinstance(space, Dict) else space.spaces
        for child in children:
            yield from _parts(child)
    else:
        yield space


def _values(space: gym.Space, observation: Any) -> Iterator[Any]:
    """The parts of an observation in the order of `_parts`.

    Raises:
        ValueError: If it is not made as its space says.
    """
    if isinstance(space, Dict):
        if not isinstance(observation, dict) or observation.keys() != space.spaces.keys():
            raise ValueError(f"the observation {observation!r} has not the keys of {space}")
        for key, child in space.spaces.items():
            yield from _values(child, observation[key])
    elif isinstance(space, Tuple):
        if not isinstance(observation, tuple | list) or len(observation) != len(space.spaces):
            raise ValueError(f"the observation {observation!r} has not the parts of {space}")
        for child, item in zip(space.spaces, observation, strict=True):
            yield from _values(child, item)
    else:
        shape = space.shape or ()
        if np.shape(observation) != shape:
            found = np.shape(observation)
            raise ValueError(f"a part of the observation has shape {found} instead of {shape}")
        yield observation


def _size(part: gym.Space) -> int:
    return int(np.prod(part.shape or ()))


def _largest(part: gym.Space) -> int:
    if isinstance(part, Discrete):
        return int(max(abs(part.start), abs(part.start + part.n)))
    return int(np.max(part.nvec)) if isinstance(part, MultiDiscrete) else 1
