"""The paper's figures from the curves, in the style of ``rllib plot``."""
