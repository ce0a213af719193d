"""The compiled backend: the same updates, differentiated by JAX and compiled by XLA.

Needs the extra `fast`. It serves the default networks on the CPU; `serves` says what it declines.
"""
