"""Pointwise (1×1) convolutions, as products over the pixels of an image."""
