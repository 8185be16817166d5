"""The value of a TIR program, computed from its text in exact integers and fractions.

    Oracle(text).run(arguments)

The text is that of `tir_programs`: TVMScript with a dtype at every constant. Nothing of the package under test takes part: the
text is read by Python's own parser, and computed with `tir_numbers`.

Undefined says that the language leaves the result open, or that the text is not of the known sort.
"""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from .rounding import FORMATS, nearest
from .tir_numbers import (
    COMPARE,
    INTEGER,
    INTEGERS,
    Undefined,
    converted,
    float_operation,
    integer_operation,
    limits,
    unary,
    wrapped,
)

MOST_STEPS = 60_000
"""A longer run is not defined: it is not tried."""

Env = dict[str, Any]
Typed = tuple[str, Callable[[Env], Any]]
Run = Callable[[Env], None]
FAULTS = (IndexError, ZeroDivisionError, OverflowError, AssertionError)
"""What a program may end with."""


# ------------------------------------------------------------------------------------------- storage


class Storage:
    """A buffer's elements, None where nothing was written."""

    count = itertools.count()

    def __init__(self, name: str, dtype: str, shape: Sequence[int], elements: list[Any] | None) -> None:
        self.name, self.dtype, self.shape = name, dtype, tuple(shape)
        self.elements = [None] * math.prod(shape) if elements is None else elements
        self.serial = next(Storage.count)

    def position(self, indices: Sequence[int]) -> int:
        """The place of an element. Raises IndexError outside of the shape."""
        place = 0
        for index, size in zip(indices, self.shape, strict=True):
            if not 0 <= index < size:
                raise IndexError(f"{self.name}{list(indices)} is outside of {self.shape}")
            place = place * size + index
        return place


class Order:
    """Notices that the iterations of a parallel loop touch the same elements."""

    def __init__(self) -> None:
        self.serial = next(Storage.count)
        self.iteration = 0
        self.touched: dict[tuple[int, int], tuple[int, bool]] = {}

    def touch(self, storage: Storage, place: int, writes: bool) -> None:
        if storage.serial > self.serial:
            return  # each iteration has its own
        key = (storage.serial, place)
        iteration, written = self.touched.get(key, (self.iteration, False))
        if iteration != self.iteration and (written or writes):
            raise Undefined("the result depends on the order of a parallel loop")
        self.touched[key] = (self.iteration, written or writes)


# -------------------------------------------------------------------------------------------- the text


class Oracle:
    """A function, ready to run on arguments. Raises Undefined for text that is not of the known sort."""

    def __init__(self, text: str) -> None:
        module = ast.parse(text)
        self.function = next(node for node in ast.walk(module) if isinstance(node, ast.FunctionDef))
        self.dtypes: dict[str, str] = {}
        """The dtypes of scalar variables."""
        self.buffers: dict[str, tuple[str, int]] = {}
        """The dtypes and ranks of buffers."""
        self.types: dict[ast.expr, str] = {}
        """The dtype of every expression: what the reducer may put in its place."""
        self.orders: list[Order] = []
        self.steps = 0
        self.parameters: list[tuple[str, str]] = []
        self.matches: list[tuple[str, str, str, list[ast.expr]]] = []
        for arg in self.function.args.args:
            assert isinstance(arg.annotation, ast.Attribute)
            self.parameters.append((arg.arg, arg.annotation.attr))
            if arg.annotation.attr != "handle":
                self.dtypes[arg.arg] = arg.annotation.attr
        body = [stmt for stmt in self.function.body if not self._declares(stmt)]
        self.body = self.statements(body)

    def _declares(self, stmt: ast.stmt) -> bool:
        """Take note of sizes and buffers that belong to parameters."""
        match stmt:
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="func_attr"))):
                return True
            case ast.Assign([ast.Name(name)], ast.Call(ast.Attribute(attr=attr), args)):
                if attr in ("int64", "int32") and not args:
                    self.dtypes[name] = attr
                    return True
                if attr == "match_buffer":
                    param, shape, dtype = args
                    if not (isinstance(param, ast.Name) and isinstance(shape, ast.Tuple)):
                        raise Undefined("match_buffer")
                    self.matches.append((param.id, name, _constant(dtype), shape.elts))
                    self.buffers[name] = (_constant(dtype), len(shape.elts))
                    return True
        return False

    # ------------------------------------------------------------------------------------ running

    def run(self, arguments: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        """The arrays among the arguments as they are afterwards; they themselves are not changed.

        Raises IndexError, ZeroDivisionError, OverflowError, AssertionError as the program does, and Undefined.
        """
        if len(arguments) != len(self.parameters):
            raise Undefined("arguments")
        env: Env = {}
        given = dict(zip([name for name, _ in self.parameters], arguments, strict=True))
        for name, dtype in self.parameters:
            if dtype != "handle":
                env[name] = converted(given[name], dtype, dtype)
        arrays = [(name, given[param], dtype, shape) for param, name, dtype, shape in self.matches]
        for _, array, dtype, shape in arrays:
            if array.ndim != len(shape) or array.dtype.name != dtype:
                raise Undefined("an argument does not match")
            for dim, size in zip(shape, array.shape, strict=True):
                if isinstance(dim, ast.Name) and env.setdefault(dim.id, size) != size:
                    raise Undefined("sizes do not match")
        for name, array, dtype, shape in arrays:
            if any(self.size(dim)(env) != size for dim, size in zip(shape, array.shape, strict=True)):
                raise Undefined("sizes do not match")
            kind = float if dtype in FORMATS else bool if dtype == "bool" else int
            env[name] = Storage(name, dtype, array.shape, [kind(x) for x in array.reshape(-1)])
        self.steps, self.orders = 0, []
        with np.errstate(all="ignore"):
            self.body(env)
        found: list[np.ndarray[Any, Any]] = []
        for name, array, _, _ in arrays:
            elements = env[name].elements
            found.append(np.array(elements, array.dtype).reshape(array.shape))
        return found

    def step(self) -> None:
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise Undefined("too long")

    def size(self, node: ast.expr) -> Callable[[Env], int]:
        """A dimension: in shapes numbers without dtype are int64."""
        match node:
            case ast.Constant(int(value)):
                return lambda env: value
            case ast.BinOp(a, op, b):
                left, right, function = self.size(a), self.size(b), INTEGER[type(op).__name__]
                return lambda env: function(left(env), right(env))
        return self.expr(node)[1]

    # --------------------------------------------------------------------------------- statements

    def statements(self, body: Sequence[ast.stmt]) -> Run:
        runs = [self.statement(stmt) for stmt in body]

        def run(env: Env) -> None:
            for one in runs:
                one(env)

        return run

    def statement(self, stmt: ast.stmt) -> Run:
        match stmt:
            case ast.Pass():
                return lambda env: None
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="evaluate"), args=[value])):
                return self.expr(value)[1]
            case ast.Assign([ast.Subscript() as target], value):
                return self.store(target, value)
            case ast.Expr(value=ast.Call(ast.Attribute(ast.Name(), attr="vstore")) as call):
                return self.vector_store(call)
            case ast.AnnAssign(ast.Name(name), ast.Attribute(attr=dtype), value) if value is not None:
                run = self.of(value, dtype)
                self.dtypes[name] = dtype
                return lambda env: env.__setitem__(name, run(env))
            case ast.Assign([ast.Name(name)], ast.Call(ast.Attribute(attr="alloc_buffer"), [shape, dtype])):
                return self.allocation(name, shape, _constant(dtype))
            case ast.If(test, body, orelse):
                condition, yes, no = self.of(test, "bool"), self.statements(body), self.statements(orelse)
                return lambda env: yes(env) if condition(env) else no(env)
            case ast.Assert(test):
                return self.assertion(self.of(test, "bool"))
            case ast.While(test, body):
                return self.loop_while(self.of(test, "bool"), self.statements(body))
            case ast.For():
                return self.loop(stmt)
            case ast.With([ast.withitem(ast.Call(ast.Attribute(attr="block")))], body):
                run = self.block(body, [])[0]
                return lambda env: run(env, False)
        raise Undefined(ast.unparse(stmt))

    def store(self, target: ast.Subscript, value: ast.expr) -> Run:
        name, indices = self.place(target)
        dtype = self.buffers[name][0]
        if dtype in ("float32", "float64") and _adds_up(value, name):
            raise Undefined("a sum may be added up in any order")
        result = self.of(value, dtype)
        nodes = [target, value]

        def run(env: Env) -> None:
            try:
                store(env)
            except FAULTS as fault:
                self.only_fault(fault, nodes, env)

        def store(env: Env) -> None:
            self.step()
            where = [index(env) for index in indices]
            new = result(env)
            storage: Storage = env[name]
            storage.elements[self.touched(storage, where, True)] = new

        return run

    def vector_store(self, call: ast.Call) -> Run:
        """A store to neighbours under a predicate, of a number or of what is loaded in the same manner."""
        (name, places), value = self.neighbours(call), call.args[1]
        dtype, _ = self.buffers[name]
        match value:
            case ast.Call(ast.Attribute(attr="Broadcast"), [one, ast.Constant(int() as lanes)]):
                number = self.of(one, dtype)
                values = lambda env: [number(env)] * lanes  # noqa: E731
            case ast.Call(ast.Attribute(attr="vload")):
                values = self.vector_load(value, dtype)
            case _:
                raise Undefined(ast.unparse(value))

        def store(env: Env) -> None:
            self.step()
            storage: Storage = env[name]
            for place, new in zip(places(env), values(env), strict=True):
                if place is not None:
                    storage.elements[self.touched(storage, place, True)] = new

        def run(env: Env) -> None:
            try:
                store(env)
            except FAULTS as fault:
                self.only_fault(fault, [call], env)

        return run

    def vector_load(self, call: ast.Call, dtype: str) -> Callable[[Env], list[Any]]:
        """Neighbours in a buffer; 0 in the place of one that is not touched."""
        name, places = self.neighbours(call)
        if self.buffers[name][0] != dtype:
            raise Undefined("a load of another dtype")
        zero = converted(0, "int64", dtype)

        def run(env: Env) -> list[Any]:
            storage: Storage = env[name]
            found = [
                zero if place is None else storage.elements[self.touched(storage, place, False)]
                for place in places(env)
            ]
            if any(value is None for value in found):
                raise Undefined("storage is read that was not written")
            return found

        return run

    def neighbours(self, call: ast.Call) -> tuple[str, Callable[[Env], list[list[int] | None]]]:
        """The buffer of a vstore or vload, and the indices of each lane; None for one that is not touched."""
        match call:
            case ast.Call(
                ast.Attribute(ast.Name(name)),
                [ast.List([*outer, ast.Call(args=[base, _, ast.Constant(int() as lanes)]) as ramp]), *_],
                [ast.keyword(value=ast.Compare(again, [ast.Lt()], [ast.Call(args=[limit, _])]))],
            ) if name in self.buffers and ast.unparse(again) == ast.unparse(ramp):
                fixed = [self.expr(index)[1] for index in outer]
                start, end = self.of(base, "int64"), self.of(limit, "int64")
            case _:
                raise Undefined(ast.unparse(call))

        def run(env: Env) -> list[list[int] | None]:
            before, first, most = [index(env) for index in fixed], start(env), end(env)
            return [[*before, first + k] if first + k < most else None for k in range(lanes)]

        return name, run

    def touched(self, storage: Storage, place: Sequence[int], writes: bool) -> int:
        """The position of an element that is read or written."""
        position = storage.position(place)
        for order in self.orders:
            order.touch(storage, position, writes)
        return position

    def only_fault(self, fault: Exception, nodes: Sequence[ast.expr], env: Env) -> NoReturn:
        """Raise a statement's fault. Raises Undefined if parts of it fail in different ways: any may come first."""
        for node in nodes:
            for part in ast.walk(node):
                if isinstance(part, (ast.Call, ast.BinOp, ast.Subscript)):
                    try:
                        self.expr(part)[1](env)
                    except FAULTS as other:
                        if type(other) is not type(fault):
                            raise Undefined("faults of several sorts in one statement") from fault
                    except Undefined:
                        continue
        raise fault

    def place(self, node: ast.Subscript) -> tuple[str, list[Callable[[Env], Any]]]:
        """The buffer and the indices of an access."""
        if not isinstance(node.value, ast.Name) or node.value.id not in self.buffers:
            raise Undefined(ast.unparse(node))
        name = node.value.id
        found: list[Callable[[Env], Any]] = []
        for part in target_parts(node):
            dtype, run = self.expr(part)
            if dtype not in INTEGERS:
                raise Undefined("an index that is no integer")
            found.append(run)
        if len(found) != self.buffers[name][1]:
            raise Undefined("the wrong number of indices")
        return name, found

    def allocation(self, name: str, shape: ast.expr, dtype: str) -> Run:
        assert isinstance(shape, ast.Tuple)
        sizes = [self.size(dim) for dim in shape.elts]
        self.buffers[name] = (dtype, len(sizes))

        def run(env: Env) -> None:
            env[name] = Storage(name, dtype, [size(env) for size in sizes], None)

        return run

    @staticmethod
    def assertion(condition: Callable[[Env], Any]) -> Run:
        def run(env: Env) -> None:
            if not condition(env):
                raise AssertionError("an assertion")

        return run

    def loop_while(self, condition: Callable[[Env], Any], body: Run) -> Run:
        def run(env: Env) -> None:
            while condition(env):
                self.step()
                body(env)

        return run

    def loop(self, stmt: ast.For) -> Run:
        """A loop, or the loops of a T.grid; around a block, what reduces over nothing still starts."""
        call = stmt.iter
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            raise Undefined("a loop")
        kind, args = call.func.attr, call.args
        names = [node.id for node in ast.walk(stmt.target) if isinstance(node, ast.Name)]
        ranges: list[tuple[str, Callable[[Env], Any] | None, Callable[[Env], Any]]] = []
        if kind == "grid":
            for arg in args:
                dtype, extent = self.expr(arg)
                ranges.append((dtype, None, extent))
        elif kind in ("serial", "parallel", "vectorized", "unroll") and len(args) == 2:
            (dtype, low), high = self.expr(args[0]), self.of(args[1], self.expr(args[0])[0])
            ranges.append((dtype, low, lambda env, d=dtype, lo=low, hi=high: wrapped(hi(env) - lo(env), d)))
        else:
            raise Undefined(f"T.{kind}")
        if len(names) != len(ranges) or any(dtype not in INTEGERS for dtype, _, _ in ranges):
            raise Undefined("a loop")
        self.dtypes |= {name: entry[0] for name, entry in zip(names, ranges, strict=True)}
        body, reducing = self.nest(stmt.body)
        for name, (dtype, low, extent) in list(zip(names, ranges, strict=True))[::-1]:
            body = self.level(name, dtype, low, extent, body, kind, name in reducing)
        return lambda env: body(env, False)

    def nest(self, body: list[ast.stmt]) -> tuple[Callable[[Env, bool], None], set[str]]:
        """The body of a loop, run as a whole or to start a reduction only; and the loops that reduce."""
        match body:
            case [ast.With([ast.withitem(ast.Call(ast.Attribute(attr="block")))], inner)]:
                return self.block(inner, [])
        run = self.statements(body)
        return (lambda env, starts: None if starts else run(env)), set()

    def level(
        self,
        name: str,
        dtype: str,
        low: Callable[[Env], Any] | None,
        extent: Callable[[Env], Any],
        body: Callable[[Env, bool], None],
        kind: str,
        reduces: bool,
    ) -> Callable[[Env, bool], None]:
        def run(env: Env, starts: bool) -> None:
            first, count = 0 if low is None else low(env), extent(env)
            if reduces and (count <= 0 or starts):
                env[name] = first
                body(env, True)
                return
            if count <= 0:
                return
            if (dtype == "uint64" and first + count >= 2**63) or first + count == 2**63:
                raise Undefined("a loop whose end is not counted in 64 bits with sign")
            if first + count - 1 > limits(dtype)[1]:
                raise OverflowError("the end of a loop")
            order = Order() if kind == "parallel" else None
            if order is not None:
                self.orders.append(order)
            for i in range(first, first + count):
                self.step()
                env[name] = i
                if order is not None:
                    order.iteration = i
                body(env, starts)
            if order is not None:
                self.orders.pop()

        return run

    def block(self, body: list[ast.stmt], loops: list[str]) -> tuple[Callable[[Env, bool], None], set[str]]:
        """A block: its variables, predicate, init and body; and the names in what its reduction variables stand for."""
        bindings: list[tuple[str, Callable[[Env], Any], bool]] = []
        reducing: set[str] = set()
        predicate: Callable[[Env], Any] = lambda env: True  # noqa: E731
        domains: list[tuple[str, Callable[[Env], int]]] = []
        init: Run | None = None
        rest: list[ast.stmt] = []
        for stmt in body:
            match stmt:
                case ast.Assign(
                    [target], ast.Call(ast.Attribute(attr="remap"), [ast.Constant(str(kinds)), ast.List(values)])
                ):
                    names = [node.id for node in ast.walk(target) if isinstance(node, ast.Name)]
                    for name, value, axis in zip(names, values, kinds, strict=True):
                        dtype, run = self.expr(value)
                        self.dtypes[name] = dtype
                        bindings.append((name, run, axis == "R"))
                        reducing |= _names(value) if axis == "R" else set()
                case ast.Assign([ast.Name(name)], ast.Call(ast.Attribute(attr="spatial"), [extent, value])):
                    dtype, run = self.expr(value)
                    self.dtypes[name] = dtype
                    bindings.append((name, run, False))
                    domains.append((name, self.size(extent)))
                case ast.Expr(ast.Call(ast.Attribute(attr="where"), [condition])):
                    predicate = self.of(condition, "bool")
                    if _names(condition) & reducing:
                        raise Undefined("a predicate on a reduction")
                case ast.With([ast.withitem(ast.Call(ast.Attribute(attr="init")))], inner):
                    init = self.statements(inner)
                case _:
                    rest.append(stmt)
        inside = self.statements(rest)
        starts_at = [name for name, _, reduces in bindings if reduces]

        def run(env: Env, starts: bool) -> None:
            for name, value, _ in bindings:
                env[name] = value(env)
            if not predicate(env):
                return
            if not all(0 <= env[name] < size(env) for name, size in domains):
                raise Undefined("a block variable outside of its domain")
            if init is not None and all(env[name] == 0 for name in starts_at):
                init(env)
            if not starts:
                inside(env)

        return run, reducing

    # -------------------------------------------------------------------------------- expressions

    def of(self, node: ast.expr, dtype: str) -> Callable[[Env], Any]:
        """An expression that must be of a dtype."""
        found, run = self.expr(node)
        if found != dtype:
            raise Undefined(f"{found} instead of {dtype}: {ast.unparse(node)}")
        return run

    def expr(self, node: ast.expr) -> Typed:
        found = self.typed(node)
        self.types[node] = found[0]
        return found

    def typed(self, node: ast.expr) -> Typed:
        match node:
            case ast.Name(name) if name in self.dtypes:
                return self.dtypes[name], lambda env: env[name]
            case ast.Subscript():
                return self.load(node)
            case ast.BinOp(a, op, b):
                return self.binary(type(op).__name__, a, b)
            case ast.Compare(a, [op], [b]):
                dtype, left = self.expr(a)
                right, function = self.of(b, dtype), COMPARE[type(op).__name__]
                return "bool", lambda env: function(left(env), right(env))
            case ast.BoolOp(op, values):
                parts = [self.of(value, "bool") for value in values]
                test = all if isinstance(op, ast.And) else any
                return "bool", lambda env: test(part(env) for part in parts)
            case ast.UnaryOp(ast.Not(), value):
                run = self.of(value, "bool")
                return "bool", lambda env: not run(env)
            case ast.Call(ast.Attribute(ast.Name("T"), name), args):
                return self.call(name, args)
        raise Undefined(ast.unparse(node))

    def load(self, node: ast.Subscript) -> Typed:
        name, indices = self.place(node)

        def run(env: Env) -> Any:
            storage: Storage = env[name]
            value = storage.elements[self.touched(storage, [index(env) for index in indices], False)]
            if value is None:
                raise Undefined("storage is read that was not written")
            return value

        return self.buffers[name][0], run

    def binary(self, name: str, a: ast.expr, b: ast.expr) -> Typed:
        dtype, left = self.expr(a)
        right = self.of(b, dtype)
        if dtype == "bool":
            raise Undefined("arithmetic of bool")
        function = (float_operation if dtype in FORMATS else integer_operation)(name, dtype)
        return dtype, lambda env: function(left(env), right(env))

    def call(self, name: str, args: list[ast.expr]) -> Typed:
        if name in INTEGERS or name in FORMATS or name == "bool":
            return name, self.constant(name, args)
        match name, args:
            case "Cast", [dtype, value]:
                target, (source, run) = _constant(dtype), self.expr(value)
                return target, lambda env: converted(run(env), source, target)
            case "reinterpret", [dtype, value]:
                return self.reinterpreted(_constant(dtype), value)
            case (("Select" | "if_then_else"), [condition, yes, no]):
                test, (dtype, first) = self.of(condition, "bool"), self.expr(yes)
                second = self.of(no, dtype)
                return dtype, lambda env: first(env) if test(env) else second(env)
            case "likely", [condition]:
                return "bool", self.of(condition, "bool")
            case _, [a, b]:
                return self.binary(name, a, b)
            case _, [a]:
                dtype, run = self.expr(a)
                result, function = unary(name, dtype)
                return result, lambda env: function(run(env))
        raise Undefined(name)

    def constant(self, dtype: str, args: list[ast.expr]) -> Callable[[Env], Any]:
        """A constant, which is representable."""
        if len(args) != 1:
            raise Undefined("a constant")
        value = ast.literal_eval(args[0])
        if dtype in FORMATS:
            value = float(value)
            exact = str(nearest(value, dtype)) == str(value)
        elif dtype == "bool":
            exact = isinstance(value, bool)
        else:
            exact = isinstance(value, int) and limits(dtype)[0] <= value <= limits(dtype)[1]
        if not exact:
            raise Undefined(f"{value} of {dtype}")
        return lambda env: value

    def reinterpreted(self, target: str, value: ast.expr) -> Typed:
        source, run = self.expr(value)
        if np.dtype(target).itemsize != np.dtype(source).itemsize or "bool" in (source, target):
            raise Undefined("reinterpret")
        kind = float if target in FORMATS else int

        def read(env: Env) -> Any:
            number = run(env)
            if source in FORMATS and math.isnan(number):
                raise Undefined("the bits of NaN")
            return kind(np.array([number], source).view(target)[0])

        return target, read


def _constant(node: ast.expr) -> str:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        raise Undefined(ast.unparse(node))
    return node.value


def target_parts(node: ast.Subscript) -> list[ast.expr]:
    """The indices of an access."""
    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]


def _names(node: ast.expr) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _adds_up(value: ast.expr, name: str) -> bool:
    """Whether a value is a sum with an element of a buffer."""
    return any(
        isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)) and name in _names(node)
        for node in ast.walk(value)
    )
