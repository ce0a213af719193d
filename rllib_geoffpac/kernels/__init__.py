"""The closed-form kernel: a whole lockstep for the default networks on the CPU."""

from rllib_geoffpac.kernels.lockstep import FastLockstep, LockstepSettings

__all__ = ["FastLockstep", "LockstepSettings"]
