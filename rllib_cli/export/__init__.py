"""`rllib export`: the target policy as one file that needs neither Ray nor this package."""
