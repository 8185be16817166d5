"""Inline expansions of builtins in compiled functions, one function per builtin.

An expansion handles the common case by cell intrinsics, and calls the builtin otherwise. The condition of a check
implies that the builtin would return without an effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, cast

from ..expr import Call, DataTypeImm, ExternFunc, PrimValue, StringImm, Var
from ..ir import RelaxExpr
from ..prim import EQ, GE, LT, NE, And, FloatImm, IntImm, PrimExpr
from ..prim import StringImm as TextImm
from ..prim import cast as prim_cast
from ..prim.cells import cell_call
from ..runtime.compiled import COUNTS
from ..runtime.dtypes import itemsize
from ..runtime.limits import DIMENSION_LIMIT
from ..runtime.match import ASSERT_IMM, IGNORE, LOAD_SLOT, STORE, STORE_SIZE
from ..tir.statements import conjunction
from .host_function import Form, HostFunction
from .host_values import Dims, Fields, HostValue, Memory, Number, Register, TensorFacts

_INT, _BOOL, _FLOAT = 1, 2, 3
"""Type indices of tvm-ffi."""


def _i64(value: int) -> PrimExpr:
    return IntImm("int64", value)


def _literal(expr: RelaxExpr) -> int | float | str:
    """Value of a literal: a number, or a dtype as text."""
    if isinstance(expr, DataTypeImm):
        return str(expr.value)
    value = cast(PrimValue, expr).value
    assert isinstance(value, IntImm | FloatImm)
    return value.value


def _integer(expr: RelaxExpr) -> int:
    return cast(int, _literal(expr))


def _is_size(value: PrimExpr) -> PrimExpr:
    return And(GE(value, _i64(0)), LT(value, _i64(DIMENSION_LIMIT)))


def _operands(f: HostFunction, call: Call) -> list[HostValue]:
    return [f.operand(arg) for arg in call.args]


# ------------------------------------------------------------------------------------------ checks

_KINDS: Final = ("tensor", "shape", "scalar", "tuple")


def _match(f: HostFunction, call: Call) -> HostValue:
    """Call the builtin unless the value passes its native check (`relax.codegen.support.cells.matching`)."""
    kind = call.args[2]
    check = str(kind.value) if isinstance(kind, StringImm) else "tensor"
    device = _i64(0) if isinstance(kind, StringImm) else f.device(call, 2)
    numbers = [_literal(arg) for arg in call.args[3:-1]]
    args = f.with_device("vm.builtin.match", call, _operands(f, call))
    if isinstance(args[0], Fields) and check == "tuple" and len(args[0].fields) == numbers[0]:
        return f.null()
    args[0] = f.held(args[0])
    shown = map(_shown, numbers)
    fits = cell_call("cell_fits", TextImm(check), f.cell(args[0]), f.slots_address(), device, *shown)
    f.otherwise(fits, lambda: f.on_heap("vm.builtin.match", 1, [args[0], *args[2:]]))
    _learn(f, call.args[0], check, numbers)
    return f.null()


def _shown(number: float | str) -> PrimExpr:
    if isinstance(number, str):
        return TextImm(number)
    return FloatImm("float64", number) if isinstance(number, float) else _i64(number)


def _learn(f: HostFunction, subject: RelaxExpr, check: str, numbers: Sequence[Any]) -> None:
    """Record the facts established by a check."""
    ndim, dtype, count, *codes = numbers
    pairs = list(zip(codes[::2], codes[1::2], strict=True))
    for code, slot in pairs:
        if code == STORE_SIZE or (code == STORE and check != "scalar"):
            f.slots.add_size(slot)
    if check == "tensor" and isinstance(subject, Var) and ndim >= 0 and dtype:
        facts = f.facts(subject)
        sizes = [None] * ndim if facts is None or len(facts.dims) != ndim else list(facts.dims)
        for axis, (code, number) in enumerate(pairs if count == ndim else ()):
            if code != IGNORE:
                sizes[axis] = _i64(number) if code == ASSERT_IMM else f.slot(number)
        f.learn(subject, dtype, sizes)


def _match_shape_value(f: HostFunction, call: Call) -> HostValue:
    args = _operands(f, call)
    args[:2] = map(f.held, args[:2])
    fits = cell_call("cell_fits", TextImm("same_sizes"), f.cell(args[0]), _i64(0), f.cell(args[1]))
    f.otherwise(fits, lambda: f.packed("vm.builtin.match_shape_value", args, -1))
    return f.null()


# ----------------------------------------------------------------------------------- heap, shapes


def _alloc_heap(f: HostFunction, call: Call) -> HostValue:
    f.make_heap(_integer(call.args[0]), [str(cast(StringImm, arg).value) for arg in call.args[1:]])
    return f.null()


def _heap_floats(f: HostFunction, call: Call) -> HostValue:
    f.make_floats()
    return f.null()


def _make_shape(f: HostFunction, call: Call) -> HostValue:
    numbers = [_integer(arg) for arg in call.args[2:]]
    codes = list(zip(numbers[::2], numbers[1::2], strict=True))
    dims = [f.slot(operand) if code == LOAD_SLOT else _i64(operand) for code, operand in codes]
    unsure = [dim for dim in dims if not f.slots.is_size(dim)]
    rest = [f.operand(arg) for arg in call.args[1:]]

    if unsure:
        fits = conjunction([_is_size(dim) for dim in unsure])
        f.otherwise(fits, lambda: f.on_heap("vm.builtin.make_shape", 0, rest))
        for code, operand in codes:
            if code == LOAD_SLOT:
                f.slots.add_size(operand)
    return Dims(tuple(dims))


def _make_prim(f: HostFunction, call: Call) -> HostValue:
    dtype = cast(DataTypeImm, call.args[3]).value
    if _integer(call.args[1]) != LOAD_SLOT:
        return f.operand(call.args[2])
    slot = f.slot(_integer(call.args[2]))
    if dtype.is_bool:
        return Number(_BOOL, prim_cast("int64", NE(slot, _i64(0))))
    return Number(_FLOAT if dtype.is_float else _INT, slot)


def _shape_of(f: HostFunction, call: Call) -> HostValue:
    value = f.operand(call.args[0])
    ndim = getattr(call.args[0].struct_info_, "ndim", -1)
    if ndim < 0:
        return f.call_packed("vm.builtin.shape_of", [value])
    to = f.registers.take()
    dims = [cell_call("cell_dim", f.cell(value), _i64(axis)) for axis in range(ndim)]
    fits = cell_call("cell_fits", TextImm("tensor"), f.cell(value), _i64(0), _i64(0), _i64(ndim), TextImm(""), _i64(0))
    f.choose(
        fits,
        lambda: f.make("cell_shape", to, "vm.builtin.make_shape", *dims),
        lambda: f.packed("vm.builtin.shape_of", [value], to),
    )
    return Register(to)


# ---------------------------------------------------------------------------------------- tensors


def _alloc_tensor(f: HostFunction, call: Call) -> HostValue:
    name = "vm.builtin.alloc_tensor"
    args = _operands(f, call)
    shape, dtype = args[0], str(cast(DataTypeImm, call.args[1]).value)
    if not isinstance(shape, Dims):
        return f.call_packed(name, f.with_device(name, call, args))
    to = f.registers.take()
    device, given = f.device(call, 2), f.given_memory(call)

    def allocate() -> None:
        f.make("cell_alloc", to, name, device, TextImm(dtype), *shape.dims)

    if given is None:
        allocate()
    else:
        memory = f.at(given)
        rank = _i64(len(shape.dims))
        fits = cell_call("cell_fits", TextImm("tensor"), memory, _i64(0), device, rank, TextImm(dtype), _i64(0))
        sizes = [EQ(cell_call("cell_dim", memory, _i64(axis)), dim) for axis, dim in enumerate(shape.dims)]
        f.choose(conjunction([fits, *sizes]), lambda: f.set(to, Register(given)), allocate)
    return Register(to, TensorFacts(dtype, shape.dims, f.fresh_memory()))


def _alloc_storage(f: HostFunction, call: Call) -> HostValue:
    args = _operands(f, call)
    size, dtype = args[0], str(cast(DataTypeImm, call.args[1]).value)
    name = "vm.builtin.alloc_storage"
    payload = size.dims[0] if isinstance(size, Dims) and len(size.dims) == 1 else None
    payload = size.payload if isinstance(size, Number) else payload
    if payload is None or itemsize(dtype) != 1:
        return f.call_packed(name, f.with_device(name, call, args))
    to = f.registers.take()
    counts = cell_call("anylist_getitem", f.c, COUNTS)
    f.make("cell_storage", to, name, f.device(call, 2), counts, prim_cast("int64", payload))
    return Register(to, TensorFacts("uint8", (None,), f.fresh_memory()))


def _alloc_tensor_in(f: HostFunction, call: Call) -> HostValue:
    args = _operands(f, call)
    storage, offset, shape, dtype = *args[:3], str(cast(DataTypeImm, call.args[3]).value)
    name = "vm.builtin.alloc_tensor_in"
    if not isinstance(shape, Dims) or not isinstance(offset, Number):
        return f.call_packed(name, args)
    to = f.registers.take()
    start = prim_cast("int64", offset.payload)
    f.make("cell_view", to, name, f.cell(storage), start, TextImm(dtype), *shape.dims)
    facts = storage.facts if isinstance(storage, Register) else None
    if facts is None or facts.memory is None:
        return Register(to)
    base = facts.memory.offset
    start = start if isinstance(base, IntImm) and base.value == 0 else base + start
    return Register(to, TensorFacts(dtype, shape.dims, Memory(facts.memory.fresh, start)))


def _reshape(f: HostFunction, call: Call) -> HostValue:
    value, shape = f.operand(call.args[0], shared=False), f.operand(call.args[1])
    name = "vm.builtin.reshape"
    if not isinstance(shape, Dims):
        return f.call_packed(name, [value, shape])
    to = f.registers.take()
    f.make("cell_reshape", to, name, f.cell(value), *shape.dims)
    facts = f.facts(call.args[0])
    return Register(to, None if facts is None else replace(facts, dims=shape.dims))


def _copy_tensor(f: HostFunction, call: Call) -> HostValue:
    value = f.operand(call.args[0])
    to = f.registers.take()
    f.make("cell_copy", to, "vm.builtin.copy_tensor", f.cell(value))
    facts = f.facts(call.args[0])
    return Register(to, None if facts is None else replace(facts, memory=f.fresh_memory()))


def _make_tuple(f: HostFunction, call: Call) -> HostValue:
    return Fields(tuple(f.operand(arg, shared=False) for arg in call.args))


def _copy(f: HostFunction, call: Call) -> HostValue:
    return f.operand(call.args[0], shared=False)


def _null(f: HostFunction, call: Call) -> HostValue:
    return f.null()


FORMS: Final[dict[str, Form]] = {
    f"vm.builtin.{name}": form
    for name, form in (
        ("match", _match),
        ("match_shape_value", _match_shape_value),
        ("alloc_shape_heap", _alloc_heap),
        ("shape_heap_floats", _heap_floats),
        ("make_shape", _make_shape),
        ("make_prim_value", _make_prim),
        ("shape_of", _shape_of),
        ("alloc_tensor", _alloc_tensor),
        ("alloc_storage", _alloc_storage),
        ("alloc_tensor_in", _alloc_tensor_in),
        ("reshape", _reshape),
        ("copy_tensor", _copy_tensor),
        ("make_tuple", _make_tuple),
        ("copy", _copy),
        ("null_value", _null),
    )
}
"""Inline expansions by builtin name."""

_LITERALS: Final = {
    "alloc_shape_heap": 0, "make_shape": 1, "make_prim_value": 1, "alloc_tensor": 1, "alloc_storage": 1,
    "alloc_tensor_in": 3,
}  # fmt: skip
"""First argument that must be a literal (number, dtype or text) in the expansions of other builtins."""


def fits_form(call: Call) -> bool:
    """True if a builtin's expansion supports the call's arguments; a dtype in a variable, say, is not supported."""
    name = call.op.global_symbol.removeprefix("vm.builtin.") if isinstance(call.op, ExternFunc) else ""
    if name != "match":
        return all(map(_kind_of_literal, call.args[_LITERALS.get(name, len(call.args)) :]))
    numbers = call.args[3:-1]
    kinds = "".join(map(_kind_of_literal, numbers))
    if kinds[:3] != "iti":
        return False
    kind, count = call.args[2], _integer(numbers[2])
    is_supported = _kind_of_literal(kind) == "i" or getattr(kind, "value", None) in _KINDS
    return is_supported and len(numbers) == 3 + 2 * count and kinds[3:] in ("ii" * count, "in" * count)


def _kind_of_literal(arg: RelaxExpr) -> str:
    """Letter of a literal's kind; empty for other arguments."""
    match arg:
        case PrimValue(IntImm()):
            return "i"
        case PrimValue(FloatImm()):
            return "n"
        case DataTypeImm():
            return "t"
        case _:
            return "s" if isinstance(arg, StringImm) else ""
