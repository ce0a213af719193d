"""`rllib evaluate`: plays a checkpoint's target policy."""
