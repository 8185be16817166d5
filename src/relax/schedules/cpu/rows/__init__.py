"""Reductions, normalisations and scans along rows."""
