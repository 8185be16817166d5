"""The interpreter's expressions: closures from an environment to a value.

A scalar is a Python int, bool or float (rounded to its dtype after every operation, integers wrapped); a vector is
a list of them. The environment maps variables to values, pointers to flat NumPy arrays, buffers to views.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, cast

import numpy as np

from ..ir import DataType, GlobalVar, Node
from ..prim import (
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
    StringImm,
    Var,
    evaluate,
)
from ..prim.arithmetic import wrap
from ..prim.evaluate import array_of, convert_value, intrinsic_function, scalar_function
from ..prim.instructions import tile_dot_value
from .buffer import Broadcast, BufferLoad, Ramp, Shuffle, zero_of
from .shared_subexpressions import ClosureCompiler

Env: TypeAlias = dict[Node, Any]
Value = Callable[[Env], Any]
Array = np.ndarray[Any, Any]


class View:
    """Memory viewed as a buffer; shape, strides and offset are in elements."""

    __slots__ = ("dtype", "held", "item", "lanes", "memory", "name", "offset", "shape", "strides")

    def __init__(
        self, name: str, dtype: DataType, memory: Array, shape: list[int], strides: list[int] | None, offset: int
    ) -> None:
        self.name, self.dtype, self.shape, self.offset = name, dtype, shape, offset
        self.lanes = dtype.lanes
        kind = dtype.element_of.numpy()
        self.held = memory.nbytes
        self.memory = memory if memory.dtype == kind else _seen_as(memory, kind)
        self.strides = _compact(shape) if strides is None else strides
        self.item: Callable[[Any], Any] = bool if dtype.is_bool else float if dtype.is_float else int

    def position(self, indices: Sequence[int]) -> int:
        """Return the offset of an element. Raises IndexError outside of the shape or the underlying memory."""
        position = self.offset
        for index, size, stride in zip(indices, self.shape, self.strides, strict=True):
            if not 0 <= index < size:
                raise IndexError(f"{self.name}[{', '.join(map(str, indices))}] is outside of shape {self.shape}")
            position += index * stride
        if not 0 <= position * self.lanes < len(self.memory):
            raise IndexError(f"{self.name}[{', '.join(map(str, indices))}] is outside of its memory")
        return position * self.lanes

    def require_inside(self, who: str) -> None:
        """Raise ValueError unless the whole view lies inside its memory; `who` begins the message."""
        for axis, size in enumerate(self.shape):
            if size < 0:
                raise ValueError(f"{who} has dimension {axis} of size {size}")
        if 0 in self.shape:
            return
        item = self.memory.itemsize * self.lanes
        steps = [(size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True)]
        start = (self.offset + sum(min(step, 0) for step in steps)) * item
        end = (self.offset + sum(max(step, 0) for step in steps) + 1) * item
        if start < -(2**63) or end >= 2**63:
            raise MemoryError(f"buffer {self.name} is too large for any memory")
        if start < 0:
            raise ValueError(f"{who} starts at byte {start}, but the memory at byte 0")
        if end > self.held:
            raise ValueError(f"{who} needs {end} bytes, but there are {self.held}")

    def array(self) -> Array:
        """Return the elements as an array that shares the memory; the lanes of vectors are its last dimension."""
        lanes, item = self.lanes, self.memory.itemsize
        shape, steps = list(self.shape), [step * lanes * item for step in self.strides]
        if lanes > 1:
            shape, steps = [*shape, lanes], [*steps, item]
        return _strided(self.memory[self.offset * lanes :], shape, steps)

    def load(self, indices: Sequence[int]) -> Any:
        """Return an element; for a buffer of vectors, a list of lanes."""
        position = self.position(indices)
        if self.lanes == 1:
            return self.item(self.memory[position])
        return [self.item(v) for v in self.memory[position : position + self.lanes]]

    def store(self, indices: Sequence[int], value: Any) -> None:
        """Write an element."""
        position = self.position(indices)
        if self.lanes == 1:
            self.memory[position] = value
        else:
            self.memory[position : position + self.lanes] = value


def _seen_as(memory: Array, kind: Any) -> Array:
    """Reinterpret memory as elements of another dtype; an incomplete element at its end is dropped."""
    whole = memory.nbytes // np.dtype(kind).itemsize * np.dtype(kind).itemsize
    return cast(Any, memory).view(np.uint8)[:whole].view(kind)


def _compact(shape: Sequence[int]) -> list[int]:
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return strides[::-1]


def flat_memory(array: Array, who: str) -> Array:
    """Return the memory from an array's first to its last element, as a flat array that shares it."""
    if array.flags.c_contiguous:
        return cast(Any, array).reshape(-1)
    if any(stride < 0 for stride in array.strides):
        raise ValueError(f"{who}: interpret takes no array with negative strides")
    steps = [stride // array.itemsize for stride in array.strides]
    count = 1 + sum((size - 1) * step for size, step in zip(array.shape, steps, strict=True)) if array.size else 0
    return _strided(array, [count], [array.itemsize])


def _strided(memory: Array, shape: Sequence[int], steps: Sequence[int]) -> Array:
    """View memory with another shape and strides; as_strided itself does not support the dtypes of ml_dtypes."""
    raw: Any = cast(Any, memory).view(f"u{memory.itemsize}")
    seen: Any = np.lib.stride_tricks.as_strided(raw, shape, steps)
    return cast(Array, seen.view(memory.dtype))


def garbage(dtype: DataType, count: int) -> Array:
    """Return fresh storage filled with NaN or an unlikely number, so that reads before writes are noticed."""
    if dtype.is_bool:
        return np.ones(count, np.bool_)
    if dtype.is_float:
        return np.full(count, np.nan, np.float64).astype(dtype.element_of.numpy())
    unlikely = int(dtype.max_value) - (86 if dtype.bits >= 8 else 1)
    return np.full(count, unlikely, dtype.element_of.numpy())


class Externs(Protocol):
    """The functions of call_extern and call_packed, by name; a dict satisfies this protocol."""

    def get(self, name: str, /) -> Callable[..., Any] | None:
        """Return the function of this name, or None."""
        ...


class ExpressionCompiler(ClosureCompiler[Env]):
    """Compile expressions to closures over an environment."""

    def __init__(self, externs: Externs) -> None:
        super().__init__()
        self.externs = externs

    def global_function(self, name: str) -> Callable[[Sequence[Any]], None]:
        """Return a function that the program calls by its global name."""
        raise ValueError(f"interpret: there is no function {name}")

    def argument(self, expr: PrimExpr) -> Value:
        """Compile an argument of a call of another function."""
        return self.expr(expr)

    def parallel(self, call: Call) -> Value:
        """Compile a call of a function for all iterations of a parallel loop."""
        return self.call(call)

    def size(self, expr: PrimExpr) -> Value:
        """Compile a size; evaluation raises OverflowError if an intermediate result exceeds 64 bits."""
        with self.exactly():
            return self.expr(expr)

    def cached(self, expr: PrimExpr, value: Value) -> Value:
        """Return a closure that evaluates `value` once and keeps the result in the environment."""

        def run(env: Env) -> Any:
            if expr not in env:
                env[expr] = value(env)
            return env[expr]

        return run

    def without_cached(self, shared: Sequence[PrimExpr], value: Value) -> Value:
        """Return a closure that discards the kept results of `shared`, then evaluates `value`."""

        def run(env: Env) -> Any:
            for expr in shared:
                env.pop(expr, None)
            return value(env)

        return run

    def fresh(self, expr: PrimExpr) -> Value:
        """Compile an expression without looking it up among the shared ones."""
        match expr:
            case IntImm(dtype, value):
                fixed = bool(value) if dtype.is_bool else value
                return lambda env: fixed
            case FloatImm():
                number = evaluate(expr)
                return lambda env: number
            case StringImm(text):
                return lambda env: text
            case Var():
                return _variable(expr)
            case BufferLoad():
                return self.load(expr)
            case And(a, b) if expr.dtype.lanes == 1:
                left, right = self.expr(a), self.expr(b)
                return lambda env: left(env) and right(env)
            case Or(a, b) if expr.dtype.lanes == 1:
                left, right = self.expr(a), self.expr(b)
                return lambda env: left(env) or right(env)
            case Not(a):
                return self.elementwise(expr, operator.not_, a)
            case BinaryExpr(a=a, b=b):
                return self.elementwise(expr, scalar_function(expr, self.exact), a, b)
            case Select(condition, yes, no):
                return self.select(expr, condition, yes, no)
            case Cast(dtype, value):
                kind = dtype.element_of
                return self.elementwise(expr, _conversion(kind), value)
            case Let(var, value, body):
                return _bound(var, self.expr(value), self.expr(body))
            case Ramp(base, stride, lanes):
                start, step, kind = self.expr(base), self.expr(stride), expr.dtype.element_of
                return lambda env: _ramp(start(env), step(env), lanes, kind)
            case Broadcast(value, lanes):
                single = self.expr(value)
                return lambda env: [single(env)] * lanes
            case Shuffle(vectors, indices):
                return _shuffled(vectors, [self.expr(vector) for vector in vectors], indices)
            case Call():
                return self.call(expr)
            case _:
                raise TypeError(f"interpret: cannot evaluate a {type(expr).__name__}")

    def elementwise(self, expr: PrimExpr, function: Callable[..., Any], *operands: PrimExpr) -> Value:
        """Apply a scalar function to the operands, lane by lane if they are vectors."""
        values = [self.expr(operand) for operand in operands]
        if expr.dtype.lanes > 1:
            return lambda env: [function(*items) for items in zip(*(p(env) for p in values), strict=True)]
        if len(values) == 1:
            (only,) = values
            return lambda env: function(only(env))
        if len(values) == 2:
            a, b = values
            return lambda env: function(a(env), b(env))
        return lambda env: function(*(value(env) for value in values))

    def select(self, expr: PrimExpr, condition: PrimExpr, yes: PrimExpr, no: PrimExpr) -> Value:
        test, first, second = self.expr(condition), self.expr(yes), self.expr(no)
        if condition.dtype.lanes == 1:
            return lambda env: first(env) if test(env) else second(env)
        return lambda env: [a if c else b for c, a, b in zip(test(env), first(env), second(env), strict=True)]

    def load(self, expr: BufferLoad) -> Value:
        buffer = expr.buffer
        indices = [self.expr(index) for index in expr.indices]
        if not expr.indices or expr.indices[-1].dtype.lanes == 1:
            return lambda env: env[buffer].load([index(env) for index in indices])

        active = None if expr.predicate is None else self.expr(expr.predicate)
        count, zero = expr.indices[-1].dtype.lanes, convert_value(0, buffer.dtype.element_of)

        def vector(env: Env) -> Any:
            where = lanes_of([index(env) for index in indices], count)
            view: View = env[buffer]
            reads = itertools.repeat(True, count) if active is None else active(env)
            none: Any = zero if view.lanes == 1 else [zero] * view.lanes
            items: list[Any] = [
                view.load(position) if read else none for position, read in zip(where, reads, strict=True)
            ]
            return items if view.lanes == 1 else list(itertools.chain.from_iterable(items))

        return vector

    def call(self, expr: Call) -> Value:
        if isinstance(expr.op, GlobalVar):
            args = [self.argument(arg) for arg in expr.args]
            callee = expr.op.name_hint
            return lambda env: self.global_function(callee)([arg(env) for arg in args])
        name = expr.intrinsic
        if name == "parallel_for":
            return self.parallel(cast(Call, expr.args[0]))
        if name == "if_then_else":
            return self.select(expr, *expr.args)
        if name in ("call_extern", "call_pure_extern", "call_packed"):
            return self.extern(expr)
        if name == "assume":
            return self.assumed(expr)
        if name == "address_of":
            return self.address(cast(BufferLoad, expr.args[0]))
        if name == "tvm_access_ptr":
            return self.pointer(expr)
        if name == "undef":
            return self.expr(zero_of(expr.dtype))
        if name == "ret":
            raise TypeError("interpret: a PrimFunc that returns a value (T.ret) cannot be run")
        if name == "prefetch":
            return lambda env: 0
        if name.startswith("tile_dot_"):
            return self.tiles(expr)
        if name.startswith("vector_reduce_"):
            return self.reduction(expr)
        if name == "reinterpret" and expr.dtype.lanes != expr.args[0].dtype.lanes:
            return self.regrouped(expr)
        return self.elementwise(expr, intrinsic_function(expr), *expr.args)

    def reduction(self, expr: Call) -> Value:
        """Compile a reduction of a vector's lanes: combine the second half with the first until one lane is left."""
        (operand,) = expr.args
        vector, kind = self.expr(operand), expr.intrinsic.removeprefix("vector_reduce_")
        if kind in ("and", "or"):
            return (lambda env: all(vector(env))) if kind == "and" else (lambda env: any(vector(env)))
        zero = zero_of(expr.dtype)
        combine = scalar_function(_COMBINERS[kind](zero, zero))

        def run(env: Env) -> Any:
            lanes = list(vector(env))
            while len(lanes) > 1:
                half = len(lanes) // 2
                lanes = [combine(a, b) for a, b in zip(lanes[:half], lanes[half:], strict=True)]
            return lanes[0]

        return run

    def regrouped(self, expr: Call) -> Value:
        """Compile a reinterpretation of a vector's bits as lanes of another width."""
        value, lanes = self.expr(expr.args[0]), expr.dtype.lanes
        source, target = (vector.dtype.element_of for vector in (expr.args[0], expr))

        def run(env: Env) -> Any:
            whole = value(env)
            bits: Any = np.reshape(array_of(whole, source), -1)
            result = bits.view(target.numpy()).tolist()
            return result if lanes > 1 else result[0]

        return run

    def tiles(self, expr: Call) -> Value:
        """Compile a product of tiles, which is accumulated in memory."""
        args, kind = [self.expr(arg) for arg in expr.args], expr.intrinsic.removeprefix("tile_dot_")

        def run(env: Env) -> int:
            tile_dot_value(kind, *(arg(env) for arg in args))
            return 0

        return run

    def assumed(self, expr: Call) -> Value:
        condition, text = self.expr(expr.args[0]), str(expr.args[0])

        def run(env: Env) -> bool:
            if not condition(env):
                raise AssertionError(f"the assumption {text} does not hold")
            return True

        return run

    def address(self, expr: BufferLoad) -> Value:
        """Compile the address of an element: the memory from the element on."""
        indices = [self.expr(index) for index in expr.indices]

        def run(env: Env) -> Any:
            view: View = env[expr.buffer]
            return view.memory[view.position([index(env) for index in indices]) :]

        return run

    def pointer(self, expr: Call) -> Value:
        kind, data, offset = expr.args[0].dtype, self.expr(expr.args[1]), self.expr(expr.args[2])

        def run(env: Env) -> Any:
            memory, start = data(env), offset(env) * kind.lanes
            if not 0 <= start <= len(memory):
                raise IndexError(f"tvm_access_ptr: element {start} is outside of memory of {len(memory)} elements")
            return memory[start:]

        return run

    def extern(self, expr: Call) -> Value:
        symbol = expr.args[0]
        name = symbol.value if isinstance(symbol, StringImm) else "?"
        args = [self.expr(arg) for arg in expr.args[1:]]

        def run(env: Env) -> Any:
            function = self.externs.get(name)
            if function is None:
                raise ValueError(f"interpret: no function was given for {name}; pass it in externs")
            result = function(*(arg(env) for arg in args))
            return 0 if result is None else result

        return run


_COMBINERS: dict[str, Callable[[PrimExpr, PrimExpr], BinaryExpr]] = {"add": Add, "mul": Mul, "max": Max, "min": Min}


def _shuffled(vectors: Sequence[PrimExpr], values: Sequence[Value], indices: Sequence[IntImm]) -> Value:
    scalars = [vector.dtype.lanes == 1 for vector in vectors]
    chosen = [index.value for index in indices]

    def run(env: Env) -> Any:
        lanes: list[Any] = []
        for value, scalar in zip(values, scalars, strict=True):
            lanes += [value(env)] if scalar else value(env)
        return lanes[chosen[0]] if len(chosen) == 1 else [lanes[i] for i in chosen]

    return run


def lanes_of(indices: Sequence[Any], count: int) -> list[list[Any]]:
    """Return the indices of each of `count` lanes; scalar indices are repeated."""
    vectors = [isinstance(index, list) for index in indices]
    return [
        [index[lane] if wide else index for index, wide in zip(indices, vectors, strict=True)] for lane in range(count)
    ]


def _variable(var: Var) -> Value:
    def run(env: Env) -> Any:
        try:
            return env[var]
        except KeyError:
            raise ValueError(f"interpret: the variable {var.name} has no value here") from None

    return run


def _bound(var: Var, value: Value, body: Value) -> Value:
    def run(env: Env) -> Any:
        env[var] = value(env)
        return body(env)

    return run


def _ramp(base: int, stride: int, lanes: int, dtype: DataType) -> list[int]:
    return [wrap(base + i * stride, dtype) for i in range(lanes)]


def _conversion(dtype: DataType) -> Callable[[Any], Any]:
    return lambda value: convert_value(value, dtype)
