"""The builtins that have a form of their own in compiled functions: one function for each.

A form writes what the builtin does in the usual case, by cell intrinsics, and a call of the builtin itself for any
other. The condition of a check is one under which the builtin would return without doing anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

from ..expr import Call, DataTypeImm, PrimValue, StringImm, Var
from ..ir import RelaxExpr
from ..prim import EQ, GE, LT, NE, And, FloatImm, IntImm, Or, PrimExpr
from ..prim import StringImm as TextImm
from ..prim import cast as prim_cast
from ..prim.cells import cell_call
from ..runtime.compiled import COUNTS
from ..runtime.dtypes import itemsize
from ..runtime.limits import DIMENSION_LIMIT
from ..runtime.match import ASSERT_SLOT, IGNORE, LOAD_SLOT, STORE, STORE_SIZE
from ..tir.statements import conjunction
from .host_values import Dims, Fields, HostValue, Memory, Number, Register, TensorFacts

if TYPE_CHECKING:
    from .host_function import HostFunction

_NONE, _INT, _BOOL, _FLOAT, _SHAPE = 0, 1, 2, 3, 69
"""Type indices of tvm-ffi."""

Form = Callable[["HostFunction", Call], HostValue]


def _i64(value: int) -> PrimExpr:
    return IntImm("int64", value)


def _number(expr: RelaxExpr) -> int | float:
    value = cast(PrimValue, expr).value
    assert isinstance(value, IntImm | FloatImm)
    return value.value


def _integer(expr: RelaxExpr) -> int:
    return cast(int, _number(expr))


def _kind_is(f: HostFunction, value: HostValue, kind: int) -> PrimExpr:
    return EQ(cell_call("cell_kind", f.cell(value)), IntImm("int32", kind))


def _is_size(value: PrimExpr) -> PrimExpr:
    return And(GE(value, _i64(0)), LT(value, _i64(DIMENSION_LIMIT)))


def _asking(f: HostFunction, call: Call, condition: PrimExpr, args: Sequence[HostValue]) -> HostValue:
    """A check: the builtin is called unless the condition holds."""
    name = str(getattr(call.op, "global_symbol", ""))
    f.otherwise(condition, lambda: f.packed(name, f.with_device(name, call, args), -1))
    return f.null()


def _operands(f: HostFunction, call: Call) -> list[HostValue]:
    return [f.operand(arg) for arg in call.args]


# ------------------------------------------------------------------------------------------ checks


def _check_tensor(f: HostFunction, call: Call) -> HostValue:
    args, subject = _operands(f, call), call.args[0]
    ndim, dtype = _integer(call.args[1]), str(cast(DataTypeImm, call.args[2]).value)
    device = f.device(call, 4) if len(call.args) > 4 else _i64(0)
    condition = cell_call("cell_fits", f.cell(args[0]), IntImm("int32", ndim), TextImm(dtype), device)
    _asking(f, call, condition, args)
    if isinstance(subject, Var) and ndim >= 0 and dtype:
        f.learn(subject, dtype, [None] * ndim)
    return f.null()


def _check_shape(f: HostFunction, call: Call) -> HostValue:
    args = _operands(f, call)
    ndim = _integer(call.args[1])
    condition = _kind_is(f, args[0], _SHAPE)
    if ndim >= 0:
        condition = And(condition, EQ(cell_call("cell_rank", f.cell(args[0])), IntImm("int32", ndim)))
    return _asking(f, call, condition, args)


def _check_prim(f: HostFunction, call: Call) -> HostValue:
    args = _operands(f, call)
    dtype = cast(DataTypeImm, call.args[1]).value
    value = f.held(args[0])
    if dtype.is_bool or dtype.is_float:
        return _asking(f, call, _kind_is(f, value, _BOOL if dtype.is_bool else _FLOAT), args)
    condition = _kind_is(f, value, _INT)
    if dtype.bits < 64:
        signed = not dtype.is_uint
        low, high = (-(1 << (dtype.bits - 1)), 1 << (dtype.bits - 1)) if signed else (0, 1 << dtype.bits)
        payload = cell_call("cell_payload", f.cell(value))
        condition = And(condition, And(GE(payload, _i64(low)), LT(payload, _i64(high))))
    return _asking(f, call, condition, args)


def _check_tuple(f: HostFunction, call: Call) -> HostValue:
    args = _operands(f, call)
    length = _integer(call.args[1])
    if isinstance(args[0], Fields) and len(args[0].fields) == length:
        return f.null()
    value = f.held(args[0])
    condition: PrimExpr = EQ(cell_call("cell_count", f.cell(value)), _i64(length))
    if not length:
        condition = Or(condition, _kind_is(f, value, _NONE))
    return _asking(f, call, condition, args)


def _match_shape(f: HostFunction, call: Call) -> HostValue:
    value, ndim = f.held(f.operand(call.args[0])), _integer(call.args[2])
    codes = [_integer(arg) for arg in call.args[3:-1]]
    subject = cast(Var, call.args[0])
    facts = f.facts(subject)
    checked = facts is not None and len(facts.dims) == ndim
    conditions: list[PrimExpr] = []
    if not checked:
        conditions.append(EQ(cell_call("cell_rank", f.cell(value)), IntImm("int32", ndim)))
    stores: list[tuple[int, PrimExpr]] = []
    for axis in range(ndim):
        code, operand = codes[2 * axis], codes[2 * axis + 1]
        dim = cell_call("cell_dim", f.cell(value), _i64(axis))
        if code == STORE:
            conditions += [] if checked else [_is_size(dim)]  # no tensor has a dimension that is none
            stores.append((operand, dim))
        elif code != IGNORE:
            conditions.append(EQ(dim, f.slot(operand) if code == ASSERT_SLOT else _i64(operand)))
    rest = [f.operand(arg) for arg in call.args[2:]]

    def store() -> None:
        for slot, dim in stores:
            f.store(slot, dim)
            f.slots.add_size(slot)

    def ask() -> None:
        if any(code in (STORE, ASSERT_SLOT) for code in codes[::2]):
            f.on_heap("vm.builtin.match_shape", 1, [value, *rest])
        else:
            f.packed("vm.builtin.match_shape", [value, f.integer(0), *rest], -1)

    if not conditions:
        store()
    elif stores:
        f.choose(conjunction(conditions), store, ask)
    else:
        f.otherwise(conjunction(conditions), ask)
    if facts is not None and checked:
        sizes = [
            None if code == IGNORE else f.slot(operand) if code in (STORE, ASSERT_SLOT) else _i64(operand)
            for code, operand in zip(codes[::2], codes[1::2], strict=True)
        ]
        f.learn(subject, facts.dtype, sizes)
    return f.null()


def _match_shape_value(f: HostFunction, call: Call) -> HostValue:
    args = _operands(f, call)
    value, shape = f.held(args[0]), f.held(args[1])
    ndim = getattr(call.args[1].struct_info_, "ndim", -1)
    if ndim < 0:
        return f.call_packed("vm.builtin.match_shape_value", [value, shape, args[2]])
    conditions: list[PrimExpr] = [
        EQ(cell_call("cell_rank", f.cell(side)), IntImm("int32", ndim)) for side in (value, shape)
    ]
    for axis in range(ndim):
        dims = (cell_call("cell_dim", f.cell(side), _i64(axis)) for side in (value, shape))
        conditions.append(EQ(*dims))
    return _asking(f, call, conjunction(conditions), [value, shape, args[2]])


def _match_prim(f: HostFunction, call: Call) -> HostValue:
    code = _integer(call.args[2])
    if code == IGNORE:
        return f.null()
    value = f.held(f.operand(call.args[0]))
    rest = [f.operand(arg) for arg in call.args[2:]]
    payload = cell_call("cell_payload", f.cell(value))
    if code in (STORE, STORE_SIZE):
        slot = _integer(call.args[3])
        fits = _is_size(payload) if code == STORE_SIZE else IntImm("bool", 1)
        f.choose(
            fits,
            lambda: f.store(slot, payload),
            lambda: f.on_heap("vm.builtin.match_prim_value", 1, [value, *rest]),
        )
        if code == STORE_SIZE:
            f.slots.add_size(slot)
        return f.null()
    if code == ASSERT_SLOT:
        same = EQ(payload, f.slot(_integer(call.args[3])))
        f.otherwise(same, lambda: f.on_heap("vm.builtin.match_prim_value", 1, [value, *rest]))
        return f.null()
    expected = cast(PrimValue, call.args[3]).value
    condition: PrimExpr = IntImm("bool", 0)
    if isinstance(expected, IntImm):
        kind = Or(_kind_is(f, value, _INT), _kind_is(f, value, _BOOL))
        condition = And(kind, EQ(payload, _i64(expected.value)))
    return _asking(f, call, condition, [value, f.integer(0), *rest])


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

    def ask() -> None:
        if any(code == LOAD_SLOT for code, _ in codes):
            f.on_heap("vm.builtin.make_shape", 0, rest)
        else:
            f.packed("vm.builtin.make_shape", [f.integer(0), *rest], -1)

    if unsure:
        f.otherwise(conjunction([_is_size(dim) for dim in unsure]), ask)
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
    fits = cell_call("cell_fits", f.cell(value), IntImm("int32", ndim), TextImm(""), _i64(0))
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
        fits = cell_call("cell_fits", memory, IntImm("int32", len(shape.dims)), TextImm(dtype), device)
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
        ("check_tensor_info", _check_tensor),
        ("check_shape_info", _check_shape),
        ("check_prim_value_info", _check_prim),
        ("check_tuple_info", _check_tuple),
        ("match_shape", _match_shape),
        ("match_shape_value", _match_shape_value),
        ("match_prim_value", _match_prim),
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
"""The forms, by name of the builtin."""

__all__ = ["FORMS"]
