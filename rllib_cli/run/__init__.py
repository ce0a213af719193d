"""`rllib train`: runs experiments with Ray Tune and shows what happens."""
