"""Where the experience comes from, as a pure function of (seed, lane, episode, step)."""
