"""Random well-typed Relax programs as text, and an evaluator of Relax on NumPy made of the operators' references.

All values are small whole numbers (or inf, NaN, -0.0), and operators are exact on them, so results are compared
exactly. The sizes `n` and `m` are symbolic; the inputs are x: (n, m) and y: (m,), float32, z: (n,), int64, and b: a bool.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from relax.expr import (
    Call,
    Constant,
    DataTypeImm,
    ExternFunc,
    Function,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from relax.ir import GlobalVar, IRModule, Op
from relax.op import operator_of
from relax.op.operands import is_absent
from relax.prim import Var as ShapeVar
from relax.prim import evaluate
from relax.struct_info import ShapeStructInfo, TensorStructInfo, TupleStructInfo

# ------------------------------------------------------------------------------------------ programs

HEADER = """
@I.ir_module
class Module:
    @R.function(private=True)
    def forget1(v: R.Tensor(ndim=1, dtype="float32")) -> R.Tensor(ndim=1, dtype="float32"):
        return R.negative(v)

    @R.function(private=True)
    def forget2(v: R.Tensor(ndim=2, dtype="float32")) -> R.Tensor(ndim=2, dtype="float32"):
        return R.negative(v)

    @R.function(pure={pure})
    def main(
        x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("m",), "float32"), z: R.Tensor(("n",), "int64"),
        b: R.Tensor((), "bool"),
    ) -> {result}:
        n = T.int64()
        m = T.int64()
        cls = Module
"""


@dataclass(frozen=True)
class Value:
    """A variable of the program; equal dims are equal texts."""

    name: str
    dims: tuple[str, ...]
    dtype: str

    @property
    def info(self) -> str:
        return f'R.Tensor(({"".join(d + ", " for d in self.dims)}), "{self.dtype}")'


@dataclass
class Writer:
    """Writes the lines of one function; `pool` holds the variables in scope."""

    draw: Callable[[Any], Any]
    lines: list[str]
    pool: list[Value]
    indent: int = 2
    counter: list[int] = field(default_factory=lambda: [0])
    tuples: list[tuple[str, tuple[Value, ...]]] = field(default_factory=list)
    depth: int = 0
    mutating: bool = False
    """Whether packed functions change tensors in place; then nothing is pure."""

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def fresh(self, prefix: str = "v") -> str:
        self.counter[0] += 1
        return f"{prefix}{self.counter[0]}"

    def bind(self, text: str, dims: tuple[str, ...], dtype: str) -> Value:
        value = Value(self.fresh(), dims, dtype)
        self.line(f"{value.name} = {text}")
        self.pool.append(value)
        return value

    def pick(self, accept: Callable[[Value], bool] = lambda _: True) -> Value | None:
        candidates = [v for v in self.pool if accept(v)]
        return self.draw(st.sampled_from(candidates[-12:])) if candidates else None

    def constant(self, dtype: str) -> str:
        numbers = ["0.0", "-0.0", "1.0", "-2.0", 'float("inf")'] if dtype == "float32" else ["0", "1", "-3"]
        number = "True" if dtype == "bool" else self.draw(st.sampled_from(numbers))
        return f'R.const({number}, "{dtype}")'

    # -- one step each; a step that finds no operands does nothing

    def unary(self) -> None:
        v = self.pick()
        if v is None:
            return
        names = {
            "float32": ["negative", "abs", "nn.relu", "floor", "sign", "ceil"],
            "int64": ["negative", "abs", "bitwise_not", "sign"],
            "bool": ["logical_not"],
        }[v.dtype]
        self.bind(f"R.{self.draw(st.sampled_from(names))}({v.name})", v.dims, v.dtype)

    def binary(self) -> None:
        v = self.pick()
        if v is None:
            return
        w = self.pick(lambda w: w.dtype == v.dtype and v.dims[len(v.dims) - len(w.dims) :] == w.dims)
        other = self.constant(v.dtype) if w is None or self.draw(st.booleans()) else w.name
        names = (
            ["logical_and", "logical_or", "logical_xor"]
            if v.dtype == "bool"
            else ["add", "subtract", "maximum", "minimum", "multiply", "less", "equal", "greater_equal"]
        )
        name = self.draw(st.sampled_from(names))
        swap = self.draw(st.booleans())
        a, b = (other, v.name) if swap else (v.name, other)
        if name == "multiply" and v.dtype == "float32":
            self.bind(f"R.clip(R.multiply({a}, {b}), -9, 9)", v.dims, v.dtype)
        elif name == "multiply":
            self.bind(f'R.mod(R.multiply({a}, {b}), R.const(17, "int64"))', v.dims, v.dtype)
        else:
            compares = name in ("less", "equal", "greater_equal")
            self.bind(f"R.{name}({a}, {b})", v.dims, "bool" if compares else v.dtype)

    def where(self) -> None:
        v = self.pick(lambda v: v.dtype != "bool")
        c = v and self.pick(lambda c: c.dtype == "bool" and c.dims in (v.dims, ()))
        w = c and self.pick(lambda w: w.dtype == v.dtype and w.dims == v.dims)
        if w:
            self.bind(f"R.where({c.name}, {v.name}, {w.name})", v.dims, v.dtype)

    def cast(self) -> None:
        v = self.pick(lambda v: v.dtype != "float32")
        if v:
            target = self.draw(st.sampled_from(["float32", "int64"]))
            self.bind(f'R.astype({v.name}, "{target}")', v.dims, target)

    def reshape(self) -> None:
        v = self.pick(lambda v: len(v.dims) == 2)
        if v is None:
            return
        a, b = v.dims
        kind = self.draw(st.sampled_from(["flatten", "flat", "swap", "outer"]))
        if kind == "flatten":
            self.bind(f"R.flatten({v.name})", (f"({a}) * ({b})",), v.dtype)
        elif kind == "flat":
            self.bind(f"R.reshape({v.name}, (({a}) * ({b}),))", (f"({a}) * ({b})",), v.dtype)
        elif kind == "swap":
            self.bind(f"R.reshape(R.permute_dims({v.name}), ({a}, {b}))", (a, b), v.dtype)
        else:
            self.bind(f"R.squeeze(R.reshape({v.name}, (1, {b}, {a})), 0)", (b, a), v.dtype)

    def move(self) -> None:
        v = self.pick(lambda v: 1 <= len(v.dims) <= 2)
        if v is None:
            return
        name, dims = v.name, v.dims
        axis = self.draw(st.integers(0, len(dims) - 1))
        at = lambda dim: (*dims[:axis], dim, *dims[axis + 1 :])  # noqa: E731
        options = [
            (f"R.flip({name}, axis={axis})", dims),
            (f"R.permute_dims({name})", dims[::-1]),
            (f"R.repeat({name}, 2, axis={axis})", at(f"({dims[axis]}) * 2")),
            (f"R.concat([{name}, {name}], axis={axis})", at(f"({dims[axis]}) * 2")),
            (f"R.take({name}, R.const([0, -1], 'int64'), axis={axis})", at("2")),
            (f"R.strided_slice({name}, [{axis}], [0], [{dims[axis]}])", dims),
            (f"R.strided_slice({name}, [{axis}], [-1], [-({dims[axis]}) - 1], [-1])", dims),
            (f"R.stack([{name}, {name}], axis=0)", ("2", *dims)),
            (f"R.expand_dims({name}, {axis})", (*dims[:axis], "1", *dims[axis:])),
            (f"R.broadcast_to({name}, (2, {''.join(d + ', ' for d in dims)}))", ("2", *dims)),
            (f"R.split(R.concat([{name}, {name}], axis={axis}), 2, axis={axis})[1]", dims),
        ]
        text, result = self.draw(st.sampled_from(options))
        if len(result) <= 2:
            self.bind(text, result, v.dtype)

    def reduce(self) -> None:
        v = self.pick(lambda v: v.dims and v.dtype != "bool")
        if v is None:
            return
        axis = self.draw(st.integers(0, len(v.dims) - 1))
        keep = self.draw(st.booleans())
        name = self.draw(st.sampled_from(["sum", "max", "min", "argmax", "argmin"]))
        dims = v.dims[:axis] + (("1",) if keep else ()) + v.dims[axis + 1 :]
        text = f"R.{name}({v.name}, axis={axis}, keepdims={keep})"
        if name == "sum":
            text = f"R.clip({text}, -99, 99)" if v.dtype == "float32" else text
        self.bind(text, dims, "int64" if name.startswith("arg") else v.dtype)

    def scan(self) -> None:
        v = self.pick(lambda v: v.dims and v.dtype == "int64")
        if v:
            self.bind(f"R.cumsum({v.name}, axis=0)", v.dims, v.dtype)

    def matmul(self) -> None:
        v = self.pick(lambda v: v.dims and v.dtype == "float32")
        w = v and self.pick(
            lambda w: w.dtype == "float32" and w.dims and w.dims[max(0, len(w.dims) - 2)] == v.dims[-1]
        )
        if w:
            dims = v.dims[:-1] + (w.dims[-1:] if len(w.dims) == 2 else ())
            self.bind(f"R.clip(R.matmul({v.name}, {w.name}), -9, 9)", dims, "float32")

    def tuple(self) -> None:
        a, b = self.pick(), self.pick()
        if a and b:
            name = self.fresh("t")
            self.line(f"{name} = ({a.name}, ({b.name}, {a.name}))")
            self.bind(f"{name}[0]", a.dims, a.dtype)
            self.bind(f"{name}[1][0]", b.dims, b.dtype)

    def cast_shape(self) -> None:
        v = self.pick(lambda v: 1 <= len(v.dims) <= 2 and v.dtype == "float32")
        if v is None:
            return
        k, u, w = self.fresh("k"), self.fresh("u"), self.fresh("w")
        dims = (k, *v.dims[1:])
        self.line(f"{k} = T.int64()")
        self.line(f"{u} = cls.forget{len(v.dims)}({v.name})")
        self.line(f"{w} = R.match_cast({u}, {Value(w, dims, v.dtype).info})")
        self.pool.append(Value(w, dims, v.dtype))
        if self.draw(st.booleans()):
            self.bind(f"R.match_cast(R.add({w}, {w}), {v.info})", v.dims, v.dtype)

    def branch(self) -> None:
        v = self.pick()
        c = self.pick(lambda c: c.dtype == "bool" and not c.dims)
        if v is None or c is None or self.depth > 1:
            return
        name = self.fresh("r")
        for word in (f"if {c.name}:", "else:"):
            self.line(word)
            inner = self.inner()
            inner.steps(self.draw(st.integers(0, 3)), inner.ordinary)
            same = inner.pick(lambda w: w.dims == v.dims and w.dtype == v.dtype)
            inner.line(f"{name} = {same.name if same else v.name}")
        self.pool.append(Value(name, v.dims, v.dtype))

    def function(self) -> None:
        v = self.pick(lambda v: not any(d.startswith("k") for d in v.dims))
        if v is None or self.depth > 1:
            return
        name, p = self.fresh("f"), self.fresh("p")
        self.line("@R.function(pure=False)" if self.mutating else "@R.function")
        self.line(f"def {name}({p}: {v.info}) -> {v.info}:")
        inner = self.inner()
        inner.pool.append(Value(p, v.dims, v.dtype))
        inner.steps(self.draw(st.integers(1, 3)), inner.ordinary)
        same = inner.pick(lambda w: w.dims == v.dims and w.dtype == v.dtype)
        inner.line(f"return {same.name if same else p}")
        w = self.pick(lambda w: w.dims == v.dims and w.dtype == v.dtype) or v
        self.bind(f"{name}({name}({w.name}))", v.dims, v.dtype)

    def dataflow(self) -> None:
        self.line("with R.dataflow():")
        inner = self.inner()
        start = len(inner.pool)
        inner.steps(self.draw(st.integers(2, 5)), inner.plain)
        new = inner.pool[start:]
        if not new:
            inner.bind("R.negative(x)", ("n", "m"), "float32")
            new = inner.pool[start:]
        chosen = self.draw(st.lists(st.sampled_from(new), min_size=1, max_size=3, unique=True))
        inner.line(f"R.output({', '.join(v.name for v in chosen)})")
        self.pool.extend(v for v in chosen if not any(d.startswith("k") for d in v.dims))

    def mutate(self) -> None:
        v = self.pick()
        if v:
            self.line(
                f'{self.fresh("_")} = R.call_packed("pitfall.increment", {v.name}, sinfo_args=R.Tuple())'
            )

    def inner(self) -> Writer:
        return replace(self, pool=list(self.pool), indent=self.indent + 1, depth=self.depth + 1)

    @property
    def plain(self) -> list[Callable[[], None]]:
        """The steps a dataflow block can have."""
        return [
            self.unary, self.binary, self.binary, self.where, self.cast, self.reshape, self.move, self.move,
            self.reduce, self.scan, self.matmul, self.tuple, self.cast_shape,
        ]  # fmt: skip

    @property
    def ordinary(self) -> list[Callable[[], None]]:
        """All steps."""
        more = [self.mutate] * 4 if self.mutating else []
        return [*self.plain, self.branch, self.branch, self.function, self.function, self.dataflow, *more]

    def steps(self, count: int, choices: list[Callable[[], None]]) -> None:
        for _ in range(count):
            self.draw(st.sampled_from(choices))()


INPUTS = (
    Value("x", ("n", "m"), "float32"),
    Value("y", ("m",), "float32"),
    Value("z", ("n",), "int64"),
    Value("b", (), "bool"),
)


@st.composite
def programs(draw: Callable[[Any], Any], mutating: bool = False) -> str:
    """The text of a module whose main returns a tuple of three of what it computed."""
    writer = Writer(draw, [], list(INPUTS), mutating=mutating)
    writer.steps(draw(st.integers(3, 9)), writer.ordinary)
    results = draw(st.lists(st.sampled_from(writer.pool[-8:]), min_size=3, max_size=3))
    writer.line(f"return ({', '.join(v.name for v in results)})")
    infos = [f'R.Tensor(ndim={len(v.dims)}, dtype="{v.dtype}")' for v in results]
    head = HEADER.format(result=f"R.Tuple({', '.join(infos)})", pure=not mutating)
    return head + "\n".join(writer.lines) + "\n"


def inputs(n: int, m: int, seed: int) -> tuple[Any, ...]:
    """Arguments of main."""
    rng = np.random.default_rng(seed)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], "float32")
    x, y = (rng.integers(-3, 4, shape).astype("float32") for shape in ((n, m), (m,)))
    if seed % 2 and x.size:
        x.flat[rng.integers(x.size)] = special[rng.integers(len(special))]
    return x, y, rng.integers(-3, 4, n), np.array(bool(seed % 3))


# ----------------------------------------------------------------------------------------- evaluator


class Fails(Exception):
    """The program fails on these inputs."""


@dataclass
class Closure:
    """A function and what it sees."""

    function: Function
    env: dict[Any, Any]
    sizes: dict[ShapeVar, int]


@dataclass
class Evaluator:
    """Evaluates graph-level Relax: an environment and a case per node."""

    mod: IRModule
    env: dict[Any, Any]
    sizes: dict[ShapeVar, int]

    def call(self, callee: Any, args: list[Any]) -> Any:
        if isinstance(callee, GlobalVar):
            callee = Closure(self.mod[callee], {}, {})
        inner = Evaluator(self.mod, dict(callee.env), dict(callee.sizes))
        own = {}
        for param in callee.function.params:
            own.update(dict.fromkeys(dims_of(param.struct_info)))
        for param, arg in zip(callee.function.params, args, strict=True):
            inner.match(arg, param.struct_info)
            inner.env[param] = arg
        result = inner.value(callee.function.body)
        inner.match(result, callee.function.ret_struct_info)
        return result

    def match(self, value: Any, info: Any) -> None:
        """Check a value against struct info; variables that have no value get one."""
        if isinstance(info, TupleStructInfo):
            for item, part in zip(value, info.fields, strict=True):
                self.match(item, part)
        values = info.dims if isinstance(info, TensorStructInfo) else getattr(info, "values", None)
        if isinstance(info, (TensorStructInfo, ShapeStructInfo)) and values is not None:
            shape = value.shape if isinstance(value, np.ndarray) else value
            for dim, found in zip(values, shape, strict=True):
                if isinstance(dim, ShapeVar) and dim not in self.sizes:
                    self.sizes[dim] = found
                elif evaluate(dim, self.sizes) != found:
                    raise Fails(f"{dim} is not {found}")

    def value(self, expr: Any) -> Any:
        match expr:
            case Constant(data):
                return np.array(data)
            case Var():
                return self.env[expr]
            case Tuple(fields):
                return tuple(self.value(item) for item in fields)
            case TupleGetItem(source, index):
                return self.value(source)[index]
            case ShapeExpr(values):
                return tuple(evaluate(v, self.sizes) for v in values)
            case PrimValue(value):
                return evaluate(value, self.sizes)
            case StringImm(value) | DataTypeImm(value):
                return value
            case If(cond, true_branch, false_branch):
                branch = true_branch if self.value(cond) else false_branch
                return Evaluator(self.mod, dict(self.env), dict(self.sizes)).value(branch)
            case Function():
                return Closure(expr, self.env, self.sizes)
            case GlobalVar():
                return expr
            case Call(Op()):
                return self.operator(expr)
            case Call(ExternFunc(), args):
                for arg in map(self.value, args):
                    arg[...] = arg + np.ones((), arg.dtype)
                return ()
            case Call(op, args):
                return self.call(self.value(op), [self.value(arg) for arg in args])
            case SeqExpr(blocks, body):
                for block in blocks:
                    for binding in block.bindings:
                        value = self.value(binding.value)
                        if isinstance(binding, MatchCast):
                            self.match(value, binding.struct_info)
                        self.env[binding.var] = value
                return self.value(body)
            case _:
                raise TypeError(type(expr).__name__)

    def operator(self, call: Call) -> Any:
        operator: Any = operator_of(call)
        values = []
        for (operand, _), arg in zip(operator.arguments(call), call.args, strict=True):
            values.append(None if operand.optional and is_absent(arg) else as_list(self.value(arg)))
        if call.op.name == "relax.shape_of":
            return values[0].shape
        try:
            with np.errstate(all="ignore"):
                result = operator.evaluate(*values)
        except (IndexError, ValueError, ZeroDivisionError) as error:
            raise Fails(str(error)) from error
        return fresh(result)


def fresh(result: Any) -> Any:
    """A result with memory of its own, which references may share with their operands."""
    if isinstance(result, (list, tuple)):
        return tuple(map(fresh, result))
    return np.array(result) if isinstance(result, (np.ndarray, np.generic)) else result


def as_list(value: Any) -> Any:
    """Tuples of tensors are lists to references, shapes tuples."""
    return list(value) if isinstance(value, tuple) and value and isinstance(value[0], np.ndarray) else value


def dims_of(info: Any) -> list[ShapeVar]:
    """The shape variables that stand alone in an annotation."""
    dims = info.dims if isinstance(info, TensorStructInfo) else ()
    return [d for d in dims or () if isinstance(d, ShapeVar)]


def run(mod: IRModule, args: tuple[Any, ...]) -> Any:
    """What main gives, and then its arguments, which it may change; the text "fails" where it fails."""
    main: Mapping[Any, Any] = {g.name_hint: g for g in mod.functions}
    args = tuple(np.array(arg) for arg in args)
    try:
        return (*Evaluator(mod, {}, {}).call(main["main"], list(args)), *args)
    except Fails:
        return "fails"
