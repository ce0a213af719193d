"""What the target policy is worth: J_pi and the return, played in the environment."""
