"""Evaluation without a simulator: the objectives of a policy, estimated from logged data."""
