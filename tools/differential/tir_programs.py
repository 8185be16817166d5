"""Random PrimFuncs, as text: loops, blocks, branches and scalar arithmetic of all dtypes, at the ends of 64 bits too.

    program = tir_program("7:3")
    program.text    a module with the function main
    program.cases   arguments for it: arrays, then scalars

Every constant carries its dtype, so that the text can be read without the package (`tir_oracle`). Most indices are within
bounds and most divisors are not zero, some only seem so.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from .choices import Choices, Seeded
from .rounding import FORMATS, nearest
from .tir_inputs import Buffer, arguments
from .tir_numbers import INTEGERS, limits

INTS = list(INTEGERS)
WIDE = ["int64", "int64", "uint64", "int32"]
FLOATS = ["float32", "float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"]
DTYPES = [*INTS, *WIDE, *FLOATS, "bool"]
STEP_SIZES = ("1", "2", "3", "4", "5", "8")
CONSTANTS = ["0.0", "1.0", "-1.0", "0.5", "1.5", "2.0", "-3.0", "-0.0", "0.25"]


@dataclass
class Program:
    """A module's text, arguments of main, and what constructs it has."""

    text: str
    cases: list[list[Any]]
    features: Counter[str]
    exact: bool = True


@dataclass
class Loop:
    """A variable that is known to be in [0, size)."""

    name: str
    dtype: str
    size: str


FEATURES: list[str] = []
"""The kinds of statements: what the generator may choose from."""
Kind = Callable[["Writer"], "bool | None"]
STATEMENTS: list[tuple[int, str, Kind]] = []


def statement(weight: int) -> Callable[[Kind], Kind]:
    """Register a method that writes a statement; it returns False where it cannot."""

    def register(function: Kind) -> Kind:
        feature = "tir " + function.__name__.replace("_", " ")
        FEATURES.append(feature)
        STATEMENTS.append((weight, feature, function))
        return function

    return register


@dataclass
class Writer:
    """A function being written."""

    choices: Choices
    lines: list[str] = field(default_factory=list)
    features: Counter[str] = field(default_factory=Counter)
    buffers: list[Buffer] = field(default_factory=list)
    scalars: list[tuple[str, str]] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    sizes: list[str] = field(default_factory=list)
    hidden: set[str] = field(default_factory=set)
    """Buffers that are not to be read here: a parallel loop writes them."""
    required: list[Loop] = field(default_factory=list)
    """Variables of parallel loops: what is stored is at a place of their own."""
    indent: int = 2
    depth: int = 0
    risk: int = 4
    """How many of a hundred accesses and divisions are unguarded."""
    count: int = 0

    # ------------------------------------------------------------------------------------- lines

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def note(self, feature: str) -> None:
        self.features[feature] += 1

    @contextmanager
    def inside(self, head: str):
        """The lines of a body; nothing that it declares is visible afterwards."""
        self.line(head)
        kept = len(self.buffers), len(self.scalars), len(self.loops)
        self.indent, self.depth, before = self.indent + 1, self.depth + 1, len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self.indent, self.depth = self.indent - 1, self.depth - 1
        del self.buffers[kept[0] :], self.scalars[kept[1] :], self.loops[kept[2] :]

    # ------------------------------------------------------------------------------------- sizes

    def dim(self) -> str:
        """A dimension of a buffer, as text of an int64."""
        if self.sizes and self.choices.chance(55):
            size = self.choices.pick(self.sizes)
            forms = [size, size, size, f"({size} + 1)", f"({size} * 2)", f"({size} * {self.choices.pick(self.sizes)})"]
            return self.choices.pick(forms)
        return self.choices.pick(("1", "2", "3", "4", "7", "8", "16"))

    def size(self, dim: str, dtype: str = "int64") -> str:
        """A dimension as an expression with dtypes."""
        text = " ".join(
            f"T.int64({part})" if part.isdigit() else part for part in dim.replace("(", "( ").replace(")", " )").split()
        )
        return text if dtype == "int64" else f'T.Cast("{dtype}", {text})'

    # -------------------------------------------------------------------------------- expressions

    def constant(self, dtype: str) -> str:
        pick = self.choices.pick
        if dtype == "bool":
            return f"T.bool({pick(('True', 'False'))})"
        if dtype in FORMATS:
            kinds = ["'inf'", "'-inf'", "'nan'"] if self.choices.chance(10) else CONSTANTS
            exact = [text for text in kinds if is_exact(float(text.strip("'")), dtype)]
            return f"T.{dtype}({pick(exact or CONSTANTS[:2])})"
        return f"T.{dtype}({self.whole(dtype)})"

    def whole(self, dtype: str) -> int:
        """An integer of a dtype: small, or at one of the ends that widths have."""
        low, high = limits(dtype)
        if self.choices.chance(60):
            return self.choices.integer(max(low, -4), min(high, 9))
        ends = [low, high, low + 1, high - 1, high // 2, low // 2, high // 3]
        ends += [s * 2**p + d for p in (7, 8, 15, 16, 31, 32, 53, 62, 63) for s in (1, -1) for d in (-1, 0, 1)]
        return self.choices.pick([n for n in ends if low <= n <= high])

    def expr(self, dtype: str, depth: int = 3) -> str:
        """An expression of a dtype."""
        if depth <= 0 or self.choices.chance(20):
            return self.leaf(dtype, depth)
        if self.choices.chance(14):
            return self.cast(dtype, depth)
        if self.choices.chance(12):
            form = self.choices.pick(("Select", "if_then_else"))
            self.note(f"T.{form}")
            return (
                f"T.{form}({self.condition(depth - 1)}, {self.expr(dtype, depth - 1)}, {self.expr(dtype, depth - 1)})"
            )
        if dtype == "bool":
            return self.condition(depth)
        return (self.float_expr if dtype in FORMATS else self.int_expr)(dtype, depth)

    def leaf(self, dtype: str, depth: int) -> str:
        names = [name for name, kind in self.scalars if kind == dtype]
        names += [loop.name for loop in self.loops if loop.dtype == dtype]
        readable = [b for b in self.buffers if b.dtype == dtype and b.name not in self.hidden]
        if depth > -3 and readable and self.choices.chance(55 if depth > 0 else 30):
            buffer = self.choices.pick(readable)
            return self.access(buffer, depth - 1)
        if names and self.choices.chance(70):
            return self.choices.pick(names)
        return self.constant(dtype)

    def cast(self, dtype: str, depth: int) -> str:
        source = self.choices.pick(DTYPES)
        same = [d for d in DTYPES if d not in (dtype, "bool") and width(d) == width(dtype)]
        if same and dtype != "bool" and self.choices.chance(15):
            source = self.choices.pick(same)
            self.note("T.reinterpret")
            return f'T.reinterpret("{dtype}", {self.expr(source, depth - 1)})'
        if source == dtype:
            return self.leaf(dtype, depth)
        self.note("T.Cast")
        return f'T.Cast("{dtype}", {self.expr(source, depth - 1)})'

    def int_expr(self, dtype: str, depth: int) -> str:
        a = self.expr(dtype, depth - 1)
        form = self.choices.pick(
            "+ + - - * * // % truncdiv truncmod min max << >> & | ^ bitwise_not abs popcount clamp".split()
        )
        self.note(f"tir {form}")
        if form in ("bitwise_not", "abs", "popcount"):
            return f"T.{form}({a})"
        if form == "clamp":
            return f"T.min(T.max({a}, {self.constant(dtype)}), {self.constant(dtype)})"
        if form in ("//", "%", "truncdiv", "truncmod"):
            b = self.divisor(dtype, depth - 1)
        elif form in ("<<", ">>"):
            b = (
                self.expr(dtype, depth - 1)
                if self.choices.chance(30)
                else f"T.{dtype}({self.choices.integer(0, min(9, limits(dtype)[1]))})"
            )
        else:
            b = self.expr(dtype, depth - 1)
        return f"T.{form}({a}, {b})" if form[0].isalpha() else f"({a} {form} {b})"

    def divisor(self, dtype: str, depth: int) -> str:
        if self.choices.chance(55):
            return f"T.{dtype}({self.whole(dtype) or 1})"
        a = self.expr(dtype, depth)
        if self.choices.chance(self.risk * 2):
            self.note("unguarded divisor")
            return a
        return self.choices.pick((f"T.max({a}, T.{dtype}(1))", f"({a} | T.{dtype}(1))"))

    def float_expr(self, dtype: str, depth: int) -> str:
        a = self.expr(dtype, depth - 1)
        form = self.choices.pick("+ - * / min max abs sqrt floor ceil trunc nearbyint".split())
        self.note(f"tir float {form}")
        if form in ("+", "-", "*", "/"):
            return f"({a} {form} {self.expr(dtype, depth - 1)})"
        if form in ("min", "max"):
            return f"T.{form}({a}, {self.expr(dtype, depth - 1)})"
        return f"T.{form}({a})"

    def condition(self, depth: int) -> str:
        kind = self.choices.integer(0, 9)
        if depth > 0 and kind < 3:
            form = self.choices.pick(("and", "or", "not"))
            self.note(f"tir {form}")
            a = self.condition(depth - 1)
            return f"(not {a})" if form == "not" else f"({a} {form} {self.condition(depth - 1)})"
        if kind == 3:
            return self.leaf("bool", depth)
        dtype = self.choices.pick([*INTS, *WIDE, *FLOATS])
        if kind == 4 and dtype in FORMATS:
            return f"T.{self.choices.pick(('isnan', 'isinf', 'isfinite'))}({self.expr(dtype, depth - 1)})"
        order = self.choices.pick(("<", "<=", ">", ">=", "==", "!="))
        return f"({self.expr(dtype, depth - 1)} {order} {self.expr(dtype, depth - 1)})"

    # ---------------------------------------------------------------------------------- accesses

    def access(self, buffer: Buffer, depth: int) -> str:
        if not buffer.shape:
            return f"{buffer.name}[()]"
        return f"{buffer.name}[{', '.join(self.index(dim, depth) for dim in buffer.shape)}]"

    def index(self, dim: str, depth: int) -> str:
        """An index of a dimension: mostly within, sometimes only seemingly."""
        size, choices = self.size(dim), self.choices
        loops = [loop.name for loop in self.loops if loop.size == dim]
        if loops and choices.chance(60):
            return choices.pick(loops)
        if choices.chance(self.risk):
            self.note("unguarded index")
            dtype = choices.pick(INTS)
            return self.expr(dtype, min(depth, 2))
        a = self.expr("int64", min(depth, 2))
        if choices.chance(self.risk):
            self.note("tempting index")
            wide = f'T.Cast("int64", {self.expr(choices.pick(("uint64", "int64", "uint32", "int8")), 1)})'
            return choices.pick(
                (
                    f"T.min({wide}, {size} - T.int64(1))",
                    f"T.min(T.max({a}, T.int64(0)) * T.int64(3), {size} - T.int64(1))",
                    f"T.max({size} - T.int64(1) - {a}, T.int64(0))",
                    f"({a} + T.int64(1)) - T.int64(1)",
                )
            )
        if dim.isdigit() and choices.chance(30):
            return f"T.{choices.pick(('int64', 'int32'))}({choices.integer(0, int(dim) - 1)})"
        return choices.pick(
            (
                f"T.min(T.max({a}, T.int64(0)), {size} - T.int64(1))",
                f"T.max(T.min({a}, {size} - T.int64(1)), T.int64(0))",
                f"({a} % T.max({size}, T.int64(1)))",
            )
        )

    def target(self) -> str | None:
        """Where to store, with the dtype: in parallel loops a place of this iteration's own."""
        writable = [b for b in self.buffers if all(any(d == loop.size for d in b.shape) for loop in self.required)]
        if self.required:
            writable = [b for b in writable if b.name in self.hidden]
        if not writable:
            return None
        buffer = self.choices.pick(writable)
        parts = [self.index(dim, 2) for dim in buffer.shape]
        free = list(range(len(parts)))
        for loop in self.required:
            places = [k for k in free if buffer.shape[k] == loop.size]
            if not places:
                return None
            free.remove(places[0])
            parts[places[0]] = loop.name
        self.stored = buffer
        return f"{buffer.name}[{', '.join(parts) if parts else '()'}]"

    stored: Buffer = field(default_factory=lambda: Buffer("", "", ()))

    # --------------------------------------------------------------------------------- statements

    def body(self, count: int) -> None:
        """So many statements."""
        for _ in range(count):
            table = [entry for entry in STATEMENTS for _ in range(entry[0])]
            _, feature, write = self.choices.pick(table)
            if write(self) is not False:
                self.note(feature)

    def few(self) -> int:
        return 1 if self.depth > 4 else self.choices.integer(1, 2)

    @statement(10)
    def store(self) -> bool | None:
        target = self.target()
        if target is None:
            return False
        dtype = self.stored.dtype
        value = self.expr(dtype, 3)
        if dtype in ("float32", "float64") and self.stored.name in value:
            value = self.constant(dtype)  # sums in memory may be added up in any order
        elif not self.required and dtype in INTEGERS and self.choices.chance(15):
            self.note("accumulation")
            value = f"({target} {self.choices.pick(('+', '-', '^', '*'))} {value})"
        self.line(f"{target} = {value}")
        return None

    @statement(3)
    def branch(self) -> bool | None:
        if self.depth > 5:
            return False
        with self.inside(f"if {self.condition(2)}:"):
            self.body(self.few())
        if self.choices.chance(40):
            with self.inside("else:"):
                self.body(self.few())
        return None

    @statement(2)
    def guarded_store(self) -> bool | None:
        """If 0 <= index < size: B[index] = …"""
        wanted = [b for b in self.buffers if len(b.shape) == 1]
        if not wanted or self.required:
            return False
        buffer, dtype = self.choices.pick(wanted), self.choices.pick(WIDE)
        index, size = self.expr(dtype, 2), self.size(buffer.shape[0])
        wide = index if dtype == "int64" else f'T.Cast("int64", {index})'
        tests = [f"{index} >= T.{dtype}(0)", f"{wide} < {size}"]
        if self.choices.chance(25):
            tests = [f"{wide} >= T.int64(0)", tests[1]]
        with self.inside(f"if {' and '.join(tests)}:"):
            self.line(f"{buffer.name}[{index}] = {self.constant(buffer.dtype)}")
        return None

    @statement(2)
    def vector_store(self) -> bool | None:
        """B.vstore([…, Ramp], value, predicate=Ramp < size), the value a number or what is loaded in the same manner."""
        wanted = [b for b in self.buffers if b.shape]
        if not wanted or self.required:
            return False
        buffer, lanes = self.choices.pick(wanted), self.choices.pick((2, 4, 8))
        sources = [b for b in wanted if b.dtype == buffer.dtype and b.name not in self.hidden]
        value = f"T.Broadcast({self.constant(buffer.dtype)}, {lanes})"
        if sources and self.choices.chance(70):
            source = self.choices.pick(sources)
            where, inside = self.vector(source, lanes)
            value = f"{source.name}.vload([{where}], predicate={inside})"
        where, inside = self.vector(buffer, lanes)
        self.line(f"{buffer.name}.vstore([{where}], {value}, predicate={inside})")
        return None

    def vector(self, buffer: Buffer, lanes: int) -> tuple[str, str]:
        """Indices of some neighbours in a buffer's last dimension, and which of them are touched."""
        *outer, last = buffer.shape
        size = self.size(last)
        start = f"T.max(T.min({self.expr('int64', 1)}, {size} - T.int64(1)), T.int64(0))"
        ramp = f"T.Ramp({self.choices.pick((start, 'T.int64(0)'))}, T.int64(1), {lanes})"
        limit = size
        if self.choices.chance(50):
            limit = f"T.min({size}, {self.expr('int64', 1)})"
        indices = [self.index(dim, 1) for dim in outer]
        return ", ".join([*indices, ramp]), f"{ramp} < T.Broadcast({limit}, {lanes})"

    @statement(3)
    def let(self) -> None:
        dtype, name = self.choices.pick([*DTYPES, "int64", "int32"]), self.fresh("t")
        self.line(f"{name}: T.{dtype} = {self.expr(dtype, 3)}")
        self.scalars.append((name, dtype))

    @statement(8)
    def loop(self) -> bool | None:
        if self.depth > 4 or len(self.loops) > 3:
            return False
        kind = self.choices.pick(("serial", "serial", "serial", "vectorized", "unroll"))
        if kind != "serial":
            self.note(f"T.{kind}")
        name, dtype = (self.fresh("i"), self.choices.pick(("int64", "int64", "int32", "int8", "uint8", "uint64")))
        if self.choices.chance(65):
            dim = self.dim()
            with self.inside(f"for {name} in T.{kind}(T.int64(0), {self.size(dim)}):"):
                self.loops.append(Loop(name, "int64", dim))
                self.body(self.few())
            return None
        low, extent = f"T.{dtype}({self.whole(dtype)})", f"T.{dtype}({self.choices.pick(STEP_SIZES)})"
        if self.choices.chance(40):
            low = f"T.{dtype}({self.choices.integer(0, 3)})"
        if self.choices.chance(40):
            extent = f"T.min(T.max({self.expr(dtype, 1)}, T.{dtype}(0)), T.{dtype}(5))"
        if self.choices.chance(self.risk) and not dtype.startswith("u"):
            low = self.expr(dtype, 1)
            self.note("loop from data")
        with self.inside(f"for {name} in T.{kind}({low}, {low} + {extent}):"):
            self.scalars.append((name, dtype))
            self.body(self.few())
        return None

    @statement(4)
    def parallel_loop(self) -> bool | None:
        """A loop whose iterations write places of their own."""
        if self.depth > 4 or len(self.required) > 1:
            return False
        kind = self.choices.pick(("parallel", "vectorized", "vectorized"))
        candidates = [b for b in self.buffers if b.shape and (not self.required or b.name in self.hidden)]
        if not candidates:
            return False
        chosen = {self.choices.pick(candidates).name for _ in range(2)}
        first = next(b for b in candidates if b.name in chosen)
        dim, name = self.choices.pick(first.shape), self.fresh("p")
        self.note(f"T.{kind}")
        before, hidden = list(self.required), set(self.hidden)
        self.hidden = hidden | chosen
        with self.inside(f"for {name} in T.{kind}(T.int64(0), {self.size(dim)}):"):
            self.required.append(Loop(name, "int64", dim))
            self.loops.append(Loop(name, "int64", dim))
            self.body(self.few())
        self.required, self.hidden = before, hidden
        return None

    @statement(3)
    def reduction(self) -> bool | None:
        """A block that starts and then combines, over loops that may have no iteration."""
        outputs = [b for b in self.buffers if len(b.shape) <= 2 and b.name not in self.hidden]
        if not outputs or self.required or self.depth > 3:
            return False
        out = self.choices.pick(outputs)
        spatial = [Loop(self.fresh("i"), "int64", dim) for dim in out.shape]
        reduced = [Loop(self.fresh("r"), "int64", self.dim()) for _ in range(self.choices.integer(1, 2))]
        loops = [*spatial, *reduced]
        if self.choices.chance(30):
            loops = [*reduced, *spatial]
        head = ", ".join(loop.name for loop in loops)
        names = {loop.name: "v" + loop.name for loop in loops}
        extents = ", ".join(self.size(loop.size) for loop in loops)
        with self.inside(f"for {head} in T.grid({extents}):"), self.inside(f'with T.block("{self.fresh("b")}"):'):
            kinds = "".join("R" if loop in reduced else "S" for loop in loops)
            variables = ", ".join(names.values())
            self.line(f'{variables} = T.axis.remap("{kinds}", [{head}])')
            if spatial and self.choices.chance(40):
                self.note("T.where")
                self.line(f"T.where({spatial[0].name} < T.int64({self.choices.integer(0, 4)}))")
            target = f"{out.name}[{', '.join(names[loop.name] for loop in spatial) or '()'}]"
            with self.inside("with T.init():"):
                self.line(f"{target} = {self.constant(out.dtype)}")
            self.hidden.add(out.name)
            self.loops += [Loop(names[loop.name], "int64", loop.size) for loop in loops]
            value = self.expr(out.dtype, 2)
            self.hidden.discard(out.name)
            self.line(f"{target} = {self.combined(out.dtype, target, value)}")
        return None

    def combined(self, dtype: str, target: str, value: str) -> str:
        if dtype == "bool":
            return f"({target} {self.choices.pick(('and', 'or'))} {value})"
        forms = ["min", "max", "*"] if dtype in ("float32", "float64") else ["min", "max", "+", "+", "*", "-"]
        form = self.choices.pick(forms)
        return f"T.{form}({target}, {value})" if form.isalpha() else f"({target} {form} {value})"

    @statement(2)
    def block(self) -> bool | None:
        """A block of spatial variables, one of them split into two loops."""
        outputs = [b for b in self.buffers if 1 <= len(b.shape) <= 2 and b.name not in self.hidden]
        if not outputs or self.required or self.depth > 3:
            return False
        out = self.choices.pick(outputs)
        spatial = [Loop(self.fresh("i"), "int64", dim) for dim in out.shape]
        inner, factor = self.fresh("k"), self.choices.pick(("2", "3", "4"))
        first, size = spatial[0].name, self.size(out.shape[0])
        extents = [f"({size} + T.int64({int(factor) - 1})) // T.int64({factor})", f"T.int64({factor})"]
        extents += [self.size(loop.size) for loop in spatial[1:]]
        names = [first, inner, *(loop.name for loop in spatial[1:])]
        with self.inside(f"for {', '.join(names)} in T.grid({', '.join(extents)}):"):
            with self.inside(f'with T.block("{self.fresh("b")}"):'):
                whole = f"{first} * T.int64({factor}) + {inner}"
                self.line(f"T.where({whole} < {size})")
                for loop, value in zip(spatial, [whole, *names[2:]], strict=True):
                    self.line(f"v{loop.name} = T.axis.spatial({self.size(loop.size)}, {value})")
                self.hidden.add(out.name)
                self.loops += [Loop("v" + loop.name, "int64", loop.size) for loop in spatial]
                value = self.expr(out.dtype, 3)
                self.hidden.discard(out.name)
                self.line(f"{out.name}[{', '.join('v' + loop.name for loop in spatial)}] = {value}")
        return None

    @statement(2)
    def allocation(self) -> bool | None:
        """Storage of the function's own, written before it is read."""
        if self.required:
            return False
        name, dtype = self.fresh("C"), self.choices.pick(DTYPES)
        shape = tuple(self.dim() for _ in range(self.choices.integer(0, 2)))
        rank = len(shape)
        sizes = ", ".join(self.size(dim) for dim in shape) + ("," if rank == 1 else "")
        self.line(f'{name} = T.alloc_buffer(({sizes}), "{dtype}")')
        variables = [Loop(self.fresh("i"), "int64", dim) for dim in shape]
        value = self.constant(dtype)
        if rank == 0:
            self.line(f"{name}[()] = {value}")
        else:
            head = ", ".join(loop.name for loop in variables)
            extents = ", ".join(self.size(dim) for dim in shape)
            with self.inside(f"for {head} in T.grid({extents}):"):
                self.loops += variables
                self.line(f"{name}[{head}] = {self.expr(dtype, 2)}")
        self.buffers.append(Buffer(name, dtype, shape))
        return None

    @statement(1)
    def bounded_while(self) -> bool | None:
        if self.depth > 3 or self.required:
            return False
        name, dtype = self.fresh("W"), self.choices.pick(("int64", "int32", "uint8"))
        place = f"{name}[T.int64(0)]"
        self.line(f'{name} = T.alloc_buffer((T.int64(1),), "{dtype}")')
        self.line(f"{place} = T.{dtype}(0)")
        test = f"{place} < T.{dtype}({self.choices.integer(1, 4)})"
        if self.choices.chance(50):
            test = f"{test} and {self.condition(1)}"
        with self.inside(f"while {test}:"):
            self.line(f"{place} = {place} + T.{dtype}(1)")
            self.body(1)
        return None

    @statement(1)
    def assertion(self) -> bool | None:
        if self.choices.chance(80):
            return False
        self.line(f'assert {self.condition(1)}, "an assertion"')
        return None


def is_exact(value: float, dtype: str) -> bool:
    """True for a value that a dtype has."""
    return str(nearest(value, dtype)) == str(value)


def width(dtype: str) -> int:
    """The bits of a dtype."""
    return 1 if dtype == "bool" else int(re.findall(r"(?:int|float)(\d+)", dtype)[0])


# ------------------------------------------------------------------------------------------ programs


def tir_program(seed: int | str) -> Program:
    """The program of a seed, and arguments of three sizes."""
    choices = Seeded(seed)
    w = Writer(choices, risk=choices.pick((0, 3, 8)))
    w.sizes = [name for name in ("n", "m") if choices.chance(75)]
    for index in range(choices.integer(2, 5)):
        shape = tuple(w.dim() for _ in range(choices.pick((0, 1, 1, 1, 2, 2, 3))))
        w.buffers.append(Buffer("ABDEF"[index], choices.pick(DTYPES), shape))
    alone = [Buffer(f"S{name}", choices.pick(DTYPES), (name,)) for name in w.sizes]
    w.buffers = alone + w.buffers
    parameters = list(w.buffers)
    scalars = [(w.fresh("s"), choices.pick(DTYPES)) for _ in range(choices.integer(0, 2))]
    w.scalars += scalars
    head = [f"p{i}: T.handle" for i in range(len(parameters))] + [f"{n}: T.{d}" for n, d in scalars]
    lines = ["@I.ir_module", "class Module:", "", "    @T.prim_func", f"    def main({', '.join(head)}):"]
    w.lines = lines
    if choices.chance(40):
        w.line('T.func_attr({"tir.noalias": True})')
    for name in w.sizes:
        w.line(f"{name} = T.int64()")
    for i, buffer in enumerate(parameters):
        dims = ", ".join(buffer.shape) + ("," if len(buffer.shape) == 1 else "")
        w.line(f'{buffer.name} = T.match_buffer(p{i}, ({dims}), "{buffer.dtype}")')
    w.scalars += [(name, "int64") for name in w.sizes]
    w.body(choices.integer(2, 4))
    for buffer in parameters:
        w.note(f"tir {buffer.dtype}")
    sizes = [(3, 2), (1, 1), choices.pick(((0, 2), (2, 0), (5, 3), (4, 1)))]
    data = random.Random(str(seed))
    cases = [arguments(parameters, scalars, n, m, data) for n, m in sizes]
    return Program("\n".join(lines) + "\n", cases, w.features)
