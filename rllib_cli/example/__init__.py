"""`rllib example`: the tuned examples that come with the package."""
