"""Reverse-mode differentiation of tensor expressions: adjoint loops for formulas of any kind of index.

    A = te.placeholder((n,), "float32", "A")
    B = te.compute((n - 1,), lambda i: te.exp(A[i]) * A[i + 1], "B")
    (dA,) = te.adjoints([B], [A], [dB])                 gives         for i in range(n): dA[i] = 0
                                                                      for i in range(n - 1):
                                                                          dA[i] += dB[i] * A[i + 1] * exp(A[i])
                                                                          dA[i + 1] += dB[i] * exp(A[i])

Each computation is visited once its consumers are. A read ``T[g(i)]`` in the expression of an element ``out[i]`` adds
the derivative, times the gradient with respect to ``out[i]``, to the gradient at ``g(i)``. Nothing is inverted, so `g`
may be a stride, a window, a mirrored or clamped index, or read from another tensor. The conditions under which an
element is read guard its addition. Gradients are accumulated in float32 for narrower floats and rounded at the end.

A reduction is a sum, or a maximum or minimum, whose first element that is the result takes the gradient. Piecewise
constant functions (floor, comparisons, integers) have the gradient 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ..ir import DataType
from ..ir.node import children_of
from ..prim import PrimExpr, Var, cast, const, intrin, substitute
from ..prim.expr import (
    Add,
    Call,
    Cast,
    CompareExpr,
    Div,
    FloatImm,
    IntImm,
    Let,
    LogicExpr,
    Max,
    Min,
    Mul,
    Not,
    Select,
    Sub,
)
from ..runtime.records import dataclass
from ..tir.buffer import Buffer, BufferLoad, Reduce
from ..tir.functor import StmtExprMutator
from ..tir.stmt import BufferStore, For, IfThenElse, SeqStmt, Stmt
from .create_prim_func import topological_order
from .operation import compute, extern
from .tensor import ComputeOp, Operation, ProducerLoad, Tensor

LARGEST: Final = 3000
"""Nodes of the largest expression that is differentiated: a function written out as polynomials has more."""


class NoGradientError(ValueError):
    """A tensor expression has a part without derivative: a statement, a reduction or a function."""


def adjoints(outputs: Sequence[Tensor], inputs: Sequence[Tensor], heads: Sequence[Tensor | None]) -> list[Tensor]:
    """Return the gradients of a scalar with respect to `inputs`, from `heads`, those with respect to `outputs`.

    Each gradient has its input's shape and dtype. A head of None is that of an output on which the scalar does not
    depend. Raises NoGradientError for a part on the way from an input to an output that has no derivative.
    """
    return _Gradient(inputs).of(outputs, heads)


@dataclass
class _Use:
    """One read of a tensor: the gradient it adds, and the conditions under which it is made."""

    read: ProducerLoad
    guards: tuple[PrimExpr, ...]
    seed: PrimExpr


@dataclass
class _Stage:
    """One output of a computation that reads a tensor, with the gradient with respect to it."""

    op: ComputeOp
    index: int
    grad: Tensor


class _Gradient:
    def __init__(self, inputs: Sequence[Tensor]) -> None:
        self.inputs = inputs
        self.active: set[Operation] = {tensor.op for tensor in inputs}
        """Operations of the inputs, and those that depend on them."""
        self.heads: dict[Tensor, list[Tensor]] = {}
        self.readers: dict[Tensor, list[_Stage]] = {}

    def of(self, outputs: Sequence[Tensor], heads: Sequence[Tensor | None]) -> list[Tensor]:
        order = topological_order(list(outputs))
        for op in order:
            if any(tensor.op in self.active for tensor in op.input_tensors):
                self.active.add(op)
        for tensor, head in zip(outputs, heads, strict=True):
            if head is not None and tensor.dtype.is_float:
                self.heads.setdefault(tensor, []).append(head)
        for op in reversed(order):
            if op in self.active:
                self._visit(op)
        return [self._rounded(tensor) for tensor in self.inputs]

    def _visit(self, op: Operation) -> None:
        """Register a computation, whose gradient is complete, with the tensors that it reads."""
        if op in {tensor.op for tensor in self.inputs}:
            return
        for i in range(op.num_outputs):
            tensor = op.output(i)
            if not tensor.dtype.is_float or not (tensor in self.heads or tensor in self.readers):
                continue
            if not isinstance(op, ComputeOp):
                raise NoGradientError(f"{op.name} is a statement")
            stage = _Stage(op, i, self._total(tensor))
            for read in op.input_tensors:
                if read.op in self.active and read.dtype.is_float:
                    self.readers.setdefault(read, []).append(stage)

    def _total(self, tensor: Tensor) -> Tensor:
        """Gradient with respect to a tensor, in the dtype in which gradients are accumulated."""
        dtype = _wide(tensor.dtype)
        terms = [_cast(head, dtype) for head in self.heads.get(tensor, ())]
        terms += [_scattered(tensor, stage) for stage in self.readers.get(tensor, ())]
        if not terms:
            return compute(tensor.shape, lambda *_: const(0, dtype), f"{tensor.op.name}_gradient")
        total = terms[0]
        for term in terms[1:]:
            total = _sum(total, term)
        return total

    def _rounded(self, tensor: Tensor) -> Tensor:
        return _cast(self._total(tensor), tensor.dtype)


def _wide(dtype: DataType) -> DataType:
    return DataType("float32") if dtype.is_float and dtype.bits < 32 else dtype


def _cast(tensor: Tensor, dtype: DataType) -> Tensor:
    if tensor.dtype == dtype:
        return tensor
    result: Tensor = compute(tensor.shape, lambda *i: cast(dtype, tensor(*i)), f"{tensor.op.name}_cast")
    return result


def _sum(a: Tensor, b: Tensor) -> Tensor:
    result: Tensor = compute(a.shape, lambda *i: a(*i) + b(*i), f"{a.op.name}_sum")
    return result


# ------------------------------------------------------------------------------------------- adjoint loops


def _scattered(tensor: Tensor, stage: _Stage) -> Tensor:
    """Gradient with respect to a tensor through one computation that reads it."""
    op, body = stage.op, stage.op.body[stage.index]
    loops = {axis.var: Var(axis.var.name, axis.var.dtype) for axis in (*op.axis, *op.reduce_axis)}
    place = [axis.var for axis in op.axis]
    seed: PrimExpr = ProducerLoad(stage.grad, place)
    result = op.output(stage.index)
    source, guards, select = body, (), False
    if isinstance(body, Reduce):
        source, select = _reduced(body, op)
        guards = () if _is_true(body.condition) else (body.condition,)
        if select:  # the result is read again, and compared with each element
            guards = (*guards, ProducerLoad(result, place).equal(source))
    if _size(source, {}) > LARGEST:
        raise NoGradientError(f"{op.name} is too large an expression")
    uses = [use for use in _uses(source, seed, guards) if use.read.producer == tensor]
    dtype = _wide(tensor.dtype)
    inputs = list(dict.fromkeys((stage.grad, *op.input_tensors, *((result,) if select else ()))))

    def statement(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        loads = _Reads(dict(zip(inputs, ins, strict=True)), loops)
        everywhere = [Var(f"i{d}", "int64") for d in range(tensor.ndim)]
        fill = _nested(BufferStore(outs[0], const(0, dtype), tuple(everywhere)), everywhere, tensor.shape)
        steps = [_added(outs[0], use, loads) for use in uses]
        if not steps:
            return fill
        step = steps[0] if len(steps) == 1 else SeqStmt(tuple(steps))
        if select:
            step = _first(outs[1], [loops[var] for var in place], step, [loads.visit(guard) for guard in guards])
        for axis in reversed((*op.axis, *op.reduce_axis)):
            assert axis.dom is not None
            step = For(loops[axis.var], loads.visit(axis.dom.min), loads.visit(axis.dom.extent), "serial", step)
        marks: list[Stmt] = []
        if select:
            over = [Var(f"i{d}", "int64") for d in range(result.ndim)]
            marks.append(_nested(BufferStore(outs[1], const(0, "int8"), tuple(over)), over, result.shape))
        return SeqStmt((fill, *marks, step))

    name = f"{tensor.op.name}_gradient"
    if select:
        return extern([tensor.shape, result.shape], inputs, statement, name, [dtype, "int8"])[0]
    return extern([tensor.shape], inputs, statement, name, [dtype])[0]


def _added(target: Buffer, use: _Use, loads: _Reads) -> Stmt:
    index = tuple(loads.visit(each) for each in use.read.indices)
    step: Stmt = BufferStore(target, BufferLoad(target, index) + loads.visit(use.seed), index)
    for guard in reversed(use.guards):
        step = IfThenElse(loads.visit(guard), step)
    return step


def _first(taken: Buffer, place: Sequence[Var], step: Stmt, guards: Sequence[PrimExpr]) -> Stmt:
    """Execute `step` once per element of the result: for the first element that meets the guards."""
    body: Stmt = SeqStmt((step, BufferStore(taken, const(1, "int8"), tuple(place))))
    for guard in reversed((BufferLoad(taken, tuple(place)).equal(const(0, "int8")), *guards)):
        body = IfThenElse(guard, body)
    return body


def _nested(body: Stmt, loops: Sequence[Var], sizes: Sequence[PrimExpr]) -> Stmt:
    for loop, size in reversed(list(zip(loops, sizes, strict=True))):
        body = For(loop, 0, size, "serial", body)
    return body


class _Reads(StmtExprMutator):
    """Reads of tensors as reads of buffers, over other loop variables."""

    def __init__(self, buffers: Mapping[Tensor, Buffer], loops: Mapping[Var, Var]) -> None:
        super().__init__()
        self.buffers, self.loops = buffers, loops

    def visit_ProducerLoad(self, node: ProducerLoad) -> BufferLoad:
        return BufferLoad(self.buffers[node.producer], [self.visit(index) for index in node.indices])

    def visit_Var(self, node: Var) -> Var:
        return self.loops.get(node, node)


def _reduced(body: Reduce, op: ComputeOp) -> tuple[PrimExpr, bool]:
    """Return the reduced expression, and whether one element is selected instead of all being added."""
    combiner = body.combiner
    result = combiner.result[0]
    if len(combiner.result) > 1 or body.init:
        raise NoGradientError(f"{op.name} reduces several values together")
    if isinstance(result, (Add, Max, Min)) and {result.a, result.b} == {combiner.lhs[0], combiner.rhs[0]}:
        return body.source[0], not isinstance(result, Add)
    raise NoGradientError(f"{op.name} is a reduction other than a sum, maximum or minimum")


def _is_true(condition: PrimExpr) -> bool:
    return isinstance(condition, IntImm) and bool(condition.value)


# --------------------------------------------------------------------------------------- scalar derivatives


def _uses(expr: PrimExpr, seed: PrimExpr, guards: tuple[PrimExpr, ...]) -> list[_Use]:
    """Reads in a scalar expression, with the gradient by each, from `seed`, that by the expression.

    `seed` has the dtype in which gradients of the expression's dtype are accumulated.
    """
    if not expr.dtype.is_float:
        return []
    match expr:
        case ProducerLoad():
            return [_Use(expr, guards, seed)]
        case FloatImm() | Var():
            return []
        case Select(condition, a, b):
            return [*_uses(a, seed, (*guards, condition)), *_uses(b, seed, (*guards, Not(condition)))]
        case Call() if expr.intrinsic == "if_then_else":
            condition, a, b = expr.args
            return [*_uses(a, seed, (*guards, condition)), *_uses(b, seed, (*guards, Not(condition)))]
        case Cast(_, value):
            return _uses(value, _to(seed, _wide(value.dtype)), guards) if value.dtype.is_float else []
        case Let(var, value, body):
            return _uses(substitute(body, {var: value}), seed, guards)
        case CompareExpr() | LogicExpr() | Not():
            return []
        case Add(a, b):
            return [*_uses(a, seed, guards), *_uses(b, seed, guards)]
        case Sub(a, b):
            return [*_uses(a, seed, guards), *_uses(b, -seed, guards)]
        case Mul(a, b):
            return [*_times(a, b, seed, guards), *_times(b, a, seed, guards)]
        case Div(a, b):
            wide = _widened(b, seed)
            by_b = -seed * _widened(expr, seed) / wide
            return [*_uses(a, seed / wide, guards), *_uses(b, by_b, guards)]
        case Max(a, b) | Min(a, b):
            first = a >= b if isinstance(expr, Max) else a <= b
            return [*_uses(a, seed, (*guards, first)), *_uses(b, seed, (*guards, Not(first)))]
        case Call():
            return _uses_of_call(expr, seed, guards)
        case _:
            raise NoGradientError(f"{type(expr).__name__} has no derivative")


def _size(expr: PrimExpr, sizes: Mapping[Var, int]) -> int:
    """Number of nodes of an expression in which the variables of Let are replaced by their values."""
    if isinstance(expr, Var):
        return sizes.get(expr, 1)
    if isinstance(expr, Let):
        return _size(expr.body, {**sizes, expr.var: _size(expr.value, sizes)})
    return 1 + sum(_size(child, sizes) for child in children_of(expr) if isinstance(child, PrimExpr))


def _times(a: PrimExpr, factor: PrimExpr, seed: PrimExpr, guards: tuple[PrimExpr, ...]) -> list[_Use]:
    return _uses(a, seed * _widened(factor, seed), guards)


def _to(expr: PrimExpr, dtype: DataType) -> PrimExpr:
    return expr if expr.dtype == dtype else cast(dtype, expr)


def _widened(expr: PrimExpr, seed: PrimExpr) -> PrimExpr:
    return _to(expr, seed.dtype)


def _uses_of_call(call: Call, seed: PrimExpr, guards: tuple[PrimExpr, ...]) -> list[_Use]:
    name = call.intrinsic
    if name in _CONSTANT:
        return []
    if name == "pow":
        x, y = (_widened(arg, seed) for arg in call.args)
        by_x = seed * y * intrin.power(x, y - 1)
        by_y = Select(x > 0, seed * _widened(call, seed) * intrin.log(x), const(0, seed.dtype))
        return [*_uses(call.args[0], by_x, guards), *_uses(call.args[1], by_y, guards)]
    if name in _TWO:
        slopes = _TWO[name](*(_widened(arg, seed) for arg in call.args))
        return [use for arg, slope in zip(call.args, slopes, strict=True) for use in _uses(arg, seed * slope, guards)]
    if name not in _SLOPES:
        raise NoGradientError(f"the function {name or call.op} has no derivative")
    (x,) = call.args
    return _uses(x, seed * _SLOPES[name](_widened(x, seed), _widened(call, seed)), guards)


_CONSTANT: Final = {"floor", "ceil", "trunc", "round", "nearbyint"}
"""Functions whose derivative is 0 wherever there is one."""

_SLOPES: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "exp": lambda x, y: y,
    "exp2": lambda x, y: y * 0.6931471805599453,
    "exp10": lambda x, y: y * 2.302585092994046,
    "log": lambda x, y: 1 / x,
    "log2": lambda x, y: 1.4426950408889634 / x,
    "log10": lambda x, y: 0.4342944819032518 / x,
    "log1p": lambda x, y: 1 / (x + 1),
    "tanh": lambda x, y: 1 - y * y,
    "sigmoid": lambda x, y: y * (1 - y),
    "sqrt": lambda x, y: 0.5 / y,
    "rsqrt": lambda x, y: -0.5 * y / x,
    "sin": lambda x, y: intrin.cos(x),
    "cos": lambda x, y: -intrin.sin(x),
    "tan": lambda x, y: 1 + y * y,
    "asin": lambda x, y: intrin.rsqrt(1 - x * x),
    "acos": lambda x, y: -intrin.rsqrt(1 - x * x),
    "atan": lambda x, y: 1 / (1 + x * x),
    "sinh": lambda x, y: intrin.cosh(x),
    "cosh": lambda x, y: intrin.sinh(x),
    "asinh": lambda x, y: intrin.rsqrt(x * x + 1),
    "acosh": lambda x, y: intrin.rsqrt(x * x - 1),
    "atanh": lambda x, y: 1 / (1 - x * x),
    "erf": lambda x, y: 1.1283791670955126 * intrin.exp(-x * x),
    "erfc": lambda x, y: -1.1283791670955126 * intrin.exp(-x * x),
    "fabs": lambda x, y: _sign(x),
    "abs": lambda x, y: _sign(x),
}
"""Derivative of each function of one argument, from the argument and the value."""

_TWO: Final[dict[str, Callable[[Any, Any], tuple[Any, Any]]]] = {
    "atan2": lambda y, x: (x / (x * x + y * y), -y / (x * x + y * y)),
    "hypot": lambda x, y: (x / intrin.hypot(x, y), y / intrin.hypot(x, y)),
    "fmod": lambda x, y: (const(1, x.dtype), -intrin.trunc(x / y)),
    "copysign": lambda x, y: (_sign(x) * intrin.copysign(const(1, x.dtype), y), const(0, x.dtype)),
}
"""Derivatives of each function of two arguments, from the arguments."""


def _sign(x: PrimExpr) -> PrimExpr:
    one, zero = const(1, x.dtype), const(0, x.dtype)
    return Select(x > zero, one, Select(x < zero, -one, zero))


__all__: list[str] = ["NoGradientError", "adjoints"]
