"""`rllib status`: the runs below a storage path."""
