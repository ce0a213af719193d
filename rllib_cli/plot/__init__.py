"""`rllib plot`: curves, heat maps and tables from the folders that Tune writes."""
