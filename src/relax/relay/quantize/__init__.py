"""Quantisation of trained networks: convolutions and products of float32 become ones of int8.

with relay.quantize.qconfig(calibrate_mode="percentile", skip_dense_layer=False):
    mod = relay.quantize.quantize(mod, params, dataset=[{"data": images}])

`convert` chooses the calls and writes the program of integers, `calibrate` finds the range of each operand,
`config` has the settings.
"""

from __future__ import annotations

from .calibrate import threshold_by_kl, threshold_by_percentile
from .config import QConfig, current_qconfig, qconfig
from .convert import prerequisite_optimize, quantize

__all__ = [
    "QConfig",
    "current_qconfig",
    "prerequisite_optimize",
    "qconfig",
    "quantize",
    "threshold_by_kl",
    "threshold_by_percentile",
]
