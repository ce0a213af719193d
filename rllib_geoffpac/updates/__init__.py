"""What one lockstep changes: each algorithm's update, written once, over interchangeable networks.

`emphatic` is Geoff-PAC's, ACE's and Off-PAC's update, `deterministic` DDPG's and TD3's: read them
beside the papers' pseudocode. They ask the `networks.Networks` protocol for values,
log-probabilities, scores and learning steps. Two backends answer: `torch_backend` (the readable
truth, any module and device) and `xla` (the default networks, differentiated and compiled by XLA).
"""
