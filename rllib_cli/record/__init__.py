"""`rllib record`: what the behaviour policy does, as a data set."""
