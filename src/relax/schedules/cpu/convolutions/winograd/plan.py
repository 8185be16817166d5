"""Static sizes of a Winograd convolution."""

from __future__ import annotations

from .....runtime.records import dataclass
from .transforms import KernelTransform, Transform


@dataclass(frozen=True)
class Plan:
    """Static sizes of a Winograd convolution."""

    rows: Transform
    columns: Transform
    inputs: int
    outputs: int
    lanes: int
    vectors: int
    """Vectors of a panel of output channels."""
    tall: int
    """Tiles (rows) of a register tile, a multiple of 3; some register tiles have two thirds of that."""
    most: int
    """Most tiles of a work item."""
    panels: int
    """Panels of a group of output channels, whose sums are in cache at a time."""
    chunk: int
    """Input channel blocks whose data and weights are in the L1 cache at a time."""
    cores: int

    @property
    def unit(self) -> int:
        return self.tall // 3

    @property
    def width(self) -> int:
        """Output channels of a panel."""
        return self.vectors * self.lanes

    @property
    def groups(self) -> int:
        return -(-self.outputs // (self.width * self.panels))

    @property
    def depth(self) -> int:
        """Number of input channel blocks."""
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
        """True if sums accumulate several slots or several chunks of channels."""
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
        """Pitch of the data of two tiles: an odd number of channel vectors."""
        return (self.chunks * self.chunk | 1) * self.lanes

    @property
    def before(self) -> int:
        """Pitch of two data slots, kept off powers of two."""
        return self.most * self.line + 3 * self.lanes

    @property
    def behind(self) -> int:
        """Pitch of two sums, kept off powers of two."""
        return (self.panels * self.vectors * self.most + 3) * self.lanes
