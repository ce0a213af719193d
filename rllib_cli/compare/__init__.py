"""`rllib compare`: what differs between two runs, in settings and in results."""
