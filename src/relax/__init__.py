"""Relax: a compiler and runtime for tensor programs with symbolic shapes."""
