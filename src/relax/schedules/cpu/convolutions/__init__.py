"""Convolutions and pooling, with what their rules share: windows recognised, padded copies, results."""
