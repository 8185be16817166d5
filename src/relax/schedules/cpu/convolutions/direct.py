"""Channels-first convolutions (NCHW and the like) of floats or integers.

Supports one to three pixel dimensions of static or dynamic size, any stride, dilation, padding and number of groups,
and element-wise epilogues (bias, addition, activation) in the same function. `windows` recognises the convolutions,
`direct_loops` writes the loops, `few_pixels` those for few pixels by weights that lie in one piece.

Not supported: dynamic kernel sizes, weights with dimensions other than (output channel, input channel, taps …), results
whose last dimensions are not the pixels, statically small problems, and functions without tir.noalias.
"""

from __future__ import annotations

from ....target import Target
from ....tir import PrimFunc, Stmt
from ...rule import Refusal, ScheduleRule
from ...space import Space
from ..large_sums import number_sum
from ..tile.parameters import TileParameters, space_of_tiles
from .direct_loops import direct
from .few_pixels import MOST_PIXELS, unless_few
from .windows import Kernel, rewritten_kernels


class Convolution(ScheduleRule):
    """Schedule rule for channels-first convolutions."""

    parameters = TileParameters()

    def space(self, target: Target) -> Space[TileParameters]:
        """Return the shapes of register tiles."""
        return space_of_tiles(target)

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> PrimFunc | Refusal:
        del tunable

        def rewrite(kernel: Kernel) -> Stmt:
            return unless_few(kernel, target, MOST_PIXELS, direct(kernel, target, self.parameters.tile))

        return rewritten_kernels(func, rewrite, number_sum)
