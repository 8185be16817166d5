"""Post-training quantisation: float32 convolutions and products become int8.

with relay.quantize.qconfig(calibrate_mode="percentile", skip_dense_layer=False):
    mod = relay.quantize.quantize(mod, params, dataset=[{"data": images}])

`convert` selects the calls and writes the integer program, `calibrate` finds the range of each operand, `config` has
the settings.
"""

from __future__ import annotations

from .calibrate import threshold_by_kl, threshold_by_percentile
from .config import QConfig, current_qconfig, qconfig
from .convert import prerequisite_optimize, quantize

__all__ = [
    "QConfig", "current_qconfig", "prerequisite_optimize", "qconfig", "quantize", "threshold_by_kl",
    "threshold_by_percentile",
]  # fmt: skip
