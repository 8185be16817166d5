"""Attention in one pass over keys and values."""
