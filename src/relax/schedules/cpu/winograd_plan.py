"""The sizes of a convolution by transforms of tiles that are known while compiling."""

from __future__ import annotations

from dataclasses import dataclass

from .winograd_transforms import KernelTransform, Transform


@dataclass(frozen=True)
class Plan:
    """The sizes that are known while compiling."""

    rows: Transform
    columns: Transform
    inputs: int
    outputs: int
    lanes: int
    vectors: int
    """The vectors of a panel of output channels."""
    tall: int
    """The tiles of a register tile, a multiple of 3; there are some of two thirds of that."""
    most: int
    """The most tiles of an item."""
    panels: int
    """The panels of a group of output channels, whose sums are in the cache at a time."""
    chunk: int
    """The blocks of input channels whose data and weights are in the first-level cache at a time."""
    cores: int

    @property
    def unit(self) -> int:
        return self.tall // 3

    @property
    def width(self) -> int:
        """The output channels of a panel."""
        return self.vectors * self.lanes

    @property
    def groups(self) -> int:
        return -(-self.outputs // (self.width * self.panels))

    @property
    def depth(self) -> int:
        """The blocks of input channels."""
        return -(-self.inputs // self.lanes)

    @property
    def slots(self) -> int:
        return self.rows.slots * self.columns.slots

    @property
    def sums(self) -> int:
        return self.rows.count * self.columns.count

    @property
    def chunks(self) -> int:
        return -(-self.depth // self.chunk)

    @property
    def adds(self) -> bool:
        """True if sums add up several slots or several chunks of channels."""
        return self.sums < self.slots or self.chunk < self.depth

    @property
    def weights(self) -> KernelTransform:
        return KernelTransform(
            self.rows, self.columns, self.outputs, self.inputs, self.groups, self.panels, self.width,
            self.chunk * self.lanes,
        )  # fmt: skip

    # ------------------------------------------------------------------ places in memory

    @property
    def line(self) -> int:
        """The distance of the data of two tiles: an odd number of vectors of channels."""
        return (self.chunks * self.chunk | 1) * self.lanes

    @property
    def before(self) -> int:
        """The distance of two slots of data, kept off powers of two."""
        return self.most * self.line + 3 * self.lanes

    @property
    def behind(self) -> int:
        """The distance of two sums, each of so many vectors of channels for each tile, kept off powers of two."""
        return (self.panels * self.vectors * self.most + 3) * self.lanes


__all__ = ["Plan"]
