"""Expressions in lockstep: closures that compute the values of all active iterations with one array operation.

Operations that may fail are evaluated only for the iterations selected by `Lockstep.mask`. If one fails there, Decline
is raised, and interpretation one step at a time reports the error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from ...ir import GlobalVar
from ...prim import (
    Add,
    And,
    BinaryExpr,
    Call,
    Cast,
    FloatImm,
    IntImm,
    Let,
    Max,
    Min,
    Mul,
    Not,
    Or,
    PrimExpr,
    Select,
    Var,
    evaluate,
)
from ...prim.evaluate import convert_value, intrinsic_function, scalar_function
from ...prim.traits import may_fail
from ..buffer import Broadcast, BufferLoad, Ramp, Shuffle, zero_of
from ..shared_subexpressions import ClosureCompiler
from .memory import Lockstep, Row
from .values import (
    DIVISIONS,
    Array,
    Decline,
    Unsupported,
    binary_arrays,
    cast_array,
    held_dtype,
    intrinsic_arrays,
    is_array,
    numpy,
    to_native,
    whole_dtype,
)

Value: TypeAlias = Callable[[Lockstep], Any]

_COMBINERS: dict[str, type[BinaryExpr]] = {"add": Add, "mul": Mul, "max": Max, "min": Min}


class Expressions(ClosureCompiler[Lockstep]):
    """Compile expressions to closures. Raises Unsupported for expressions with effects, and for handles."""

    def cached(self, expr: PrimExpr, value: Value) -> Value:
        """Return a closure that caches its value; a value computed under a mask is reused only under the same mask."""

        def run(run: Lockstep) -> Any:
            entry = run.kept.get(expr)
            if entry is not None and (entry[1] is None or entry[1] is run.mask):
                return entry[0]
            result = value(run)
            run.kept[expr] = (result, run.mask)
            return result

        return run

    def without_cached(self, shared: Sequence[PrimExpr], value: Value) -> Value:
        """Return a closure that discards the cached results of `shared`, then evaluates `value`."""

        def run(run: Lockstep) -> Any:
            for expr in shared:
                run.kept.pop(expr, None)
            return value(run)

        return run

    def fresh(self, expr: PrimExpr) -> Value:
        """Compile an expression without looking it up among the shared ones."""
        match expr:
            case IntImm(dtype, value):
                held_dtype(dtype)
                return constant(bool(value) if dtype.is_bool else value)
            case FloatImm():
                held_dtype(expr.dtype)
                return constant(evaluate(expr))
            case Var():
                return _variable(expr)
            case BufferLoad():
                return self.load(expr)
            case And(a, b) | Or(a, b) if expr.dtype.lanes == 1:
                return self.logic(a, b, isinstance(expr, And))
            case Not(a):
                value = self.expr(a)
                return lambda run: _not(value(run))
            case BinaryExpr():
                return self.binary(expr)
            case Select(condition, yes, no):
                return self.select(expr, condition, yes, no)
            case Cast(dtype, value):
                return self.cast(expr, self.expr(value))
            case Let(var, value, body):
                return _bound(var, self.expr(value), self.expr(body))
            case Ramp(base, stride, lanes):
                return self.ramp(expr, self.expr(base), self.expr(stride), lanes)
            case Broadcast(value):
                return self.expr(value)
            case Shuffle(vectors, indices):
                return self.shuffle(expr, vectors, [index.value for index in indices])
            case Call():
                return self.call(expr)
            case _:
                raise Unsupported(type(expr).__name__)

    # ------------------------------------------------------------------ operations

    def binary(self, expr: BinaryExpr) -> Value:
        a, b = self.expr(expr.a), self.expr(expr.b)
        scalars = scalar_function(expr, self.exact)
        divides = DIVISIONS.get(type(expr)) if expr.a.dtype.is_integer else None
        if divides is not None:
            whole_dtype(expr.dtype)
            return _division(a, b, divides, scalars)
        arrays = binary_arrays(expr)

        def run(run: Lockstep) -> Any:
            x, y = a(run), b(run)
            return arrays(x, y) if is_array(x) or is_array(y) else scalars(x, y)

        return run

    def logic(self, a: PrimExpr, b: PrimExpr, both: bool) -> Value:
        """Compile And or Or: the second operand is evaluated for iterations that the first does not decide."""
        left, right, fails = self.expr(a), self.expr(b), may_fail(b)
        combine = np.logical_and if both else np.logical_or

        def run(run: Lockstep) -> Any:
            x = left(run)
            if not is_array(x):
                return right(run) if bool(x) == both else x
            if not fails:
                return combine(x, right(run))
            mask = run.mask
            open_ = _restricted(x if both else ~x, mask)
            if not open_.any():
                return x
            run.mask = open_
            y = right(run)
            run.mask = mask
            return combine(x, y)

        return run

    def select(self, expr: PrimExpr, condition: PrimExpr, yes: PrimExpr, no: PrimExpr) -> Value:
        test, first, second = self.expr(condition), self.expr(yes), self.expr(no)
        held = held_dtype(expr.dtype)
        lazy = condition.dtype.lanes == 1
        fails = lazy and (may_fail(yes) or may_fail(no))

        def chosen(test: Any, x: Any, y: Any) -> Array:
            return numpy.where(test, _typed(x, held), _typed(y, held))

        def run(run: Lockstep) -> Any:
            c = test(run)
            if not is_array(c):
                if lazy:
                    return first(run) if c else second(run)
                x, y = first(run), second(run)
                return x if c else y
            if not fails:
                return chosen(c, first(run), second(run))
            mask = run.mask
            inside, outside = _restricted(c, mask), _restricted(~c, mask)
            if not outside.any():
                return first(run)
            if not inside.any():
                return second(run)
            run.mask = inside
            x = first(run)
            run.mask = outside
            y = second(run)
            run.mask = mask
            return chosen(c, x, y)

        return run

    def cast(self, expr: PrimExpr, value: Value) -> Value:
        kind = expr.dtype.element_of
        held_dtype(kind)

        def run(run: Lockstep) -> Any:
            x = value(run)
            return cast_array(x, kind) if is_array(x) else convert_value(x, kind)

        return run

    def ramp(self, expr: Ramp, base: Value, stride: Value, lanes: int) -> Value:
        held = whole_dtype(expr.dtype)
        steps: Array = np.arange(lanes).astype(held)

        def run(run: Lockstep) -> Any:
            start, step = base(run), stride(run)
            if not is_array(start):
                start = held.type(start)
            if not is_array(step):
                step = held.type(step)
            return start + step * steps

        return run

    def shuffle(self, expr: Shuffle, vectors: Sequence[PrimExpr], chosen: list[int]) -> Value:
        held = held_dtype(expr.dtype)
        operands = [(self.expr(vector), max(vector.dtype.lanes, 1)) for vector in vectors]

        def run(run: Lockstep) -> Any:
            values = [(value(run), lanes) for value, lanes in operands]
            full = [_full(value, lanes, held) for value, lanes in values]
            shape = np.broadcast_shapes(*(array.shape[:-1] for array in full))
            joined = np.concatenate([np.broadcast_to(p, (*shape, p.shape[-1])) for p in full], axis=-1)
            return _scalar_of(joined[..., chosen], len(chosen))

        return run

    # ------------------------------------------------------------------ memory

    def load(self, expr: BufferLoad) -> Value:
        buffer, lanes = expr.buffer, expr.indices[-1].dtype.lanes if expr.indices else 1
        held_dtype(buffer.dtype)
        if lanes > 1 and buffer.dtype.lanes > 1:
            raise Unsupported("vectors of vectors")
        if expr.predicate is None:
            indices, row = self.subscripts(expr.indices)

            def plain(run: Lockstep) -> Any:
                view = run.places.get(buffer) or run.place(buffer)
                where = [index(run) for index in indices]
                if row is not None:
                    section = row.part(run, view, where)
                    if section is not None:
                        loaded = view.data[section]
                        return loaded.astype(view.held) if view.wide else loaded
                return run.load(expr, view, where, lanes, run.mask, row)

            return plain
        indices = [self.expr(index) for index in expr.indices]
        predicate = self.expr(expr.predicate)
        zero, held = convert_value(0, buffer.dtype.element_of), held_dtype(buffer.dtype)

        def masked(run: Lockstep) -> Any:
            where = [index(run) for index in indices]
            active = active_lanes(predicate(run), run)
            view = run.places.get(buffer) or run.place(buffer)
            if not active.any():
                return np.full((1,), zero, held)
            loaded = run.load(expr, view, where, lanes, active)
            return numpy.where(active, _typed(loaded, held), held.type(zero))

        return masked

    def subscripts(self, indices: Sequence[PrimExpr]) -> tuple[list[Value], Row | None]:
        """Compile indices. If the last one is a ramp and the others are scalars, return its base and the `Row` of its
        lanes.
        """
        last = indices[-1] if indices else None
        scalars = all(index.dtype.lanes == 1 or isinstance(index, Broadcast) for index in indices[:-1])
        if not (scalars and isinstance(last, Ramp) and isinstance(last.stride, IntImm) and last.stride.value > 0):
            return [self.expr(index) for index in indices], None
        return [*map(self.expr, indices[:-1]), self.expr(last.base)], Row(last.lanes, last.stride.value)

    # ------------------------------------------------------------------ calls

    def call(self, expr: Call) -> Value:
        name = "" if isinstance(expr.op, GlobalVar) else expr.intrinsic
        if name == "if_then_else":
            return self.select(expr, *expr.args)
        if name == "undef":
            return self.expr(zero_of(expr.dtype))
        if name == "prefetch":
            return constant(0)
        if name == "assume":
            return self.assumed(self.expr(expr.args[0]))
        if name.startswith("vector_reduce_"):
            return self.reduction(expr)
        if name == "reinterpret" and expr.dtype.lanes != expr.args[0].dtype.lanes:
            return self.regrouped(expr)
        arrays, scalars = intrinsic_arrays(expr), intrinsic_function(expr)
        args = [self.expr(arg) for arg in expr.args]

        def run(run: Lockstep) -> Any:
            values = [arg(run) for arg in args]
            return arrays(*values) if any(map(is_array, values)) else scalars(*values)

        return run

    def assumed(self, condition: Value) -> Value:
        def run(run: Lockstep) -> bool:
            require(condition(run), run)
            return True

        return run

    def reduction(self, expr: Call) -> Value:
        """Compile a reduction of a vector's lanes: combine the second half with the first until one lane is left."""
        (operand,) = expr.args
        vector, lanes, held = self.expr(operand), operand.dtype.lanes, held_dtype(operand.dtype)
        kind = expr.intrinsic.removeprefix("vector_reduce_")
        if kind in ("and", "or"):
            over: Any = np.all if kind == "and" else np.any
            return lambda run: _scalar_of(over(_full(vector(run), lanes, held), axis=-1, keepdims=True), 1)
        zero = zero_of(expr.dtype)
        combine = binary_arrays(cast(Any, _COMBINERS[kind])(zero, zero))

        def run(run: Lockstep) -> Any:
            value = _full(vector(run), lanes, held)
            while (half := value.shape[-1] // 2) > 0:
                value = combine(value[..., :half], value[..., half:])
            return _scalar_of(value, 1)

        return run

    def regrouped(self, expr: Call) -> Value:
        """Compile a reinterpretation of a vector's bits as lanes of another width."""
        (operand,) = expr.args
        value, source, target = self.expr(operand), operand.dtype, expr.dtype
        held, held_source, native = whole_dtype(target), whole_dtype(source), target.numpy()

        def run(run: Lockstep) -> Any:
            whole = to_native(_full(value(run), source.lanes, held_source), source.element_of)
            bits: Any = numpy.ascontiguousarray(whole).view(native)
            return _scalar_of(bits.astype(held), target.lanes)

        return run


# ---------------------------------------------------------------------------------------------- pieces


def active_lanes(predicate: Any, run: Lockstep) -> Array:
    """Return the lanes that both the predicate and the mask select."""
    lanes = predicate if is_array(predicate) else np.array([bool(predicate)])
    return _restricted(lanes, run.mask)


def require(condition: Any, run: Lockstep) -> None:
    """Raise Decline unless a condition holds in all active iterations."""
    if not is_array(condition):
        holds = bool(condition)
    else:
        holds = bool((condition if run.mask is None else condition | ~run.mask).all())
    if not holds:
        raise Decline


def _restricted(where: Array, mask: Array | None) -> Array:
    return where if mask is None else where & mask


def _typed(value: Any, held: np.dtype[Any]) -> Any:
    return value if is_array(value) else held.type(value)


def _full(value: Any, lanes: int, held: np.dtype[Any]) -> Array:
    """Expand a value to a vector with all lanes."""
    if not is_array(value):
        return np.full(lanes, value, held)
    if value.shape[-1] == lanes:
        return value
    return np.broadcast_to(value, (*value.shape[:-1], lanes))


def _scalar_of(value: Array, lanes: int) -> Any:
    """Convert an array of one element to a Python scalar; other arrays stay unchanged."""
    return value[0].item() if lanes == 1 and value.ndim == 1 else value


def constant(value: Any) -> Value:
    """Return a closure with a constant value."""
    return lambda run: value


def _not(value: Any) -> Any:
    return np.logical_not(value) if is_array(value) else not value


def _variable(var: Var) -> Value:
    lanes = var.dtype.lanes
    held = held_dtype(var.dtype)

    def run(run: Lockstep) -> Any:
        value = run.env[var]
        if lanes > 1 and value.__class__ is list:
            return np.array(value, held)
        return value

    return run


def _bound(var: Var, value: Value, body: Value) -> Value:
    def run(run: Lockstep) -> Any:
        run.env[var] = owned(value(run))
        return body(run)

    return run


def owned(value: Any) -> Any:
    """Copy a value if it is a view of memory, so that later stores do not change it."""
    return value.copy() if is_array(value) and value.base is not None else value


def _division(a: Value, b: Value, arrays: Callable[[Any, Any], Any], scalars: Callable[[Any, Any], Any]) -> Value:
    def run(run: Lockstep) -> Any:
        x, y = a(run), b(run)
        if is_array(y):
            zero = y == 0
            if zero.any():
                if _restricted(zero, run.mask).any():
                    raise Decline
                y = numpy.where(zero, y.dtype.type(1), y)
        elif y == 0:
            raise Decline
        return arrays(x, y) if is_array(x) or is_array(y) else scalars(x, y)

    return run
