"""Buffers: addresses, checked indices, loads and stores.

An index is checked at run time unless it is proven to be within its dimension. Ordinary loops over whole dimensions are
proven, so they have no checks and vectorise. The offset of an element is computed in 64 bits.
"""

from __future__ import annotations

from typing import Final, cast

from ..ir import DataType, structural_equal
from ..native.builder import Operand, splat, vector
from ..native.formula import Val, broadcast, constant
from ..native.types import check_lanes, element_type, is_small_float, is_small_integer, memory_element
from ..prim import LT, BinaryExpr, Cast, IntImm, Not, PrimExpr, Var, const, post_order
from ..prim.intervals import dtype_range
from ..tir import Broadcast, Buffer, BufferLoad, BufferStore, Ramp
from .choice import needs_care
from .context import Context, Rule, Storage, escaped
from .division import all_lanes
from .index import index
from .views import storage_of

# ------------------------------------------------------------------------------------- indices


def _evaluated(cx: Context, indices: tuple[PrimExpr, ...]) -> dict[int, Val]:
    """Indices by dimension, evaluated before any bounds check if one of them may fail; empty otherwise."""
    scalars = {axis: expr for axis, expr in enumerate(indices) if expr.dtype.lanes == 1}
    if not any(needs_care(cx, expr) for expr in scalars.values()):
        return {}
    return {axis: index(cx, expr) for axis, expr in scalars.items()}


def _checked(
    cx: Context,
    buffer: Buffer,
    indices: tuple[PrimExpr, ...],
    where: Storage,
    active: _Mask | None,
    first_lane: bool,
    known: dict[int, Val],
) -> list[Val]:
    """Return the indices in 64 bits; each is checked or proven to be within its dimension in the active lanes.

    With `first_lane`, a ramp in the last dimension yields the index of its first lane. `known` holds indices that were
    evaluated before.
    """
    if cx.plain:
        return [index(cx, expr) for expr in indices]
    found: list[Val] = []
    for axis, (expr, size) in enumerate(zip(indices, buffer.shape, strict=True)):
        if isinstance(expr, IntImm) and active is None and _is_evident(expr.value, size):
            found.append(index(cx, expr))
            continue
        if expr.dtype.lanes > 1 or active is not None:
            base = cast(Ramp, expr).base if first_lane and axis == len(indices) - 1 else None
            at = _checked_vector(cx, buffer, axis, expr, where, active, base)
            found.append(_without_large_numbers(cx, at, expr if base is None else base))
            continue
        above, below = cx.facts.in_bounds(expr, size)
        at = known[axis] if axis in known else index(cx, expr)
        if not (above and below):
            _require(cx, at.compare("", "ult", _size(cx, where, axis)), buffer, axis, at, where)
        found.append(_without_large_numbers(cx, at, expr))
    return found


def _is_evident(index: int, size: PrimExpr) -> bool:
    """True for a small constant index within a constant size, such as slots of shape heaps."""
    return isinstance(size, IntImm) and 0 <= index < min(size.value, 2**32)


def _without_large_numbers(cx: Context, at: Val, expr: PrimExpr) -> Val:
    """Hide large constants of an index from LLVM's address computation.

    LLVM counts distances between addresses in 64 bits, and aborts for some of about 2^63. An empty piece of inline
    assembly hides the computation of the index.
    """
    if cx.facts.answer(lambda: _bits_of_numbers(expr), "bits", expr) < _LARGE_NUMBERS:
        return at
    if at.lanes == 1:
        return at.make(f'call i64 asm "", "=r,0"(i64 {at.ref})')
    hidden = Val(at.b, "i64", 1, at.b.op('call i64 asm "", "=r,0"(i64 0)'))
    return at + broadcast(hidden, at.lanes)


def _bits_of_numbers(expr: PrimExpr) -> int:
    bits = 0

    def visit(part: PrimExpr) -> None:
        nonlocal bits
        bits += abs(part.value).bit_length() if isinstance(part, IntImm) else 0

    post_order(expr, visit)
    return bits


_LARGE_NUMBERS: Final = 40
"""Total number of bits of an index's constants from which its address may have a constant of more than 48 bits."""


def _size(cx: Context, where: Storage, axis: int) -> Val:
    return Val(cx.b, "i64", 1, where.shape[axis])


def _require(cx: Context, condition: Val, buffer: Buffer, axis: int, at: Val, where: Storage) -> None:
    message = f"buffer {escaped(buffer.name)}: index %lld is out of bounds for dimension {axis} of size %lld"
    cx.fail_unless(condition, "IndexError", message, at, _size(cx, where, axis))


def _checked_vector(
    cx: Context, buffer: Buffer, axis: int, expr: PrimExpr, where: Storage, active: _Mask | None, base: PrimExpr | None
) -> Val:
    """Index of each lane, checked; only the first lane's index if `base` is given."""
    size = buffer.shape[axis]
    if active is not None:
        return _checked_lanes(cx, buffer, axis, expr, where, active, base)
    if isinstance(expr, Ramp) and _ends_tell(cx, expr):
        last = cx.facts.answer(lambda: expr.base + expr.stride * (expr.lanes - 1), "last lane", expr)
        ends = (expr.base, last)
        above, below = cx.facts.in_bounds(last, size)
        if cx.facts.interval(expr.stride)[0] >= 0:  # the first lane is below the last, unless that is less than 0
            proofs = [cx.facts.nonnegative(expr.base), above and below]
        else:
            proofs = [all(cx.facts.in_bounds(expr.base, size)), above and below]
    elif isinstance(expr, Broadcast):
        ends, proofs = (expr.value,), [all(cx.facts.in_bounds(expr.value, size))]
    else:
        ends, proofs = (), [False]
    if all(proofs):
        return index(cx, expr if base is None else base)
    if ends:  # the ends are within bounds, so all between them are
        for end, proven in zip(ends, proofs, strict=True):
            if not proven:
                place = index(cx, end)
                _require(cx, place.compare("", "ult", _size(cx, where, axis)), buffer, axis, place, where)
        return index(cx, expr if base is None else base)
    at = index(cx, expr)
    sizes = broadcast(_size(cx, where, axis), at.lanes)
    inside = at.compare("", "ult", sizes)
    wrong = _first_lane(cx, inside)
    _require(cx, all_lanes(inside), buffer, axis, _lane(at, wrong.ref), where)
    return at if base is None else index(cx, base)


def _checked_lanes(
    cx: Context, buffer: Buffer, axis: int, expr: PrimExpr, where: Storage, active: _Mask, base: PrimExpr | None
) -> Val:
    """Index of each lane, checked in active lanes; only the first lane's index if `base` is given."""
    if active.proves_inside(cx, expr, buffer.shape[axis]):
        return index(cx, expr if base is None else base)
    at = index(cx, expr)
    lanes = active.value.lanes
    wide = broadcast(at, lanes)
    inside = wide.compare("", "ult", broadcast(_size(cx, where, axis), lanes))
    fine = inside | active.value.make(f"xor {active.value.full_type} {active.value.ref}, splat (i1 true)")
    wrong = _first_lane(cx, fine)
    _require(cx, all_lanes(fine), buffer, axis, _lane(wide, wrong.ref), where)
    return at if base is None else index(cx, base)


def _ends_tell(cx: Context, ramp: Ramp) -> bool:
    """True if a ramp whose first and last lanes are within bounds is within bounds: its steps cannot wrap around."""
    low, high = cx.facts.interval(ramp.stride)
    return ramp.base.dtype.is_int and max(-low, high) * ramp.lanes < 2 ** (ramp.base.dtype.bits - 1)


def _first_lane(cx: Context, inside: Val) -> Val:
    """Index of the first lane in which `inside` does not hold (0 if there is none)."""
    bits = f"i{inside.lanes}"
    mask = cx.b.op(f"bitcast {inside.full_type} {inside.ref} to {bits}")
    outside = cx.b.op(f"xor {bits} {mask}, -1")
    function = cx.b.module.intrinsic(f"llvm.cttz.{bits}", bits, bits, "i1")
    count = cx.b.op(f"call {bits} {function}({bits} {outside}, i1 false)")
    lane = cx.b.op(f"urem {bits} {count}, {inside.lanes}") if inside.lanes > 1 else count
    conversion = "zext" if inside.lanes < 64 else "trunc" if inside.lanes > 64 else "bitcast"
    return Val(cx.b, "i64", 1, cx.b.op(f"{conversion} {bits} {lane} to i64"))


def _lane(value: Val, lane: Operand) -> Val:
    ref = value.b.op(f"extractelement {value.full_type} {value.ref}, i64 {lane}")
    return Val(value.b, value.type, 1, ref)


def _offset(cx: Context, where: Storage, indices: list[Val], element_lanes: int, wraps: bool = False) -> Val:
    """Distance of an element from the first one, in lanes; a vector for vector indices.

    Every index is within bounds and the buffer is in memory, so nothing overflows, except with `wraps`.
    """
    lanes = max((i.lanes for i in indices), default=1)

    def op(name: str, a: Val, b: Val) -> Val:
        return a.integer(name, a.ref, b.ref, "" if wraps else "nsw ")

    total: Val | None = None
    for axis, at in enumerate(indices):
        step = broadcast(at, lanes)
        if where.strides is not None:
            step = op("mul", step, broadcast(Val(cx.b, "i64", 1, where.strides[axis]), lanes))
        elif total is not None:
            total = op("mul", total, broadcast(_size(cx, where, axis), lanes))
        total = step if total is None else op("add", total, step)
    if total is None:
        return cx.i64(0)
    return total if element_lanes == 1 else op("mul", total, constant(cx.b, "i64", lanes, element_lanes))


# ------------------------------------------------------------------------------------- access


class _Mask:
    """Predicate of an access: the lanes that are read or written."""

    def __init__(self, predicate: PrimExpr, value: Val) -> None:
        self.predicate, self.value = predicate, value

    def proves_inside(self, cx: Context, expr: PrimExpr, size: PrimExpr) -> bool:
        """True if the index of every active lane is proven to be within [0, size)."""
        question = "inside", self.predicate, expr, size
        return cx.facts.answer(lambda: self._proves_inside(cx, expr, size), *question)

    def _proves_inside(self, cx: Context, expr: PrimExpr, size: PrimExpr) -> bool:
        if self._says_below(cx, expr, size):
            return True
        dtype = expr.dtype.element_of
        lane = Var("lane", dtype)
        condition, at = _of_lane(self.predicate, lane), _of_lane(expr, lane)
        if condition is None or at is None or self.value.lanes > dtype.max_value:
            return False
        lanes = cx.facts.loop(lane, const(0, dtype), const(self.value.lanes, dtype))
        with lanes, cx.facts.condition(condition):
            return all(cx.facts.in_bounds(at, size))

    def _says_below(self, cx: Context, expr: PrimExpr, size: PrimExpr) -> bool:
        """True if the predicate itself compares a rising index with `size`: no proof is needed."""
        match self.predicate, expr:
            case LT(Ramp() as compared, Broadcast(bound)), Ramp(base, IntImm(_, stride), lanes):
                low, high = cx.facts.interval(base)
                rises = low >= 0 and stride >= 0 and high + stride * (lanes - 1) <= dtype_range(base.dtype)[1]
                return rises and bound is size and structural_equal(compared, expr)
            case _:
                return False


def _defined(cx: Context, predicate: PrimExpr) -> PrimExpr:
    """Condition bound to a variable by a let; any other predicate unchanged."""
    return cx.masks.get(predicate, predicate) if isinstance(predicate, Var) else predicate


def _of_lane(expr: PrimExpr, lane: Var) -> PrimExpr | None:
    """Value of a vector expression in one lane; None for operations not known to be lane-wise."""
    if expr.dtype.lanes == 1:
        return expr
    match expr:
        case Ramp(base, stride):
            return base + stride * (lane if base.dtype == lane.dtype else Cast(base.dtype, lane))
        case Broadcast(value):
            return value
        case BinaryExpr(a=a, b=b):
            first, second = _of_lane(a, lane), _of_lane(b, lane)
            if first is None or second is None:
                return None
            return expr.replace(a=first, b=second)
        case Not(a):
            inner = _of_lane(a, lane)
            return None if inner is None else Not(inner)
        case Cast(dtype, value):
            inner = _of_lane(value, lane)
            return None if inner is None else Cast(dtype.element_of, inner)
        case _:
            return None


class _Address:
    """Address of a load or store: one pointer to consecutive lanes, or a vector of pointers."""

    def __init__(
        self,
        cx: Context,
        buffer: Buffer,
        indices: tuple[PrimExpr, ...],
        predicate: PrimExpr | None = None,
        known: dict[int, Val] | None = None,
    ) -> None:
        if known is None:
            known = _evaluated(cx, indices)
        mask = None if predicate is None else _Mask(_defined(cx, predicate), cx.value(predicate))
        self.mask = None if mask is None else mask.value
        where = storage_of(cx, buffer)
        element = memory_element(buffer.dtype)
        self.dtype = buffer.dtype.element_of
        self.align = where.align
        element_lanes = max(buffer.dtype.lanes, 1)
        last = indices[-1] if indices else None
        scalar = all(expr.dtype.lanes == 1 for expr in indices[:-1])
        consecutive = isinstance(last, Ramp) and _is_one(last.stride) and scalar
        if mask is not None:  # lanes that wrap around between others are not consecutive
            consecutive = consecutive and _ends_tell(cx, cast(Ramp, last))
        compact = where.strides is None or where.strides[-1:] == ("1",)
        first_lane = consecutive and compact
        found = _checked(cx, buffer, indices, where, mask, first_lane, known)
        self.lanes = element_lanes * max((i.dtype.lanes for i in indices), default=1)
        check_lanes(self.dtype.with_lanes(self.lanes))
        if buffer.scope == "local" and self.lanes * self.dtype.bits > cx.unit.target.vector_bits:
            cx.b.module.has_wide_tiles = True
        self.scattered = any(i.lanes > 1 for i in found)
        if (self.scattered or mask is not None) and element_lanes > 1:
            cx.report("E5904", f"buffer {buffer.name} of {buffer.dtype!s} is not indexed by consecutive vectors")
        # An address whose first lane is not active may lie outside of the buffer.
        offset = _offset(cx, where, found, element_lanes, wraps=mask is not None)
        flags = "inbounds" if where.strides is not None else "inbounds nuw"
        flags = flags if mask is None and not cx.plain else ""
        self.pointer = cx.b.op(f"getelementptr {flags} {element}, ptr {where.pointer}, {offset.full_type} {offset.ref}")
        self.type = vector(element, self.lanes)
        self.element = element

    def load(self, cx: Context) -> Val:
        if not self.scattered and self.mask is None:
            ref = cx.b.op(f"load {self.type}, ptr {self.pointer}, align {self.align}")
            return Val(cx.b, self.element, self.lanes, ref)
        symbol, pointers = self._masked("gather" if self.scattered else "load")
        function = cx.b.module.intrinsic(symbol, self.type, pointers, vector("i1", self.lanes), self.type)
        others = "poison" if self.mask is None else "zeroinitializer"
        arguments = f"{self._place(pointers)}, {self.type} {others}"
        return Val(cx.b, self.element, self.lanes, cx.b.call(self.type, function, arguments))

    def store(self, cx: Context, value: Val) -> None:
        if not self.scattered and self.mask is None:
            cx.b.do(f"store {self.type} {value.ref}, ptr {self.pointer}, align {self.align}")
            return
        symbol, pointers = self._masked("scatter" if self.scattered else "store")
        parameters = f"{self.type}, {pointers}, {vector('i1', self.lanes)}"
        function = cx.b.module.declare(symbol, "void", parameters, "")
        cx.b.do(f"call void {function}({self.type} {value.ref}, {self._place(pointers)})")

    def _masked(self, name: str) -> tuple[str, str]:
        """Symbol of a masked access, and the type of its address."""
        short = {"float": "f32", "double": "f64", "ptr": "p0"}.get(self.element, self.element)
        places = f"v{self.lanes}p0" if self.scattered else "p0"
        return (
            f"llvm.masked.{name}.v{self.lanes}{short}.{places}",
            vector("ptr", self.lanes) if self.scattered else "ptr",
        )

    def _place(self, pointers: str) -> str:
        """Address and mask arguments of a masked access."""
        mask = splat("i1", self.lanes, "true") if self.mask is None else self.mask.ref
        return f"{pointers} align {self.align} {self.pointer}, {vector('i1', self.lanes)} {mask}"


def _is_one(expr: PrimExpr) -> bool:
    return isinstance(expr, IntImm) and expr.value == 1


def element_pointer(cx: Context, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> Operand:
    """Address of an element; the indices are checked like those of a load."""
    return _Address(cx, buffer, indices).pointer


def any_pointer(cx: Context, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> Operand:
    """Address of an element whose indices may be out of bounds; they are not checked."""
    where = storage_of(cx, buffer)
    offset = _offset(cx, where, [index(cx, i) for i in indices], max(buffer.dtype.lanes, 1), wraps=True)
    return cx.b.op(f"getelementptr {memory_element(buffer.dtype)}, ptr {where.pointer}, i64 {offset.ref}")


def load(cx: Context, expr: PrimExpr) -> Val:
    """Value of a BufferLoad in its register form."""
    expr = cast(BufferLoad, expr)
    raw = _Address(cx, expr.buffer, expr.indices, expr.predicate).load(cx)
    return from_memory(cx, expr.buffer.dtype, raw)


def store(cx: Context, stmt: BufferStore) -> None:
    """Write a BufferStore of an element or vector."""
    # No index is reported as out of bounds before the others, or the value, have failed.
    known = _evaluated(cx, stmt.indices)
    raw = _memory_value(cx, stmt.value)
    _Address(cx, stmt.buffer, stmt.indices, stmt.predicate, known).store(cx, raw)


def from_memory(cx: Context, dtype: DataType, raw: Val) -> Val:
    """Convert a loaded element to its register form."""
    if dtype.is_bool:
        return raw.ne(constant(cx.b, "i8", raw.lanes, 0))
    if is_small_integer(dtype):
        return raw.to(element_type(dtype))
    return cx.unit.small_floats.decode(dtype, raw) if is_small_float(dtype) else raw


def to_memory(cx: Context, dtype: DataType, value: Val) -> Val:
    """Convert a value to its form in memory."""
    if is_small_float(dtype):
        return cx.unit.small_floats.encode(dtype, value)
    return value.to("i8", signed=False) if dtype.is_bool or is_small_integer(dtype) else value


def _memory_value(cx: Context, expr: PrimExpr) -> Val:
    """Value in its form in memory. Copies of small floats go bit by bit."""
    if is_small_float(expr.dtype) and isinstance(expr, BufferLoad):
        return _Address(cx, expr.buffer, expr.indices, expr.predicate).load(cx)
    return to_memory(cx, expr.dtype, cx.value(expr))


RULES: Final[dict[type, Rule]] = {BufferLoad: load}
