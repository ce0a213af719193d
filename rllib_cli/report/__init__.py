"""`rllib report`: one page of an experiment or a sweep, to look at in a browser."""
