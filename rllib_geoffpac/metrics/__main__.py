"""Prints the glossary: `python -m rllib_geoffpac.metrics`."""

from rllib_geoffpac.metrics import glossary

print(glossary(), end="")
