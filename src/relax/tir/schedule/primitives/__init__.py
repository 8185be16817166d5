"""The schedule primitives, one a file; a file's docstring shows the loops before and after, and when it refuses."""
