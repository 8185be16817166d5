"""Shape arithmetic as PrimFuncs: they read slots of the shape heap and write others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Generic, TypeVar

from ..ir import GlobalVar
from ..prim import PrimExpr, SizeVar, cast, free_vars, substitute
from ..prim import Var as PrimVar
from ..prim.identity import Identity, identity
from ..runtime.records import dataclass
from ..tir import Buffer, BufferLoad, BufferStore, LetStmt, PrimFunc
from ..tir.statements import seq_of

T = TypeVar("T")


@dataclass(frozen=True)
class ShapeFunction:
    """A PrimFunc to be called with the heap, and with its slots as float64 if `has_floats`."""

    global_var: GlobalVar
    has_floats: bool


@dataclass
class _Pending:
    """Stores of one PrimFunc, kept until the size of the heap is known."""

    global_var: GlobalVar
    stores: dict[int, PrimExpr]
    slots: dict[PrimVar, int] = field(default_factory=dict[PrimVar, int])


class ExprTable(Generic[T]):
    """A table by structural equality: equal expressions over the same variables, or sequences of them, are one key."""

    def __init__(self, values: dict[tuple[Identity, ...], T] | None = None) -> None:
        self._values: dict[tuple[Identity, ...], T] = values or {}

    def get(self, *key: PrimExpr) -> T | None:
        """The value of a key, None if it has none."""
        return self._values.get(tuple(map(identity, key)))

    def put(self, value: T, *key: PrimExpr) -> None:
        """Give a key a value."""
        self._values[tuple(map(identity, key))] = value

    def copy(self) -> ExprTable[T]:
        """Return an independent copy."""
        return ExprTable(dict(self._values))


class ShapeCode:
    """The shape functions of a module, named apart from everything in it."""

    def __init__(self, taken: set[str]) -> None:
        self.functions: dict[GlobalVar, PrimFunc] = {}
        self._taken = taken
        self._pending: list[_Pending] = []

    def begin(self) -> None:
        """Start the next function with a fresh heap."""
        self._pending = []

    def function(self, stores: Mapping[int, PrimExpr], slots: Mapping[PrimVar, int]) -> ShapeFunction:
        """A function that stores each expression into its slot, reading variables from theirs."""
        global_var = GlobalVar(self._unique("shape_func"))
        self._pending.append(_Pending(global_var, dict(stores), dict(slots)))
        return ShapeFunction(global_var, _has_floats(stores.values()))

    def finish(self, size: int) -> None:
        """Finish the current function with a heap of `size` slots, and build its shape functions."""
        for pending in self._pending:
            self.functions[pending.global_var] = _prim_func(pending, size)

    def _unique(self, prefix: str) -> str:
        name, count = prefix, 0
        while name in self._taken:
            count += 1
            name = f"{prefix}{count}"
        self._taken.add(name)
        return name


def _has_floats(values: Iterable[PrimExpr]) -> bool:
    """True if a value, or a variable that it uses, is a float."""
    return any(operand.dtype.is_float for value in values for operand in (value, *free_vars(value)))


def _prim_func(pending: _Pending, size: int) -> PrimFunc:
    ints = Buffer(PrimVar("H", "handle"), "int64", (size,), name="H")
    floats = Buffer(PrimVar("F", "handle"), "float64", (size,), name="F")
    # Each variable is loaded by its name, which messages tell.
    used = list(dict.fromkeys(var for value in pending.stores.values() for var in free_vars(value)))
    own = {var: (SizeVar if var.nonnegative else PrimVar)(var.name, var.dtype) for var in used}
    body = seq_of([_store(ints, floats, substitute(e, own), slot) for slot, e in pending.stores.items()])
    for var in reversed(used):
        body = LetStmt(own[var], _load(ints, floats, var, pending.slots[var]), body)
    heap, view = PrimVar("heap", "handle"), PrimVar("floats", "handle")
    has_floats = _has_floats(pending.stores.values())
    params = (heap, view) if has_floats else (heap,)
    buffers = {heap: ints, view: floats} if has_floats else {heap: ints}
    # With floats there are two views of one heap: no promise that they are apart.
    attrs = {"global_symbol": pending.global_var.name_hint, "tir.is_host_func": True}
    if not has_floats:
        attrs["tir.noalias"] = True
    return PrimFunc(params, body=body, buffer_map=buffers, attrs=attrs)


def _load(ints: Buffer, floats: Buffer, var: PrimVar, slot: int) -> PrimExpr:
    if var.dtype.is_float:
        return cast(var.dtype, BufferLoad(floats, (slot,)))
    return cast(var.dtype, BufferLoad(ints, (slot,)))


def _store(ints: Buffer, floats: Buffer, value: PrimExpr, slot: int) -> BufferStore:
    if value.dtype.is_float:
        return BufferStore(floats, cast("float64", value), (slot,))
    return BufferStore(ints, cast("int64", value), (slot,))
