"""The relations between struct infos of language.md §6: subtyping, compatibility, least upper bound, erasure.

One comparison answers both subtyping and compatibility. It compares what is known of a value with what is
expected, and keeps the gravest thing it finds, on a scale from `DIFFERENT` to `SAME`:

    DIFFERENT       proved different: another kind, rank, dtype, dimension, purity
    MISSING         the value's kind, rank or dtype is not known where the expected one is
    MISSING_SHAPE   its dimensions are not known where the expected ones are
    UNPROVED        both are known, and the prover can neither prove nor refute that they are equal
    UNPLACED        the value's device is not known where the expected one is; propagation may find it yet
    SAME            the value is at least as specific as expected

A subtype is SAME (UNPROVED: possibly); a value is compatible when SAME, incompatible when DIFFERENT, else possibly.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping

from ..expr import ShapeExpr
from ..ir import StructInfo, VDevice, same_vdevice, vdevice_text
from ..ir.expr import register_is_base_of
from ..prim import Verdict, prove_equal
from ..prim.expr import PrimExpr, same
from ..prim.expr import Var as PrimVar
from ..runtime.records import dataclass
from ..struct_info import (
    DEFAULT_DERIVATION,
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from .dims import simplify_dim
from .erasure import erase, erase_to_well_defined
from .mapping import bound_in, substitute_struct_info, used_in
from .text import dims_text, prim_text, struct_info_text


class Level(enum.IntEnum):
    """The fit of a value's struct info with an expected one; see the module's docstring."""

    DIFFERENT = 0
    MISSING = 1
    MISSING_SHAPE = 2
    UNPROVED = 3
    UNPLACED = 4
    SAME = 5


@dataclass(frozen=True, slots=True)
class Fit:
    """The outcome of a comparison; `part`, `expected` and `found` tell the gravest misfit, and are empty without one.

    `part` is a path into the value such as ``field 1, dimension 0``; empty for the whole value.
    """

    level: Level
    part: str = ""
    expected: str = ""
    found: str = ""

    @property
    def verdict(self) -> Verdict:
        """Compatible, possibly compatible, incompatible."""
        if self.level is Level.SAME:
            return Verdict.YES
        return Verdict.NO if self.level is Level.DIFFERENT else Verdict.POSSIBLY

    def hint(self, otherwise: str) -> str:
        """The hint for a misfit: move a tensor from another device; for any other, the caller's hint."""
        return "move it there with R.to_vdevice" if self.part.endswith("vdevice") else otherwise

    @property
    def reason(self) -> str:
        """The misfit in words: ``dimension 0: expected 4, found n``."""
        if self.level is Level.SAME:
            return "compatible"
        where = f"{self.part}: " if self.part else ""
        return f"{where}expected {self.expected}, found {self.found}"


_FITS = Fit(Level.SAME)


def check_compatible(value: StructInfo, expected: StructInfo, in_scope: Collection[PrimVar] = ()) -> Fit:
    """Judge if a value of struct info `value` can be passed where `expected` is declared.

    `in_scope` are the shape variables that function types mention without binding them.
    """
    if value is expected or is_plainly_same(value, expected):
        return _FITS
    comparison = _Comparison(in_scope)
    comparison.compare(value, expected, ())
    return comparison.fit


def is_plainly_same(value: StructInfo, expected: StructInfo) -> bool:
    """Fast path: True for tensors whose dtype, device and dimensions are syntactically equal."""
    if type(value) is not TensorStructInfo or type(expected) is not TensorStructInfo:
        return False
    if value.dtype != expected.dtype or value.vdevice is not expected.vdevice:
        return False
    shape, wanted = value.shape, expected.shape
    if not isinstance(shape, ShapeExpr) or not isinstance(wanted, ShapeExpr):
        return False
    return len(shape.values) == len(wanted.values) and all(map(same, shape.values, wanted.values))


def subtype(derived: StructInfo, base: StructInfo) -> Verdict:
    """``derived <: base``: yes, possibly (it rests on dimensions not provably equal) or no."""
    level = check_compatible(derived, base).level
    if level is Level.SAME:
        return Verdict.YES
    return Verdict.POSSIBLY if level is Level.UNPROVED else Verdict.NO


def is_base_of(base: StructInfo, derived: StructInfo) -> bool:
    """True if `derived` is provably at least as specific as `base`."""
    return subtype(derived, base) is Verdict.YES


register_is_base_of(is_base_of)

Path = tuple[str, ...]
Params = tuple[StructInfo, ...]


_FUNCTIONS = 2_000
"""Limit on function types visited per comparison."""


class _Budget:
    """The number of function types that a comparison may still look into."""

    def __init__(self) -> None:
        self.left = _FUNCTIONS

    def spent(self) -> bool:
        """Count one more function type; return True if the budget is exhausted."""
        self.left -= 1
        return self.left < 0


class _Comparison:
    """Compares a value's struct info with an expected one, and keeps the gravest misfit.

    `wild` are variables of the expected info that are still free to become anything, once each.
    """

    def __init__(
        self, in_scope: Collection[PrimVar], wild: Iterable[PrimVar] = (), budget: _Budget | None = None
    ) -> None:
        self.in_scope = in_scope
        self.wild = set(wild)
        self.fit = _FITS
        self.budget = _Budget() if budget is None else budget
        self.compared: dict[tuple[int, int], tuple[StructInfo, StructInfo]] = {}
        """Pairs compared since a wild variable was used up, by id: an info may stand in many places."""

    def differ(self, level: Level, path: Path, expected: str, found: str) -> None:
        if level < self.fit.level:
            self.fit = Fit(level, ", ".join(path), expected, found)

    def infos(self, level: Level, path: Path, expected: StructInfo, found: StructInfo) -> None:
        self.differ(level, path, struct_info_text(expected), struct_info_text(found))

    def compare(self, value: StructInfo, expected: StructInfo, path: Path) -> None:
        pair = id(value), id(expected)
        if value is expected or isinstance(expected, ObjectStructInfo) or pair in self.compared:
            return
        self.compared[pair] = value, expected
        if isinstance(value, ObjectStructInfo):
            self.infos(Level.MISSING, path, expected, value)
        elif type(value) is not type(expected):
            self.infos(Level.DIFFERENT, path, expected, value)
        else:
            getattr(self, _METHODS[type(value)])(value, expected, path)

    def tensor(self, value: TensorStructInfo, expected: TensorStructInfo, path: Path) -> None:
        if not expected.dtype.is_void and value.dtype != expected.dtype:
            level = Level.MISSING if value.dtype.is_void else Level.DIFFERENT
            found = str(value.dtype) or "an unknown dtype"
            self.differ(level, (*path, "dtype"), str(expected.dtype), found)
        if expected.vdevice is not None and not same_vdevice(value.vdevice, expected.vdevice):
            level = Level.UNPLACED if value.vdevice is None else Level.DIFFERENT
            self.differ(level, (*path, "vdevice"), _device(expected.vdevice), _device(value.vdevice))
        if not self.rank(value.ndim, expected.ndim, path) or expected.shape is None:
            return
        if value.shape is not None and value.shape is expected.shape:
            return
        if expected.dims is None or (value.shape is not None and value.dims is None):
            self.shape_variables(value, expected, path)
        else:
            self.dims(value.dims, expected.dims, path)

    def shape_variables(self, value: TensorStructInfo, expected: TensorStructInfo, path: Path) -> None:
        """At least one of the two shapes is a variable that holds an unknown shape, and they are not the same."""
        level = Level.MISSING_SHAPE if value.shape is None else Level.UNPROVED
        self.infos(level, (*path, "shape"), expected, value)

    def rank(self, value: int, expected: int, path: Path) -> bool:
        """Compare ranks; return True if dimensions are to be compared too."""
        if expected == -1 or value == expected:
            return True
        if value == -1:
            self.differ(Level.MISSING, (*path, "rank"), str(expected), "an unknown rank")
        else:
            self.differ(Level.DIFFERENT, (*path, "rank"), str(expected), str(value))
        return False

    def dims(self, value: tuple[PrimExpr, ...] | None, expected: tuple[PrimExpr, ...], path: Path) -> None:
        if value is None:
            if not self.all_wild(expected):
                self.differ(Level.MISSING_SHAPE, (*path, "shape"), dims_text(expected), "an unknown shape")
            return
        if len(value) != len(expected):
            self.differ(Level.DIFFERENT, (*path, "rank"), str(len(expected)), str(len(value)))
            return
        for i, (v, e) in enumerate(zip(value, expected, strict=True)):
            if not self.all_wild((e,)) and v is not e:
                self.scalar(v, e, (*path, f"dimension {i}"))

    def all_wild(self, dims: tuple[PrimExpr, ...]) -> bool:
        """True if every dimension is a variable free to become what the value has; each is used up by that."""
        if not self.wild:
            return False
        free = {dim for dim in dims if isinstance(dim, PrimVar) and dim in self.wild}
        if len(free) != len(dims):
            return False
        self.wild -= free
        self.compared.clear()
        return True

    def scalar(self, value: PrimExpr, expected: PrimExpr, path: Path) -> None:
        verdict = prove_equal(value, expected)
        if verdict is Verdict.YES:
            return
        level = Level.DIFFERENT if verdict is Verdict.NO else Level.UNPROVED
        wanted, found = prim_text(expected), prim_text(value)
        if wanted == found:
            found += " (another variable of that name)"
        self.differ(level, path, wanted, found)

    def shape(self, value: ShapeStructInfo, expected: ShapeStructInfo, path: Path) -> None:
        if self.rank(value.ndim, expected.ndim, path) and expected.values is not None:
            self.dims(value.values, expected.values, path)

    def prim(self, value: PrimStructInfo, expected: PrimStructInfo, path: Path) -> None:
        if value.dtype != expected.dtype:
            self.differ(Level.DIFFERENT, (*path, "dtype"), str(expected.dtype), str(value.dtype))
        elif expected.value is not None and not self.all_wild((expected.value,)):
            if value.value is None:
                text = prim_text(expected.value)
                self.differ(Level.MISSING_SHAPE, (*path, "value"), text, "an unknown value")
            else:
                self.scalar(value.value, expected.value, (*path, "value"))

    def tuple(self, value: TupleStructInfo, expected: TupleStructInfo, path: Path) -> None:
        if len(value.fields) != len(expected.fields):
            self.differ(Level.DIFFERENT, path, _count(expected), _count(value))
            return
        for i, (v, e) in enumerate(zip(value.fields, expected.fields, strict=True)):
            self.compare(v, e, (*path, f"field {i}"))

    def func(self, value: FuncStructInfo, expected: FuncStructInfo, path: Path) -> None:
        if expected.purity and not value.purity:
            self.differ(Level.DIFFERENT, (*path, "purity"), "a pure function", "an impure one")
        if value.params is None or expected.params is None:
            self.packed(value, expected, path)
            return
        if len(value.params) != len(expected.params):
            count = len(expected.params)
            wanted = f"{count} parameter{'' if count == 1 else 's'}"
            self.differ(Level.DIFFERENT, path, wanted, f"{len(value.params)}")
            return
        if self.budget.spent():
            self.differ(Level.UNPROVED, path, struct_info_text(expected), "a function type too large to compare")
            return
        expected_params, expected_ret = _apart(expected.params, expected.ret, value, self.in_scope)
        table, free = match_own(value.params, expected_params, self.in_scope)
        params, ret = _substituted(value.params, value.ret, table)
        # What the parameters bind is in scope in function types among them, and in the result.
        bound = bound_in(*expected_params)
        outer, compared = self.in_scope, self.compared
        if bound:
            self.in_scope, self.compared = {*outer, *bound}, {}
        self.parameters(params, expected_params, free, path)
        self.compare(erase(ret, free), expected_ret, (*path, "result"))
        self.in_scope, self.compared = outer, compared

    def parameters(self, value: Params, expected: Params, free: Iterable[PrimVar], path: Path) -> None:
        """Contravariant: whatever may be passed as expected must be accepted. `free` may become anything."""
        inner = _Comparison(self.in_scope, free, self.budget)
        for i, (p, e) in enumerate(zip(value, expected, strict=True)):
            inner.compare(e, p, (*path, f"parameter {i}"))
        if inner.fit.level < self.fit.level:
            fit = inner.fit  # its two sides stand the other way round
            self.fit = Fit(fit.level, fit.part, fit.found, fit.expected)

    def packed(self, value: FuncStructInfo, expected: FuncStructInfo, path: Path) -> None:
        if (value.params is None) is not (expected.params is None):
            self.infos(Level.DIFFERENT, path, expected, value)
        elif expected.derive_func not in (DEFAULT_DERIVATION, value.derive_func):
            self.differ(Level.DIFFERENT, (*path, "derivation"), f"{expected.derive_func}", f"{value.derive_func}")


class _CastComparison(_Comparison):
    """Judge if a value described by one struct info can turn out to have the other.

    A function may accept more than its struct info says, and have no effect though it is not said to be pure. So only
    the number of its parameters and its result can oppose a cast.
    """

    def func(self, value: FuncStructInfo, expected: FuncStructInfo, path: Path) -> None:
        super().func(value.replace(purity=expected.purity), expected, path)

    def parameters(self, value: Params, expected: Params, free: Iterable[PrimVar], path: Path) -> None:
        pass

    def packed(self, value: FuncStructInfo, expected: FuncStructInfo, path: Path) -> None:
        super().packed(value.replace(derive_func=expected.derive_func), expected, path)


_METHODS: dict[type, str] = {
    TensorStructInfo: "tensor",
    ShapeStructInfo: "shape",
    PrimStructInfo: "prim",
    TupleStructInfo: "tuple",
    FuncStructInfo: "func",
}


def _count(info: TupleStructInfo) -> str:
    return f"a tuple of {len(info.fields)}"


def _device(device: VDevice | None) -> str:
    return "an unknown device" if device is None else vdevice_text(device)


# ------------------------------------------------------------------------------------ matching, calls


def match_dimensions(
    patterns: Iterable[StructInfo], values: Iterable[StructInfo], in_scope: Collection[PrimVar] = ()
) -> tuple[dict[PrimVar, PrimExpr], set[PrimVar]]:
    """The values of the patterns' own shape variables when dimensions are matched against them.

    Own variables are those that stand alone and are not in scope already. Returns their values, and those whose value
    is not known.
    """
    patterns = tuple(patterns)
    own = {var for var in bound_in(*patterns) if var not in in_scope}
    table: dict[PrimVar, PrimExpr] = {}
    for pattern, value in zip(patterns, values, strict=False):
        _match(pattern, value, own, table)
    return table, own - table.keys()


def match_own(
    params: Iterable[StructInfo], other_params: Iterable[StructInfo], in_scope: Collection[PrimVar]
) -> tuple[dict[PrimVar, PrimExpr], set[PrimVar]]:
    """`match_dimensions` of two functions' parameters. What is not matched becomes new variables, and these are free.

    (Two signatures may bind the same variable object, and mean different things by it.)
    """
    table, unmatched = match_dimensions(params, other_params, in_scope)
    fresh = {var: PrimVar(var.name, var.dtype, span=var.span) for var in unmatched}
    return {**table, **fresh}, set(fresh.values())


def _match(pattern: StructInfo, value: StructInfo, own: set[PrimVar], table: dict[PrimVar, PrimExpr]) -> None:
    seen: set[tuple[int, int]] = set()
    pending = [(pattern, value)]
    while pending:
        pair = pending.pop()
        if (id(pair[0]), id(pair[1])) in seen:
            continue
        seen.add((id(pair[0]), id(pair[1])))
        match pair:
            case TupleStructInfo(fields), TupleStructInfo(others):
                pending.extend(list(zip(fields, others, strict=False))[::-1])
            case TensorStructInfo(ShapeExpr(dims)), TensorStructInfo() as other:
                _match_dims(dims, other.dims, own, table)
            case ShapeStructInfo(dims), ShapeStructInfo(others) if dims is not None:
                _match_dims(dims, others, own, table)
            case PrimStructInfo(_, dim), PrimStructInfo(_, other) if dim is not None and other is not None:
                _match_dims((dim,), (other,), own, table)
            case _:
                pass


def _match_dims(
    dims: tuple[PrimExpr, ...], values: tuple[PrimExpr, ...] | None, own: set[PrimVar], table: dict[PrimVar, PrimExpr]
) -> None:
    if values is None or len(values) != len(dims):
        return
    for dim, value in zip(dims, values, strict=True):
        if isinstance(dim, PrimVar) and dim in own:
            table.setdefault(dim, value)


def check_castable(value: StructInfo, cast: StructInfo, in_scope: Collection[PrimVar] = ()) -> Fit:
    """Judge if a match_cast of a value can succeed; incompatible if it is proved that it never will.

    Variables of the cast that stand alone and are not in scope are bound by it.
    """
    table, unmatched = match_dimensions([cast], [value], in_scope)
    comparison = _CastComparison(in_scope, unmatched)
    comparison.compare(value, substitute_struct_info(cast, table, None, simplify_dim), ())
    return comparison.fit


def fit_all(
    values: Iterable[StructInfo], patterns: Iterable[StructInfo], in_scope: Collection[PrimVar] = ()
) -> tuple[list[Fit], dict[PrimVar, PrimExpr], set[PrimVar]]:
    """Match values against patterns (parameters): binding positions first, then everything is compared.

    Returns how each value fits, what the patterns' own variables became, and those that are not known.
    """
    patterns, values = tuple(patterns), tuple(values)
    table, unmatched = match_dimensions(patterns, values, in_scope)
    wild = set(unmatched)
    fits: list[Fit] = []
    for value, pattern in zip(values, patterns, strict=True):
        expected = substitute_struct_info(pattern, table, None, simplify_dim) if table else pattern
        comparison = _Comparison(in_scope, wild)
        comparison.compare(value, expected, ())
        wild = comparison.wild
        fits.append(comparison.fit)
    return fits, table, unmatched


def call_result(
    function: FuncStructInfo, args: Iterable[StructInfo], in_scope: Collection[PrimVar] = ()
) -> tuple[list[Fit], dict[PrimVar, PrimExpr], StructInfo]:
    """The result of calling a function with params: the fit of each argument, what the function's own shape variables
    became, and the result, without what is said in variables that no argument determines.
    """
    fits, table, unmatched = fit_all(args, function.params or (), in_scope)
    result = substitute_struct_info(function.ret, table, None, simplify_dim) if table else function.ret
    return fits, table, erase(result, unmatched)


# ------------------------------------------------------------------------------------ least upper bound


def struct_info_lca(lhs: StructInfo, rhs: StructInfo, in_scope: Collection[PrimVar] = ()) -> StructInfo:
    """The least upper bound: what is known of a value that has one of two struct infos.

    `in_scope` are the shape variables that function types mention without binding them.
    """
    return _Bound(in_scope)(lhs, rhs)


class _Bound:
    """Least upper bounds, each pair of infos once."""

    def __init__(self, in_scope: Collection[PrimVar]) -> None:
        self.in_scope = in_scope
        self.done: dict[tuple[int, int], StructInfo] = {}

    def __call__(self, lhs: StructInfo, rhs: StructInfo) -> StructInfo:
        if lhs is rhs:
            return lhs
        pair = id(lhs), id(rhs)
        if pair not in self.done:
            self.done[pair] = self.made(lhs, rhs)
        return self.done[pair]

    def made(self, lhs: StructInfo, rhs: StructInfo) -> StructInfo:
        """Least upper bound of a pair that is not cached."""
        match lhs, rhs:
            case TupleStructInfo(fields), TupleStructInfo(other_fields) if len(fields) == len(other_fields):
                new = [self(a, b) for a, b in zip(fields, other_fields, strict=True)]
                same = all(a is b for a, b in zip(new, fields, strict=True))
                return lhs if same else TupleStructInfo(new)
            case _:
                return _plain_lca(lhs, rhs, self.in_scope)


def _plain_lca(lhs: StructInfo, rhs: StructInfo, in_scope: Collection[PrimVar]) -> StructInfo:
    """Least upper bound of two struct infos that are not both tuples of one length."""
    match lhs, rhs:
        case TensorStructInfo(), TensorStructInfo():
            return _tensor_lca(lhs, rhs)
        case ShapeStructInfo(values, ndim), ShapeStructInfo(other_values, other_ndim):
            if values is not None and other_values is not None and _equal_dims(values, other_values):
                return lhs
            return ShapeStructInfo(ndim=ndim if ndim == other_ndim else -1)
        case PrimStructInfo(dtype, value), PrimStructInfo(other_dtype, other) if dtype == other_dtype:
            if value is None or (other is not None and _equal_dims((value,), (other,))):
                return lhs
            return PrimStructInfo(dtype)
        case FuncStructInfo(), FuncStructInfo():
            return _func_lca(lhs, rhs, in_scope)
        case _:
            return lhs if isinstance(lhs, ObjectStructInfo) else ObjectStructInfo()


def _tensor_lca(lhs: TensorStructInfo, rhs: TensorStructInfo) -> TensorStructInfo:
    ndim = lhs.ndim if lhs.ndim == rhs.ndim else -1
    shape = lhs.shape
    if shape is not rhs.shape and not (
        lhs.dims is not None and rhs.dims is not None and _equal_dims(lhs.dims, rhs.dims)
    ):
        shape = None
    dtype = lhs.dtype if lhs.dtype == rhs.dtype else ""
    vdevice = lhs.vdevice if same_vdevice(lhs.vdevice, rhs.vdevice) else None
    same = shape is lhs.shape and dtype == lhs.dtype and vdevice is lhs.vdevice and ndim == lhs.ndim
    return lhs if same else TensorStructInfo(shape, dtype, vdevice, ndim)


def _equal_dims(lhs: tuple[PrimExpr, ...], rhs: tuple[PrimExpr, ...]) -> bool:
    return len(lhs) == len(rhs) and all(prove_equal(a, b) is Verdict.YES for a, b in zip(lhs, rhs, strict=True))


def _func_lca(lhs: FuncStructInfo, rhs: FuncStructInfo, in_scope: Collection[PrimVar]) -> StructInfo:
    purity = lhs.purity and rhs.purity
    if lhs.params is None or rhs.params is None:
        if lhs.params is not None or rhs.params is not None:
            return ObjectStructInfo()
        derive = lhs.derive_func if lhs.derive_func == rhs.derive_func else DEFAULT_DERIVATION
        return FuncStructInfo.opaque_func(derive_func=derive, purity=purity)
    if len(lhs.params) != len(rhs.params):
        return ObjectStructInfo()
    params, ret = _apart(lhs.params, lhs.ret, rhs, in_scope)
    there, other_ret = _renamed(rhs.params, rhs.ret, params, in_scope)
    back, _ = _renamed(params, ret, rhs.params, in_scope)
    # In both directions: (n, m) is not (k, k), though each of n and m can be k.
    if not (_same_params(params, there, in_scope) and _same_params(rhs.params, back, in_scope)):
        return ObjectStructInfo()
    new_ret = struct_info_lca(ret, other_ret, {*in_scope, *bound_in(*params)})
    return lhs if new_ret is ret and purity == lhs.purity else FuncStructInfo(params, new_ret, purity)


def _apart(
    params: Params, ret: StructInfo, other: StructInfo, in_scope: Collection[PrimVar]
) -> tuple[Params, StructInfo]:
    """Parameters and result with new shape variables for their own, where another info means something else by them."""
    used = used_in(other)
    own = [var for var in bound_in(*params) if var in used and var not in in_scope]
    fresh: dict[PrimVar, PrimExpr] = {var: PrimVar(var.name, var.dtype, span=var.span) for var in own}
    return _substituted(params, ret, fresh) if fresh else (params, ret)


def _renamed(
    params: Params, ret: StructInfo, other_params: Params, in_scope: Collection[PrimVar]
) -> tuple[Params, StructInfo]:
    """Parameters and result in the shape variables that `other_params` bind at the same positions."""
    return _substituted(params, ret, match_own(params, other_params, in_scope)[0])


def _substituted(params: Params, ret: StructInfo, table: Mapping[PrimVar, PrimExpr]) -> tuple[Params, StructInfo]:
    new = substitute_struct_info(TupleStructInfo((*params, ret)), table, None, simplify_dim)
    assert isinstance(new, TupleStructInfo)
    return new.fields[:-1], new.fields[-1]


def _same_params(lhs: Params, rhs: Params, in_scope: Collection[PrimVar]) -> bool:
    inner = {*in_scope, *bound_in(*lhs)}
    return all(
        check_compatible(a, b, inner).level is check_compatible(b, a, inner).level is Level.SAME
        for a, b in zip(lhs, rhs, strict=True)
    )


__all__ = [
    "Fit",
    "Level",
    "Verdict",
    "call_result",
    "check_castable",
    "check_compatible",
    "erase",
    "erase_to_well_defined",
    "fit_all",
    "is_base_of",
    "is_plainly_same",
    "match_dimensions",
    "match_own",
    "struct_info_lca",
    "subtype",
]
