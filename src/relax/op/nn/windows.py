"""Base class of operators with windows over the spatial dimensions of a layout: convolutions and pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

from ...ir import StructInfo
from ...ir.node import set_slot
from ...prim import IntImm, PrimExpr, simplify
from ...struct_info import TensorStructInfo
from ..errors import ATTRIBUTES, SHAPES, OperatorError
from ..facts import Axes, Permuted, has_rank
from ..operator import Array, Operator


class Windowed(Operator):
    """Base class of convolution and pooling in 1 to 3 spatial dimensions.

    Attributes are canonicalised as in TVM: one number per spatial dimension; padding before the data, then after it;
    None for an `out_layout` that equals the data's layout.
    """

    __slots__ = ()

    spatial: ClassVar[str]
    """Letters of the spatial dimensions, outermost first: "W", "HW" or "DHW"."""
    layout_attribute: ClassVar[str] = "layout"
    """Attribute that holds the layout of the data."""
    per_axis: ClassVar[tuple[str, ...]] = ("strides", "dilation")
    """Attributes with one number per spatial dimension."""

    strides: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    out_layout: str | None

    @classmethod
    def inherited_default(cls, value: Any) -> Any:
        """Repeat a default for each spatial dimension, and expand the star of a layout ("NC*") to spatial letters."""
        if isinstance(value, str):
            return value.replace("*", cls.spatial)
        return cast("tuple[int, ...]", value) * len(cls.spatial) if isinstance(value, tuple) else value

    def __post_init__(self) -> None:
        count = len(self.spatial)
        for name in self.per_axis:
            self._repeat(name, 1, count)
        if "padding" in self.attribute_names:
            self._repeat("padding", count, 2 * count)
        if "out_layout" in self.attribute_names and self.out_layout in ("", self.data_letters):
            set_slot(self, "out_layout", None)

    def _repeat(self, attribute: str, short: int, count: int) -> None:
        """Expand an attribute of one or `short` numbers to `count`; `require_numbers` checks other lengths."""
        values: tuple[int, ...] | None = getattr(self, attribute)
        if values is not None and len(values) in (1, short) and len(values) != count:
            set_slot(self, attribute, values * (count // len(values)))

    @property
    def letters(self) -> str:
        """Canonical layout of the data."""
        return "NC" + self.spatial

    @property
    def data_letters(self) -> str:
        """Layout of the data."""
        return getattr(self, self.layout_attribute)

    @property
    def result_letters(self) -> str:
        """Layout of the result."""
        return self.out_layout or self.data_letters

    @property
    def pads(self) -> tuple[tuple[int, int], ...]:
        """(before, after) per spatial dimension."""
        count = len(self.spatial)
        return tuple(zip(self.padding[:count], self.padding[count:], strict=True))

    def require_layout(self, attribute: str, letters: str) -> None:
        layout: str = getattr(self, attribute)
        hint = ""
        if any(letter.isdigit() for letter in layout):
            hint = f"packed layouts are not computed in: permute_dims and reshape the operand to {letters}"
        fits = sorted(layout) == sorted(letters)
        self.require_attribute(fits, attribute, f"a permutation of {letters!r}", hint=hint)

    def require_numbers(self, attribute: str, least: int, *, ends: bool = False) -> None:
        """Raise OperatorError unless an attribute has one number, or one (`ends`: two) per spatial dimension, each
        large enough.
        """
        count = len(self.spatial)
        counts = sorted({1, count, 2 * count} if ends else {1, count})
        *first, last = map(str, counts)
        amount = f"{', '.join(first)} or {last} numbers, each" if first else "1 number,"
        values: Sequence[int] = getattr(self, attribute)
        fits = len(values) in counts and min(values) >= least
        self.require_attribute(fits, attribute, f"{amount} at least {least}")

    def require_windows(self) -> None:
        """Raise OperatorError for invalid layouts, strides, dilation or padding."""
        self.require_numbers("strides", 1)
        self.require_numbers("dilation", 1)
        self.require_numbers("padding", 0, ends=True)
        self.require_layouts()

    def require_layouts(self) -> None:
        """Raise OperatorError for layouts whose letters are not those of the canonical one."""
        self.require_layout(self.layout_attribute, self.letters)
        if self.out_layout:
            self.require_layout("out_layout", self.letters)

    def require_rank(self, name: str, info: TensorStructInfo, letters: str) -> None:
        if info.ndim not in (-1, len(letters)):
            message = f"{name} must have {len(letters)} dimensions ({letters}), found {info.ndim}"
            raise OperatorError(SHAPES, message, operand=name)

    def require_room(self, size: PrimExpr, axis: str) -> PrimExpr:
        """Simplified size of the result. Raises OperatorError if it is proved that no window fits."""
        result = simplify(size)
        if isinstance(result, IntImm) and result.value < 0:
            raise OperatorError(SHAPES, f"the window is larger than the padded data along {axis}", operand="data")
        return result

    def canonical(self, data: Array) -> Array:
        """Permute data to the canonical layout."""
        return in_layout(data, self.data_letters, self.letters)

    def in_result_layout(self, result: Array) -> Array:
        """Permute a result from the canonical layout to its own."""
        return in_layout(result, self.letters, self.result_letters)

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        if not has_rank(infos, axes) or self.result_letters != self.data_letters:
            return None
        layout = "".join(self.data_letters[axis] for axis in axes)
        moved = self.replace(**{self.layout_attribute: layout, "out_layout": None})
        return Permuted(moved, (axes, *[None] * (len(infos) - 1)), (axes,))

    def in_layouts(self, layouts: Sequence[str], infos: Sequence[StructInfo]) -> Permuted | None:
        """Permute the operands to layouts of the data and, optionally, of the result."""
        self.require_number_of_layouts(layouts, 1)
        result = layouts[1] if len(layouts) > 1 else layouts[0]
        return self.laid_out_as(layouts[:1], [self.data_letters], result, infos)

    def require_number_of_layouts(self, layouts: Sequence[str], operands: int) -> None:
        """Raise OperatorError unless there are 1 to `operands` + 1 layouts, the extra one being the result's."""
        if not 1 <= len(layouts) <= operands + 1:
            expected = f"1 to {operands + 1} layouts"
            raise OperatorError(ATTRIBUTES, f"takes {expected}, found {len(layouts)}: {', '.join(layouts)}")

    def laid_out_as(
        self,
        layouts: Sequence[str],
        present: Sequence[str],
        result: str,
        infos: Sequence[StructInfo],
        **attributes: str,
    ) -> Permuted | None:
        """Permuted call with operands and result in `layouts`; `present` are the operands' current layouts."""
        moved = self.replace(**{self.layout_attribute: layouts[0], **attributes}, out_layout=result)
        moved.require_layouts()
        for info, letters in zip(infos, present, strict=False):
            if not isinstance(info, TensorStructInfo) or info.ndim != len(letters):
                return None
        axes = [tuple(map(old.index, new)) for old, new in zip(present, layouts, strict=True)]
        return Permuted(
            moved, (*axes, *[None] * (len(infos) - len(axes))), (tuple(map(self.result_letters.index, result)),)
        )


def in_layout(array: Array, source: str, target: str) -> Any:
    """Permute an array from layout `source` to layout `target`."""
    return array.transpose([source.index(c) for c in target])
