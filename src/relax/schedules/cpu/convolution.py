"""The rule for convolutions with channels before pixels (NCHW and the like), of floats or integers.

One to three dimensions of pixels of known or unknown size, any stride, dilation and number of groups, padded or not,
with what is computed of each element behind the convolution (bias, addition, activation) in the same function.
`windows` says what is recognised, `direct` how the loops run.

Refused: kernels whose size is not known, weights whose dimensions are not the output channel, the input channel and
taps, results in which pixels are not the last dimensions, known sizes that are too small to be worth it, and functions
that do not promise that their arguments are apart (tir.noalias).
"""

from __future__ import annotations

from ...target import Target
from ...tir import PrimFunc, Stmt
from ..rule import ScheduleRule
from .direct import direct
from .operands import is_large_sum
from .windows import Kernel, rewritten_kernels


class Convolution(ScheduleRule):
    """The rule for convolutions with channels before pixels."""

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> PrimFunc | None:
        del tunable
        if not func.attrs.get("tir.noalias"):
            return None

        def rewrite(kernel: Kernel) -> Stmt | None:
            return direct(kernel, target)

        return rewritten_kernels(func, rewrite, is_large_sum)


__all__ = ["Convolution"]
