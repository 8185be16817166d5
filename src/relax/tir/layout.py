"""Tensor layouts: the order of a tensor's dimensions in memory, possibly split (blocked).

NCHW        N, C, H, W, each named by a capital letter
NCHW16c     C is split: c, of size 16, is innermost, and C counts the groups of 16
OIHW4i16o   both O and I are split
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, final

from ..ir import DataType
from ..prim import IntImm, PrimExpr, Var, const, dimensions, intrin, is_const, simplify
from ..runtime.records import dataclass
from .index_map import IndexMap

_AXIS: Final = re.compile(r"([A-Z])|([0-9]+)([a-z])")


@dataclass(frozen=True)
class _Axis:
    """A dimension of a layout: a letter, and its size if it is the inner part of a split dimension."""

    name: str
    size: int | None


def _axes(name: str) -> tuple[_Axis, ...]:
    axes: list[_Axis] = []
    end = 0
    for match in _AXIS.finditer(name):
        if match.start() != end:
            break
        end = match.end()
        axes.append(_Axis(match[1] or match[3], int(match[2]) if match[2] else None))
    if end != len(name) or not axes:
        expected = "expected capital letters, and parts such as 16c of the dimension C"
        raise ValueError(f"{name!r} is no layout: {expected}" + f", found {name[end:]!r}" * bool(name))
    return tuple(axes)


@final
class Layout:
    """The names of a tensor's dimensions in memory order, outermost first.

    ``for axis in layout`` and ``layout[i]`` yield letters; ``"c" in layout`` tests for one. Layouts with the same text
    and dtype are equal. Raises ValueError for text that is no layout.
    """

    __slots__ = ("_axes", "dtype", "name")

    name: str
    dtype: DataType
    """Dtype of the indices."""

    def __init__(self, name: str, dtype: str = "int32") -> None:
        kind = DataType(dtype)
        if not kind.is_integer or kind.lanes != 1:
            raise TypeError(f"the indices of a layout are integers, found {kind!s}")
        self.name, self.dtype, self._axes = name, kind, _axes(name)
        letters = list(self)
        for letter in dict.fromkeys(letters):
            if letter.isupper() and letters.count(letter) > 1:
                raise ValueError(f"layout {name}: the dimension {letter} occurs twice")
            if letter.islower() and letter.upper() not in letters:
                raise ValueError(f"layout {name}: {letter} is a part of {letter.upper()}, which is missing")
        if any(axis.size == 0 for axis in self._axes):
            raise ValueError(f"layout {name}: a part has no elements")

    def __len__(self) -> int:
        return len(self._axes)

    def __iter__(self) -> Iterator[str]:
        return (axis.name for axis in self._axes)

    def __getitem__(self, index: int) -> str:
        return self._axes[index].name

    def __contains__(self, axis: object) -> bool:
        """True for the letter of an axis, and for an inner part with its size: ``"16c"``."""
        return any(axis in (own.name, f"{own.size}{own.name}") for own in self._axes)

    def index_of(self, axis: str) -> int:
        """Return the index of an axis (the outermost, if several parts have this name), or -1."""
        return next((index for index, own in enumerate(self) if own == axis), -1)

    def factor_of(self, axis: str) -> int:
        """Return the product of the inner sizes of a dimension, named by either letter; -1 if it is not split."""
        result, is_split = 1, False
        for own in self._axes:
            if own.size is not None and own.name == axis.lower():
                result, is_split = result * own.size, True
        return result if is_split else -1

    def sizes_of(self, dimension: str) -> list[tuple[int, int | None]]:
        """Return (index, size) of a dimension and of its inner parts, outermost first; the size of the dimension itself
        is None.
        """
        indices = [index for index, own in enumerate(self) if own.upper() == dimension]
        return [(index, self._axes[index].size) for index in sorted(indices, key=self._is_part)]

    def _is_part(self, index: int) -> bool:
        return self._axes[index].size is not None

    @property
    def plain(self) -> str:
        """Name of the layout without parts: NCHW of NCHW16c."""
        return "".join(axis.name for axis in self._axes if axis.size is None)

    @property
    def is_packed(self) -> bool:
        """True if a dimension is split."""
        return any(axis.size is not None for axis in self._axes)

    @property
    def axis_names(self) -> tuple[str, ...]:
        """Text of each axis: a letter, or an inner part with its size ("16c")."""
        return tuple(f"{axis.size or ''}{axis.name}" for axis in self._axes)

    @property
    def part_sizes(self) -> dict[int, int]:
        """Size of each inner part, by index."""
        return {index: axis.size for index, axis in enumerate(self._axes) if axis.size is not None}

    def joined(self, index: Sequence[Any]) -> dict[str, Any]:
        """Convert an index of this layout to one of whole dimensions, by letter."""
        result: dict[str, Any] = {}
        for dimension in self.plain:
            (first, _), *parts = self.sizes_of(dimension)
            result[dimension] = index[first]
            for d, size in parts:
                result[dimension] = result[dimension] * size + index[d]
        return result

    def split(self, whole: Mapping[str, Any]) -> list[Any]:
        """Convert an index of whole dimensions, by letter, to one of this layout."""
        result: dict[int, Any] = {}
        for dimension in self.plain:
            rest = whole[dimension]
            (first, _), *parts = self.sizes_of(dimension)
            for d, size in reversed(parts):
                result[d], rest = rest % size, rest // size
            result[first] = rest
        return [result[d] for d in range(len(self))]

    def extents(self, shape: Sequence[Any]) -> dict[str, Any]:
        """Return the size of each whole dimension, by letter, of a tensor with this layout."""
        result: dict[str, Any] = {}
        for dimension in self.plain:
            size, factor = shape[self.index_of(dimension)], self.factor_of(dimension)
            result[dimension] = size if factor < 2 else simplify(size * factor)
        return result

    def shape(self, extents: Mapping[str, Any]) -> list[PrimExpr]:
        """Return the shape of a tensor with this layout, whose whole dimensions have the sizes `extents`; the last part
        of a dimension may be filled incompletely.
        """
        result: dict[int, PrimExpr] = {index: const(size, "int64") for index, size in self.part_sizes.items()}
        for dimension in self.plain:
            extent, factor = extents[dimension], self.factor_of(dimension)
            result[self.index_of(dimension)] = extent if factor < 2 else _parts(extent, factor)
        return [result[index] for index in range(len(self))]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and (self.name, self.dtype) == (other.name, other.dtype)

    def __hash__(self) -> int:
        return hash((self.name, str(self.dtype)))

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Layout({self.name})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Layout, (self.name, str(self.dtype))


@final
class BijectiveLayout:
    """Conversion between two layouts of one tensor. Raises ValueError if their dimensions differ."""

    __slots__ = ("_backward", "_forward", "dst_layout", "src_layout")

    src_layout: Layout
    dst_layout: Layout

    def __init__(self, src_layout: str | Layout, dst_layout: str | Layout) -> None:
        self.src_layout, self.dst_layout = layout(src_layout), layout(dst_layout)
        only = sorted({a for a in self.src_layout if a.isupper()} ^ {a for a in self.dst_layout if a.isupper()})
        if only:
            raise ValueError(
                f"there is no way from layout {self.src_layout} to {self.dst_layout}: "
                f"only one of them has the dimension {', '.join(only)}"
            )
        self._forward = _index_map(self.src_layout, self.dst_layout)
        self._backward = _index_map(self.dst_layout, self.src_layout)

    def forward_index(self, index: Sequence[Any]) -> tuple[PrimExpr, ...]:
        """Convert indices of the source layout to the destination layout."""
        return _moved(self._forward, index, self.src_layout)

    def backward_index(self, index: Sequence[Any]) -> tuple[PrimExpr, ...]:
        """Convert indices of the destination layout to the source layout."""
        return _moved(self._backward, index, self.dst_layout)

    def forward_shape(self, shape: Sequence[Any]) -> tuple[PrimExpr, ...]:
        """Convert a shape of the source layout to the destination layout; split dimensions are padded."""
        return _shape(self.src_layout, self.dst_layout, shape)

    def backward_shape(self, shape: Sequence[Any]) -> tuple[PrimExpr, ...]:
        """Convert a shape of the destination layout to the source layout; split dimensions are padded."""
        return _shape(self.dst_layout, self.src_layout, shape)

    def to_index_map(self) -> IndexMap:
        """Return the index map from source to destination."""
        return self._forward

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BijectiveLayout):
            return False
        return (self.src_layout, self.dst_layout) == (other.src_layout, other.dst_layout)

    def __hash__(self) -> int:
        return hash((self.src_layout, self.dst_layout))

    def __repr__(self) -> str:
        return f"BijectiveLayout({self.src_layout} -> {self.dst_layout})"

    def __reduce__(self) -> tuple[Any, ...]:
        return BijectiveLayout, (self.src_layout, self.dst_layout)


def layout(layout_str: str | Layout, dtype: str = "int32") -> Layout:
    """Parse a layout such as ``NCHW16c``; a Layout is returned unchanged."""
    return layout_str if isinstance(layout_str, Layout) else Layout(layout_str, dtype)


@lru_cache(maxsize=256)
def parsed(name: str) -> Layout:
    """Return the layout of a name, cached."""
    return Layout(name, "int64")


def is_divisible(size: PrimExpr, factor: int) -> bool:
    """True if a size is proved to be a multiple of `factor`."""
    return factor == 1 or is_const(simplify(size % factor), 0)


def _parts(extent: PrimExpr, factor: int) -> PrimExpr:
    """Number of parts of `factor` elements that hold `extent` elements."""
    return simplify(extent // factor if is_divisible(extent, factor) else intrin.ceildiv(extent, factor))


def bijective_layout(src_layout: str | Layout, dst_layout: str | Layout) -> BijectiveLayout:
    """Return the conversion between two layouts of one tensor. Raises ValueError if their dimensions differ."""
    return BijectiveLayout(src_layout, dst_layout)


def _index_map(source: Layout, target: Layout) -> IndexMap:
    """Return the index map from one layout to another."""
    variables = [Var(name, source.dtype) for name in source]
    final: dict[int, PrimExpr] = {}
    for dimension in (axis for axis in target if axis.isupper()):
        whole: PrimExpr = const(0, source.dtype)
        for index, size in source.sizes_of(dimension):
            whole = whole * (size or 1) + variables[index]
        rest = whole
        for index, size in reversed(target.sizes_of(dimension)):
            final[index] = simplify(rest if size is None else rest % size)
            rest = rest if size is None else rest // size
    return IndexMap(tuple(variables), tuple(final[index] for index in range(len(target))))


def _moved(index_map: IndexMap, index: Sequence[Any], source: Layout) -> tuple[PrimExpr, ...]:
    if len(index) != len(source):
        raise ValueError(f"layout {source} has {len(source)} dimensions, found {len(index)} indices")
    return index_map.map_indices(index)


def _shape(source: Layout, target: Layout, shape: Sequence[Any]) -> tuple[PrimExpr, ...]:
    """Convert a shape to another layout; outer sizes are rounded up."""
    sizes = dimensions(shape)
    if len(sizes) != len(source):
        raise ValueError(f"layout {source} has {len(source)} dimensions, found a shape of {len(sizes)}")
    result: dict[int, PrimExpr] = {}
    for dimension in (axis for axis in target if axis.isupper()):
        total: PrimExpr = const(1, "int64")
        for index, size in source.sizes_of(dimension):
            extent = sizes[index]
            if size is not None and isinstance(extent, IntImm) and extent.value != size:
                raise ValueError(f"layout {source}: the size of {size}{source[index]} is {size}, found {extent.value}")
            total = total * (extent if size is None else size)
        inner_size = 1
        for index, size in target.sizes_of(dimension):
            inner_size *= size or 1
            result[index] = const(size or 0, "int64")
        result[target.index_of(dimension)] = simplify(intrin.ceildiv(total, inner_size))
    return tuple(result[index] for index in range(len(target)))
