"""The closed-form kernels: whole locksteps and updates for the default networks on the CPU."""

from rllib_geoffpac.kernels.deterministic import DeterministicSettings, FastDeterministic
from rllib_geoffpac.kernels.lockstep import FastLockstep, LockstepSettings

__all__ = ["DeterministicSettings", "FastDeterministic", "FastLockstep", "LockstepSettings"]
