"""Chains of an expansion, a depthwise and a pointwise convolution, fused row by row."""
