"""Winograd convolutions: transforms, products of slots, and direct sums where results are not finite."""
