"""The paper's equations as pure functions: no Ray, no torch modules."""
