"""What runs leave behind: read from the folders that Tune writes, and summed up over seeds."""
