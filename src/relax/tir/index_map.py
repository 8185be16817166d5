"""Index maps: functions from the indices of one tensor layout to those of another.

IndexMap.from_func(lambda n, c, h, w: (n, c // 4, h, w, c % 4))        NCHW to NCHW4c
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, cast, final

import numpy as np

from ..ir import Node, binder, child, node
from ..prim import (
    Analyzer,
    BinaryExpr,
    IntImm,
    PrimExpr,
    Var,
    const,
    dimensions,
    evaluate,
    free_vars,
    intrin,
    is_const,
    map_expressions,
    prove_equal,
    simplify,
    substitute,
)
from ..prim.analyzer import Verdict
from ..runtime import nd
from .buffer import Range, to_indices
from .mixed_radix import MixedRadix
from .signature import size_text


class _AxisSeparator:
    """The type of `IndexMap.AXIS_SEPARATOR`."""

    def __repr__(self) -> str:
        return "IndexMap.AXIS_SEPARATOR"


def _inverse_map(value: Any) -> IndexMap | None:
    if value is None or isinstance(value, IndexMap):
        return value
    if not callable(value):
        raise TypeError(f"inverse_index_map: expected an index map or a function, found {type(value).__name__}")
    return IndexMap.from_func(cast("Callable[..., Any]", value))


@final
@node
class IndexMap(Node):
    """A layout change: the element at `initial_indices` moves to `final_indices`.

    `inverse_index_map` is for maps whose inverse cannot be derived; it is not checked.
    """

    initial_indices: tuple[Var, ...] = binder(converter=tuple)
    final_indices: tuple[PrimExpr, ...] = child(converter=to_indices)
    inverse_index_map: IndexMap | None = child(default=None, converter=_inverse_map)

    AXIS_SEPARATOR: ClassVar[_AxisSeparator] = _AxisSeparator()
    """Marker in the result of a function for `from_func_with_separators`: an axis separator stands here."""

    @staticmethod
    def from_func(
        mapping_function: Callable[..., Any],
        ndim: int | None = None,
        inverse_index_map: Callable[..., Any] | IndexMap | None = None,
        *,
        index_dtype: str = "int64",
    ) -> IndexMap:
        """Return the map that a function of the indices describes; a function of ``*indices`` needs `ndim`.

        Raises ValueError if the function returns axis separators: see `from_func_with_separators`.
        """
        index_map, separators = IndexMap.from_func_with_separators(
            mapping_function, ndim, inverse_index_map, index_dtype=index_dtype
        )
        if separators:
            raise ValueError("the function returns IndexMap.AXIS_SEPARATOR: use IndexMap.from_func_with_separators")
        return index_map

    @staticmethod
    def from_func_with_separators(
        mapping_function: Callable[..., Any],
        ndim: int | None = None,
        inverse_index_map: Callable[..., Any] | IndexMap | None = None,
        *,
        index_dtype: str = "int64",
    ) -> tuple[IndexMap, list[int]]:
        """Return the map that a function describes, and the number of final indices before each `AXIS_SEPARATOR`."""
        indices = tuple(Var(name, index_dtype) for name in _parameters(mapping_function, ndim))
        result = mapping_function(*indices)
        final: list[Any] = []
        separators: list[int] = []
        for item in cast("Iterable[Any]", result) if isinstance(result, (tuple, list)) else (result,):
            if item is IndexMap.AXIS_SEPARATOR:
                separators.append(len(final))
            else:
                final.append(const(item, index_dtype) if isinstance(item, int) else item)
        inverse = inverse_index_map
        if inverse is not None and not isinstance(inverse, IndexMap):
            inverse = IndexMap.from_func(inverse, len(final), index_dtype=index_dtype)
        return IndexMap(indices, final, inverse), separators

    def map_indices(self, indices: Sequence[Any]) -> tuple[PrimExpr, ...]:
        """Return the final indices of the element at `indices`. Raises ValueError for a wrong number of indices.

        The result's dtype follows the indices that are not constants: int32 indices yield int32, unless the map
        contains wider variables.
        """
        converted = to_indices(indices)
        if len(converted) != len(self.initial_indices):
            raise ValueError(f"the index map takes {len(self.initial_indices)} indices, found {len(converted)}")
        own = {index.dtype for index in converted if not isinstance(index, IntImm)}
        index_map = self
        if own:
            index_map = self.with_dtype(own.pop() if len(own) == 1 and not self._is_wide else "int64")
        table = {var: index.astype(var.dtype) for var, index in zip(index_map.initial_indices, converted, strict=True)}
        return tuple(simplify(substitute(index, table)) for index in index_map.final_indices)

    def map_shape(self, shape: Sequence[Any]) -> tuple[PrimExpr, ...]:
        """Return the shape that holds the moved elements of a tensor of shape `shape`. Raises ValueError as
        `MixedRadix` does.
        """
        return self.mixed_radix(shape).shape()

    def map_ndarray(self, arr_src: Any) -> Any:
        """Return an array, or a tensor, with its elements moved; elements of the result that receive none are 0.

        Raises ValueError as `map_shape` does.
        """
        if not isinstance(arr_src, np.ndarray):
            return nd.array(self.map_ndarray(arr_src.numpy()), device=arr_src.device)
        array = cast("np.ndarray[Any, Any]", arr_src)
        shape = [int(evaluate(size, {})) for size in self.map_shape(array.shape)]
        result = np.zeros(shape, array.dtype)
        grid = cast("Sequence[Any]", np.indices(array.shape, sparse=True))
        coordinates = dict(zip(self.initial_indices, grid, strict=True))
        where = [np.broadcast_to(_evaluated(index, coordinates), array.shape) for index in self.final_indices]
        result[tuple(where)] = array
        return result

    def inverse(self, shape: Sequence[Any]) -> IndexMap:
        """Return the inverse map for a shape. Raises ValueError unless every final index is reached."""
        inverse, padding = self.non_surjective_inverse(shape)
        if not is_const(padding, 0):
            sizes = ", ".join(map(size_text, _sizes(shape)))
            raise ValueError(
                f"the index map of the shape ({sizes}) leaves places empty where {padding}: use non_surjective_inverse"
            )
        return inverse

    def non_surjective_inverse(self, shape: Sequence[Any]) -> tuple[IndexMap, PrimExpr]:
        """Return the inverse map, and the condition under which a final index is padding, which no element moves to.

        The condition is over the inverse map's initial indices; these are int64 if symbolic sizes are. Raises
        ValueError as `MixedRadix` does.
        """
        if self.inverse_index_map is not None:
            return self.inverse_index_map, const(False, "bool")
        radix = self.mixed_radix(shape)
        names = [
            index.name if isinstance(index, Var) else f"axis{axis}" for axis, index in enumerate(self.final_indices)
        ]
        final_vars = [Var(name, "int64") for name in names]
        indices, inside = radix.inverse(final_vars)
        facts = Analyzer()
        for final_var, size in zip(final_vars, radix.shape(), strict=True):
            facts.assume(intrin.all(final_var >= 0, final_var < size))
        outside = [intrin.logical_not(fits) for fits in inside if facts.prove(fits) is not True]
        padding = facts.simplify(intrin.any(*outside)) if outside else const(False, "bool")
        inverse = IndexMap(final_vars, indices)  # not simplified, so that it can be taken apart again
        dtype = self._dtype
        if dtype == "int64" or _is_wide((*inverse.final_indices, padding), final_vars):
            return inverse, padding
        narrow = inverse.with_dtype(dtype)
        return narrow, _retyped(padding, dict(zip(final_vars, narrow.initial_indices, strict=True)), dtype)

    def is_equivalent_to(self, other_map: IndexMap) -> bool:
        """True if two maps are proved to move every element to the same indices."""
        if len(self.initial_indices) != len(other_map.initial_indices):
            return False
        other_indices = other_map.map_indices(self.initial_indices)
        return len(other_indices) == len(self.final_indices) and all(
            prove_equal(a, b) is Verdict.YES for a, b in zip(self.final_indices, other_indices, strict=True)
        )

    def with_dtype(self, dtype: Any) -> IndexMap:
        """Return the map with indices of another dtype; the map itself if it has that dtype."""
        if all(var.dtype == dtype for var in self.initial_indices):
            return self
        table = {var: Var(var.name, dtype) for var in self.initial_indices}
        final = tuple(_retyped(index, table, dtype) for index in self.final_indices)
        inverse = self.inverse_index_map
        return IndexMap(tuple(table.values()), final, None if inverse is None else inverse.with_dtype(dtype))

    def mixed_radix(self, shape: Sequence[Any]) -> MixedRadix:
        """Return the final indices as digits, for a shape. Raises ValueError as `MixedRadix` does."""
        wide = self.with_dtype("int64")
        return MixedRadix(wide.initial_indices, wide.final_indices, _sizes(shape))

    @property
    def _is_wide(self) -> bool:
        return _is_wide(self.final_indices, self.initial_indices)

    @property
    def _dtype(self) -> Any:
        return self.initial_indices[0].dtype if self.initial_indices else "int64"


def _sizes(shape: Sequence[Any]) -> tuple[PrimExpr, ...]:
    """Convert sizes of dimensions, which may be given as ranges from 0."""
    sizes: list[Any] = []
    for item in shape:
        if isinstance(item, Range) and not is_const(item.min, 0):
            raise ValueError(f"an index map is of indices from 0 on, found a range from {item.min}")
        sizes.append(item.extent if isinstance(item, Range) else item)
    return dimensions(sizes)


def _is_wide(expressions: Sequence[PrimExpr], indices: Sequence[Var]) -> bool:
    """True if expressions contain variables wider than 32 bits, apart from `indices`."""
    variables = {var for expr in expressions for var in free_vars(expr)}
    return any(var.dtype.bits > 32 for var in variables - set(indices))


def _retyped(expr: PrimExpr, table: dict[Var, Var], dtype: Any) -> PrimExpr:
    """Return an integer expression in another dtype, its variables replaced by `table`."""
    if isinstance(expr, Var):
        return table[expr] if expr in table else expr.astype(dtype)
    if isinstance(expr, IntImm):
        return expr if expr.dtype.is_bool else const(expr.value, dtype)
    return map_expressions(expr, lambda subexpr: _retyped(subexpr, table, dtype))


def _evaluated(index: PrimExpr, coordinates: dict[Var, Any]) -> Any:
    """Evaluate an index for NumPy arrays of initial indices."""
    if isinstance(index, IntImm):
        return np.asarray(index.value)
    if isinstance(index, Var):
        return coordinates[index]
    assert isinstance(index, BinaryExpr)
    return index.functions.integers(_evaluated(index.a, coordinates), _evaluated(index.b, coordinates))


def _parameters(function: Callable[..., Any], ndim: int | None) -> list[str]:
    """Return the names of a function's parameters, numbered ones for ``*indices``."""
    written: Sequence[str] | None = getattr(function, "__script_parameters__", None)
    if written is not None:
        return list(written)
    names: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is not parameter.VAR_POSITIONAL:
            names.append(parameter.name)
        elif ndim is None:
            raise ValueError(f"an index map of *{parameter.name} needs the number of dimensions, ndim=")
        else:
            names += [f"{parameter.name}{d}" for d in range(ndim - len(names))]
    return names
