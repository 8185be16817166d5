"""Base class of operators with windows over the spatial dimensions of a layout: convolutions and pools."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, cast

import numpy as np

from ...info.text import prim_text
from ...ir import StructInfo
from ...ir.node import set_slot
from ...prim import IntImm, PrimExpr, const, simplify
from ...struct_info import TensorStructInfo
from ...tir.layout import Layout, bijective_layout, parsed
from ..base import Gradients, Term
from ..dims import require_same_dim
from ..errors import ATTRIBUTES, SHAPES, OperatorError
from ..facts import Axes, Order, Part, Permuted, fits, has_rank, is_packed
from ..gradients import apply, tensor_info
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
    packs: ClassVar[bool] = False
    """True if layouts may be packed, as NCHW16c (`relax.tir.layout`).

    Unpacked operands, the plain operator, and a packed result define such a call, in inference, in the reference and
    in the formula: no schedule rule needs to know packed sums, and the conversions are stages of the call's kernel.
    """

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
    def pooled_layout(self) -> str:
        """Layout in which a pool's formula computes: the data's, without parts if a spatial dimension is split."""
        split = any(letter.upper() in self.spatial for letter in self.data_letters if letter.islower())
        return parsed(self.data_letters).plain if split else self.data_letters

    @property
    def pads(self) -> tuple[tuple[int, int], ...]:
        """(before, after) per spatial dimension."""
        count = len(self.spatial)
        return tuple(zip(self.padding[:count], self.padding[count:], strict=True))

    @property
    def operand_layouts(self) -> tuple[str, ...]:
        """Layouts of the operands."""
        return (self.data_letters,)

    @property
    def is_packed(self) -> bool:
        """True if the layout of an operand or of the result is packed."""
        return not all(layout.isupper() for layout in (*self.operand_layouts, self.result_letters))

    def require_layout(self, attribute: str, letters: str) -> None:
        layout: str = getattr(self, attribute)
        if sorted(layout) == sorted(letters):
            return
        hint = ""
        if self.packs:
            hint = f"dimensions may be split, as in {letters}16{letters[1].lower()}"
            try:
                if sorted(parsed(layout).plain) == sorted(letters):
                    return
            except ValueError as error:
                hint = str(error)
        elif any(letter.isdigit() for letter in layout):
            hint = f"packed layouts are not computed in: permute_dims and reshape the operand to {letters}"
        self.require_attribute(False, attribute, f"a permutation of {letters!r}", hint=hint)

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
        rank = ndim_of(letters)
        if info.ndim not in (-1, rank):
            message = f"{name} must have {rank} dimensions ({letters}), found {info.ndim}"
            raise OperatorError(SHAPES, message, operand=name)

    def extents(self, name: str, dims: Sequence[PrimExpr], layout: str) -> dict[str, PrimExpr]:
        """Size of each dimension of an operand, by letter. Raises OperatorError for a part of another size than the
        layout's; checks at run time if undecided.
        """
        if layout.isupper():
            return dict(zip(layout, dims, strict=True))
        axes = parsed(layout)
        for d, size in axes.part_sizes.items():
            error = OperatorError(
                SHAPES,
                f"dimension {d} of {name} must be {size}, as in the layout {layout}",
                remarks={name: f"dimension {d} is {prim_text(dims[d])}"},
            )
            require_same_dim(dims[d], const(size, "int64"), error)
        return axes.extents(dims)

    def result_dims(self, extents: dict[str, PrimExpr]) -> list[PrimExpr]:
        """Dimensions of the result, of which each letter has a size."""
        return parsed(self.result_letters).shape(extents)

    def require_room(self, size: PrimExpr, axis: str) -> PrimExpr:
        """Simplified size of the result. Raises OperatorError if it is proved that no window fits."""
        result = simplify(size)
        if isinstance(result, IntImm) and result.value < 0:
            raise OperatorError(SHAPES, f"the window is larger than the padded data along {axis}", operand="data")
        return result

    def canonical(self, data: Array) -> Array:
        """Convert data to the canonical layout."""
        return in_layout(data, self.data_letters, self.letters)

    def in_result_layout(self, result: Array) -> Array:
        """Convert a result from the canonical layout to its own."""
        return in_layout(result, self.letters, self.result_letters)

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        if not has_rank(infos, axes) or self.result_letters != self.data_letters:
            return None
        names = parsed(self.data_letters).axis_names
        moved = self.replace(**{self.layout_attribute: "".join(names[axis] for axis in axes), "out_layout": None})
        return Permuted(moved, (axes, *[None] * (len(infos) - 1)), (axes,))

    def blocked(self, order: Order, infos: Sequence[StructInfo]) -> Permuted | None:
        """A pool on packed data; None if the packed dimensions are not multiples of the parts."""
        rank = has_rank(infos, order) and len(infos) == 1
        if not self.packs or self.is_packed or not rank or self.result_letters != self.data_letters:
            return None
        if not fits(infos[0], order) or not fits(self.infer(*infos), order):
            return None
        letters = self.data_letters
        names = [f"{e.size}{letters[e.axis].lower()}" if isinstance(e, Part) else letters[e] for e in order]
        moved = self.replace(**{self.layout_attribute: "".join(names), "out_layout": None})
        return Permuted(moved, (order,), (order,))

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
            if not isinstance(info, TensorStructInfo) or info.ndim != ndim_of(letters):
                return None
        orders = [_order(old, new) for old, new in zip(present, layouts, strict=True)]
        of_result = _order(self.result_letters, result)
        if of_result is None or not all(
            order and fits(info, order) for info, order in zip(infos, orders, strict=False)
        ):
            return None
        if is_packed(of_result) and not fits(self.infer(*infos), of_result):
            return None
        return Permuted(moved, (*orders, *[None] * (len(infos) - len(orders))), (of_result,))

    def plain_gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        """Gradient in packed layouts: that of the operator in plain ones, between transformed layouts.

        None if there is none, or the result's parts may be filled incompletely.
        """
        layouts = self.operand_layouts
        names = (self.layout_attribute, "kernel_layout")[: len(layouts)]
        plain = self.replace(**{name: parsed(layout).plain for name, layout in zip(names, layouts, strict=True)})
        plain = plain.replace(out_layout=parsed(self.result_letters).plain)
        inside = [
            _transformed(term, layout, parsed(layout).plain) for term, layout in zip(operands, layouts, strict=True)
        ]
        letters = parsed(self.result_letters).plain
        order = _order(letters, self.result_letters)
        if order is None or not fits(plain.infer(*map(tensor_info, inside)), order):
            return None
        results = [_transformed(term, self.result_letters, letters) for term in (result, grad)]
        gradients = plain.gradient(inside, *results)
        if gradients is None:
            return None
        back = zip(gradients, layouts, strict=True)
        return tuple(g if g is None else _transformed(g, parsed(layout).plain, layout) for g, layout in back)


def ndim_of(layout: str) -> int:
    """Number of dimensions of a tensor with a layout."""
    return len(layout) if layout.isupper() else len(parsed(layout))


def _order(old: str, new: str) -> Order | None:
    """Order in which the dimensions of layout `old` have layout `new`; None if parts would be merged or split again."""
    before, after = parsed(old), parsed(new)
    names = before.axis_names
    if len({*after.axis_names}) < len(after):
        return None
    if sorted(names) == sorted(after.axis_names):
        return tuple(map(names.index, after.axis_names))
    if before.is_packed:
        return None
    sizes = after.part_sizes
    return tuple(
        Part(names.index(letter.upper()), sizes[d]) if d in sizes else names.index(letter)
        for d, letter in enumerate(after)
    )


def _transformed(term: Term, source: str, target: str) -> Term:
    """A call that transforms a tensor's layout; the tensor itself if the layout is the same."""
    if source == target:
        return term
    way = bijective_layout(Layout(source, "int64"), Layout(target, "int64"))
    return apply("layout_transform", term, index_map=way.to_index_map())


def in_layout(array: Array, source: str, target: str) -> Any:
    """Convert an array from layout `source` to layout `target`; parts filled incompletely end in zeros."""
    if source.isupper() and target.isupper():
        return array.transpose([source.index(c) for c in target])
    old, new = parsed(source), parsed(target)
    indices = {letter: [d for d, _ in old.sizes_of(letter)] for letter in new.plain}
    sizes = [math.prod(array.shape[d] for d in indices[letter]) for letter in new.plain]
    whole = array.transpose([d for letter in new.plain for d in indices[letter]]).reshape(sizes)
    factors = [max(new.factor_of(letter), 1) for letter in new.plain]
    padded: Any = np.pad(whole, [(0, -size % factor) for size, factor in zip(sizes, factors, strict=True)])
    parts = [(d, size) for letter in new.plain for d, size in new.sizes_of(letter)]
    outer = dict(zip(new.plain, (n // f for n, f in zip(padded.shape, factors, strict=True)), strict=True))
    split = padded.reshape([outer[new[d]] if size is None else size for d, size in parts])
    where = [d for d, _ in parts]
    return split.transpose([where.index(d) for d in range(len(new))])
