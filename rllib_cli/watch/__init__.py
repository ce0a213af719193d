"""`rllib watch`: the live table of a run that goes on elsewhere."""
