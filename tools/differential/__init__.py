"""Differential testing: random Relax programs, what must hold of them, and a reducer for those of which it does not."""
