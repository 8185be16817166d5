"""Schedule primitives, one per module; each module's docstring shows loops before and after, and what is rejected."""
