"""Direct kernel calls with raw addresses, if a compiled Relax function can prove that the arguments match.

Before   T.anylist_setitem_call_cpacked(r, -1, c, "matmul", r[0], r[1], r[4])
After    T.kernel_call("matmul", T.cell_data(r[0]), T.cell_data(r[1]), T.cell_data(r[4]), heap[0])

The packed form of a kernel checks the kind, device, dtype, rank, alignment and sizes of each tensor, and that its
outputs do not overlap other tensors. A compiled function has checked its parameters, and has created the other tensors
itself (`TensorFacts`), which proves nearly all of that. Sizes and memory offsets are compared by the expressions that
define them (`Slots`). Unproven conditions are tested at run time; if one fails, the packed form is called, and raises
the error. A kernel is always called in its packed form if it has parameters other than compact tensors and int64
numbers, if the facts about a tensor are unknown, or if its own sizes might overflow 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ..ir import structural_equal
from ..prim import EQ, GE, LE, LT, IntImm, Or, PrimExpr, SizeVar, Var, free_vars, substitute
from ..prim.cells import REGISTERS
from ..prim.totality import scalar_never_fails
from ..runtime.dtypes import itemsize
from ..runtime.limits import DIMENSION_LIMIT
from ..runtime.records import dataclass
from ..tir import Buffer, PrimFunc
from ..tir.signature import ArgumentField, signature_of
from ..transform.shape_code import ExprTable
from .heap_slots import Slots
from .host_values import Number, TensorFacts

_INT: Final = 1
"""tvm-ffi's type index of integers."""


@dataclass(frozen=True)
class TensorArgument:
    """A tensor argument of a kernel."""

    facts: TensorFacts
    address: PrimExpr
    dim: Callable[[int], PrimExpr]
    """Reads a dimension that `facts` lacks."""

    def size(self, axis: int) -> PrimExpr:
        """Dimension of an axis."""
        size = self.facts.dims[axis]
        return self.dim(axis) if size is None else size


@dataclass(frozen=True)
class DirectCall:
    """Arguments of `kernel_call`, and conditions under which the call is valid."""

    args: tuple[PrimExpr, ...]
    conditions: tuple[PrimExpr, ...]


def direct_call(kernel: PrimFunc, args: Sequence[TensorArgument | Number], slots: Slots) -> DirectCall | None:
    """Return the unchecked kernel call, or None if the kernel must check its arguments."""
    if len(args) != len(kernel.params) or REGISTERS in kernel.attrs or "tir.is_host_func" in kernel.attrs:
        return None
    call = _Matching(kernel, slots)
    if not all(call.take(*pair) for pair in zip(kernel.params, args, strict=True)):
        return None
    return call.finish()


class _Matching:
    """Matching of a kernel's parameters with arguments."""

    def __init__(self, kernel: PrimFunc, slots: Slots) -> None:
        self.kernel = kernel
        self.slots = slots
        self.tensors: dict[int, TensorArgument] = {}
        self.values: dict[Var, PrimExpr] = {}
        self.args: list[PrimExpr] = []
        self.conditions: list[PrimExpr] = []
        self.kernel_sizes: set[Var] = set()
        """The kernel's variables that are sizes of tensors, or are required to be sizes."""
        self.others: ExprTable[Var] = ExprTable()
        """The variables that stand for numbers which are in no slot."""

    def take(self, param: Var, arg: TensorArgument | Number) -> bool:
        """Match a parameter; False if the packed form must be called."""
        buffer = self.kernel.buffer_map.get(param)
        if isinstance(arg, TensorArgument) and buffer is not None:
            self.tensors[len(self.args)] = arg
            self.args.append(arg.address)
            return _is_compact(buffer) and self._fits(buffer, arg.facts)
        if isinstance(arg, Number) and buffer is None and param.dtype == "int64" and arg.kind in (None, _INT):
            value = arg.payload
            self.args.append(value)
            self.values[param] = value
            if param.nonnegative:
                self.kernel_sizes.add(param)
                if not self.slots.is_size(value):
                    self.conditions += [GE(value, _i64(0)), LT(value, _i64(DIMENSION_LIMIT))]
            return value.dtype == "int64"
        return False

    def _fits(self, buffer: Buffer, facts: TensorFacts) -> bool:
        if buffer.dtype != facts.dtype or buffer.ndim != len(facts.dims):
            return False
        start = facts.memory.offset if facts.memory is not None else _i64(0)
        return self.slots.is_multiple(start, itemsize(facts.dtype))

    def finish(self) -> DirectCall | None:
        """Return the call after all parameters are matched."""
        signature = signature_of(self.kernel)
        if any(var.dtype != "int64" for var in signature.bound):
            return None
        for var, field in signature.bound.items():
            self.values[var] = self._size(field)
            self.args.append(self.values[var])
        self.kernel_sizes.update(signature.bound)
        compares = all(self._compare(self._size(field), expr) for field, expr in signature.compared)
        pairs = [(self.tensors[i].facts, self.tensors[j].facts) for i, j in signature.apart]
        if not compares or not all(self._require_apart(*pair) for pair in pairs):
            return None
        return DirectCall(tuple(self.args), tuple(self.conditions))

    def _size(self, field: ArgumentField) -> PrimExpr:
        return self.tensors[field.param].size(field.axis)

    def _compare(self, size: PrimExpr, expr: PrimExpr) -> bool:
        """Require that a size equals the signature's; False if the packed form must be called."""
        names = free_vars(expr)
        if not all(var in self.values for var in names):
            return False
        expected = substitute(expr, self.values)
        if isinstance(expected, IntImm) and isinstance(size, IntImm):
            return expected.value == size.value
        actual = self._meaning(size)
        wanted = substitute(expr, {var: self._meaning(self.values[var]) for var in names})
        if structural_equal(actual, wanted):
            return True
        if not scalar_never_fails(substitute(expr, {var: self._plain(var) for var in names})):
            return False
        if not self.slots.are_equal(actual, wanted):
            self.conditions.append(EQ(size, expected))
        return True

    def _meaning(self, expr: PrimExpr) -> PrimExpr:
        return self.slots.meaning(expr, self._other)

    def _other(self, expr: PrimExpr) -> PrimExpr:
        """Return the variable for a number that is not in a slot."""
        number = self.others.get(expr)
        if number is None:
            number = Var("number", "int64")
            self.others.put(number, expr)
        return number

    def _plain(self, var: Var) -> PrimExpr:
        """A constant, or a fresh variable for an unknown number (a SizeVar if it is known to be a size)."""
        value = self.values[var]
        if isinstance(value, IntImm):
            return value
        is_size = var in self.kernel_sizes or self.slots.is_size(value)
        return SizeVar(var.name, "int64") if is_size else Var(var.name, "int64")

    def _require_apart(self, a: TensorFacts, b: TensorFacts) -> bool:
        """Require that two tensors do not overlap; return False if this cannot be decided."""
        if a.memory is None or b.memory is None or not (a.memory.fresh or b.memory.fresh):
            return False
        if a.memory.fresh != b.memory.fresh:
            return True
        before = [self._ends_before(*pair) for pair in ((a, b), (b, a))]
        if any(test is True for test in before):
            return True
        tests = [test for test in before if not isinstance(test, bool)]
        self.conditions += [Or(*tests)] if len(tests) == 2 else tests
        return bool(tests)

    def _ends_before(self, a: TensorFacts, b: TensorFacts) -> PrimExpr | bool:
        """Condition that tensor `a` ends before `b` of the same storage begins; True if proven, False if unlikely."""
        assert a.memory is not None
        assert b.memory is not None
        end, behind = a.memory.offset, b.memory.offset
        nbytes: PrimExpr = _i64(itemsize(a.dtype))
        for size in a.dims:
            if size is None:
                return False
            nbytes = nbytes * size
        end = end + nbytes
        if isinstance(behind, IntImm) and (behind.value == 0 or isinstance(end, IntImm)):
            return isinstance(end, IntImm) and end.value <= behind.value
        return self.slots.is_at_most(self._meaning(end), self._meaning(behind)) or LE(end, behind)


def _i64(value: int) -> PrimExpr:
    return IntImm("int64", value)


def _is_compact(buffer: Buffer) -> bool:
    dtype = buffer.dtype
    plain = dtype.lanes == 1 and not dtype.is_padded and not dtype.is_handle
    return plain and not buffer.strides and buffer.elem_offset is None


__all__ = ["DirectCall", "Slots", "TensorArgument", "direct_call"]
