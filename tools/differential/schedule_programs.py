"""Random PrimFuncs to schedule, as text: stages of blocks over buffers of static and symbolic sizes.

    program = schedule_program("7:3")
    program.text    a module with the function main
    program.cases   arguments for it, for sizes of every kind

A stage computes a buffer from those before it: element by element, from neighbours, transposed, or reduced. Its loops
are its own, or those of the stage before. Values are small whole numbers, so that sums are exact in any order; every
access is within bounds.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .choices import Choices, Seeded
from .tir_programs import Program

CONSTANT_SIZES = ("1", "2", "3", "4", "6", "8", "12")
NAMES = ("n", "m")
VALUES = (0, 1, 2, 3, 4, 5, 8)
"""The values that symbolic sizes take."""
DTYPES = ("int32", "int32", "int32", "float32")
FEATURES = [
    "schedule elementwise", "schedule neighbour", "schedule transposed", "schedule reversed", "schedule broadcast",
    "schedule sum", "schedule max", "schedule product", "schedule matmul", "schedule last value", "schedule update",
    "schedule shared loops", "schedule shifted loop", "schedule guarded loop", "schedule nested block",
    "schedule symbolic", "schedule local buffer", "schedule decomposed", "schedule padded",
]  # fmt: skip
"""The constructs of these programs."""


@dataclass
class Tensor:
    """A buffer, and its sizes as text."""

    name: str
    dims: tuple[str, ...]


@dataclass
class Writer:
    """A function being written."""

    choices: Choices
    dtype: str
    sizes: list[str]
    lines: list[str] = field(default_factory=list)
    features: Counter[str] = field(default_factory=Counter)
    params: list[Tensor] = field(default_factory=list)
    local: list[Tensor] = field(default_factory=list)
    readable: list[Tensor] = field(default_factory=list)
    shared: tuple[tuple[str, ...], list[str], int] | None = None
    """Sizes and variables of the innermost loops that are open, and the number of lines when they were opened."""
    written: dict[str, bool] = field(default_factory=dict[str, bool])
    """What is allocated and written in the open loops; True if each iteration writes the element of its own indices."""
    count: int = 0

    def note(self, feature: str) -> None:
        self.features[f"schedule {feature}"] += 1

    def dim(self) -> str:
        return self.choices.pick(self.sizes)

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    # ------------------------------------------------------------------------------------- buffers

    def source(self, dims: tuple[str, ...]) -> Tensor:
        """A buffer of these sizes that has values: one there is, or a new parameter."""
        fitting = [tensor for tensor in self.readable if tensor.dims == dims]
        if fitting and self.choices.chance(75):
            return fitting[-1] if self.choices.chance(60) else self.choices.pick(fitting)
        tensor = Tensor(self.fresh("X"), dims)
        self.params.append(tensor)
        self.readable.append(tensor)
        return tensor

    def target(self, dims: tuple[str, ...]) -> Tensor:
        """A new buffer of these sizes, which is a parameter or allocated."""
        tensor = Tensor(self.fresh("Y"), dims)
        if self.choices.chance(45):
            self.note("local buffer")
            self.local.append(tensor)
        else:
            self.params.append(tensor)
        return tensor

    # ------------------------------------------------------------------------------------- blocks

    def block(
        self, dims: tuple[str, ...], kinds: str, lines: list[str], share: bool = True, exact: bool = False
    ) -> None:
        """Write a block with a loop for each of its variables `v0`, `v1` …: loops of its own, or those of the one before.

        It reads and writes the elements at its own indices alone if `exact`.
        """
        text = "\n".join(lines)
        used = [same for name, same in self.written.items() if f"{name}[" in text]
        defined = all(used) and exact if used else True  # what is read of allocated storage was written before
        name = self.name()
        if share and defined and self.shared is not None and self.shared[0] == dims and self.choices.chance(60):
            self.note("shared loops")
            loops = self.shared[1]
        else:
            loops = [self.fresh("i") for _ in dims]
            self.shared = (dims, loops, self._open_loops(loops, dims, kinds))
            self.written.clear()
        for tensor in self.local:
            if f"{tensor.name}[" in lines[-1].partition(" = ")[0]:
                self.written[tensor.name] = exact
        depth = self.shared[2]
        pad = "    " * depth
        self.lines.append(f'{pad}with T.block("{name}"):')
        for place, (dim, kind, loop) in enumerate(zip(dims, kinds, loops, strict=True)):
            axis = "reduce" if kind == "R" else "spatial"
            self.lines.append(f"{pad}    v{place} = T.axis.{axis}({dim}, {loop})")
        if self.guard:
            self.lines.append(f"{pad}    T.where({loops[0]} < {dims[0]})")
        self.lines += [f"{pad}    {line}" for line in lines]

    guard: bool = False

    def _open_loops(self, loops: list[str], dims: tuple[str, ...], kinds: str) -> int:
        """Write the loops of a block; the depth of what is in them."""
        self.guard = kinds[:1] == "S" and self.choices.chance(8)
        if not dims:
            return 0
        if self.guard:
            self.note("guarded loop")
            self.lines.append(f"for {loops[0]} in range({dims[0]} + 2):")
            if len(dims) > 1:
                self.lines.append(f"    for {', '.join(loops[1:])} in T.grid({', '.join(dims[1:])}):")
            return min(len(dims), 2)
        self.lines.append(f"for {', '.join(loops)} in T.grid({', '.join(dims)}):")
        return 1

    # ------------------------------------------------------------------------------------- stages

    def stage(self) -> None:
        """One computation."""
        kinds = [
            self.elementwise, self.elementwise, self.neighbour, self.transposed, self.broadcast, self.reduction,
            self.reduction, self.matmul, self.update, self.nested, self.decomposed, self.shifted, self.padded,
        ]  # fmt: skip
        self.choices.pick(kinds)()

    def dims(self, rank: int | None = None) -> tuple[str, ...]:
        """Sizes of a buffer that can be read, or new ones."""
        present = [tensor.dims for tensor in self.readable[-3:] if tensor.dims]
        if rank is None and present and self.choices.chance(70):
            return self.choices.pick(present)
        return tuple(self.dim() for _ in range(rank or self.choices.integer(1, 3)))

    def name(self) -> str:
        return self.fresh("B")

    def elementwise(self) -> None:
        dims = () if self.choices.chance(5) else self.dims()
        x, y = self.source(dims), self.source(dims)
        out, at = self.target(dims), self.at(dims)
        operator = self.choices.pick(("+", "-", "*")) if self.choices.chance(50) else None
        value = f"{x.name}[{at}] + {self.constant(1)}"
        if operator == "*":
            value = f"T.max(T.min({x.name}[{at}], {self.constant(4)}), {self.constant(-4)}) * {self.constant(2)}"
        elif operator is not None:
            value = f"{x.name}[{at}] {operator} {y.name}[{at}]"
        self.note("elementwise")
        self.block(dims, "S" * len(dims), [f"{out.name}[{at}] = {value}"], exact=True)
        self.readable.append(out)

    def neighbour(self) -> None:
        dims = self.dims()
        x, out = self.source(dims), self.target(dims)
        place = self.choices.integer(0, len(dims) - 1)
        indices = [f"v{i}" for i in range(len(dims))]
        if self.choices.chance(50):
            self.note("neighbour")
            indices[place] = f"T.max(v{place} - 1, 0)"
        else:
            self.note("reversed")
            indices[place] = f"{dims[place]} - 1 - v{place}"
        line = f"{out.name}[{self.at(dims)}] = {x.name}[{', '.join(indices)}] + {self.constant(1)}"
        self.block(dims, "S" * len(dims), [line])
        self.readable.append(out)

    def transposed(self) -> None:
        dims = self.dims(2)
        x, out = self.source(dims), self.target(dims[::-1])
        self.note("transposed")
        self.block(dims, "SS", [f"{out.name}[v1, v0] = {x.name}[v0, v1]"])
        self.readable.append(out)

    def broadcast(self) -> None:
        dims = self.dims(2)
        x, y, out = self.source(dims[:1]), self.source(dims[1:]), self.target(dims)
        self.note("broadcast")
        self.block(dims, "SS", [f"{out.name}[v0, v1] = {x.name}[v0] + {y.name}[v1]"])
        self.readable.append(out)

    def reduction(self) -> None:
        dims = self.dims()
        kinds = "".join(self.choices.pick("SR") for _ in dims)
        if "R" not in kinds:
            kinds = kinds[:-1] + "R"
        kept = [i for i, kind in enumerate(kinds) if kind == "S"]
        x, out = self.source(dims), self.target(tuple(dims[i] for i in kept))
        own = f"{out.name}[{', '.join(f'v{i}' for i in kept) or '()'}]"
        term = f"{x.name}[{self.at(dims)}]"
        sort = self.choices.pick(("sum", "sum", "max", "product", "last value"))
        start, value = {
            "sum": (self.constant(0), f"{own} + {term}"),
            "max": (self.constant(-99), f"T.max({own}, {term})"),
            "product": (self.constant(1), f"{own} * T.min(T.max({term}, {self.constant(-1)}), {self.constant(1)})"),
            "last value": (self.constant(7), term),
        }[sort]
        self.note(sort)
        lines = ["with T.init():", f"    {own} = {start}", f"{own} = {value}"]
        self.block(dims, kinds, lines, share=sort != "last value")
        self.readable.append(out)

    def matmul(self) -> None:
        n, m, k = self.dims(3)
        a, b, out = self.source((n, k)), self.source((k, m)), self.target((n, m))
        self.note("matmul")
        lines = ["with T.init():", f"    {out.name}[v0, v1] = {self.constant(0)}"]
        lines.append(f"{out.name}[v0, v1] = {out.name}[v0, v1] + {a.name}[v0, v2] * {b.name}[v2, v1]")
        self.block((n, m, k), "SSR", lines, share=False)

    def decomposed(self) -> None:
        """A sum whose start is a block of its own."""
        dims = self.dims(2)
        x, out = self.source(dims), self.target(dims[:1])
        self.note("decomposed")
        self.block(dims[:1], "S", [f"{out.name}[v0] = {self.constant(0)}"], share=False)
        line = f"{out.name}[v0] = {out.name}[v0] + {x.name}[v0, v1]"
        self.block(dims, "SR", [line], share=False)
        self.readable.append(out)

    def update(self) -> None:
        """A buffer that is read and written."""
        written = [tensor for tensor in self.readable if tensor.name.startswith("Y")]
        if not written:
            return self.elementwise()
        out = self.choices.pick(written)
        self.note("update")
        at = self.at(out.dims)
        line = f"{out.name}[{at}] = {out.name}[{at}] + {self.constant(1)}"
        self.block(out.dims, "S" * len(out.dims), [line], exact=True)
        return None

    def nested(self) -> None:
        """A block with loops and a block in it."""
        dims = self.dims(2)
        x, out = self.source(dims), self.target(dims)
        self.note("nested block")
        inner = self.fresh("i")
        lines = [f"for {inner} in range({dims[1]}):", f'    with T.block("{self.name()}"):',
                 f"        w0 = T.axis.spatial({dims[0]}, v0)",
                 f"        w1 = T.axis.spatial({dims[1]}, {inner})",
                 f"        {out.name}[w0, w1] = {x.name}[w0, w1] + {self.constant(1)}"]  # fmt: skip
        self.block(dims[:1], "S", lines, share=False)
        self.shared = None
        self.readable.append(out)

    def shifted(self) -> None:
        """A loop that does not begin at 0."""
        (dim,) = self.dims(1)
        x, out = self.source((dim,)), self.target((dim,))
        loop = self.fresh("i")
        self.note("shifted loop")
        self.lines += [
            f"for {loop} in range(2, {dim} + 2):",
            f'    with T.block("{self.name()}"):',
            f"        v0 = T.axis.spatial({dim}, {loop} - 2)",
            f"        {out.name}[v0] = {x.name}[v0] * {self.constant(2)}",
        ]
        self.shared = None
        self.readable.append(out)

    def padded(self) -> None:
        """A buffer with a margin around it, often read with its neighbours by a block in other loops."""
        dims = self.dims(self.choices.integer(1, 2))
        x = self.source(dims)
        wide = tuple(f"{dim} + T.int64(2)" for dim in dims)
        out = Tensor(self.fresh("Y"), wide)
        self.local.append(out)
        self.note("padded")
        inside = [f"1 <= v{i} and v{i} < {dim} + 1" for i, dim in enumerate(dims)]
        at = ", ".join(f"v{i} - 1" for i in range(len(dims)))
        value = f"T.if_then_else({' and '.join(inside)}, {x.name}[{at}], {self.constant(0)})"
        self.block(wide, "S" * len(dims), [f"{out.name}[{self.at(dims)}] = {value}"], share=False)
        result = self.target(dims)
        near = ", ".join(f"v{i} + 1" for i in range(len(dims)))
        far = ", ".join([f"v{i} + 1" for i in range(len(dims) - 1)] + [f"v{len(dims) - 1} + 2"])
        line = f"{result.name}[{self.at(dims)}] = {out.name}[{self.at(dims)}] + {out.name}[{near}] + {out.name}[{far}]"
        self.block(dims, "S" * len(dims), [line], share=False)
        self.readable.append(result)

    def at(self, dims: tuple[str, ...]) -> str:
        return ", ".join(f"v{i}" for i in range(len(dims))) or "()"

    def constant(self, value: int) -> str:
        return f"T.{self.dtype}({value})"


def schedule_program(seed: int | str) -> Program:
    """The program of a seed, with arguments for it."""
    choices = Seeded(f"program {seed}")
    symbolic = [name for name in NAMES if choices.chance(45)]
    sizes = [*symbolic, *symbolic, *(choices.pick(CONSTANT_SIZES) for _ in range(2))]
    sizes = [f"T.int64({size})" if size.isdigit() else size for size in sizes]
    writer = Writer(choices, choices.pick(DTYPES), sizes)
    for _ in range(choices.integer(1, 4)):
        writer.stage()
    if symbolic:
        writer.note("symbolic")
    params = ", ".join(f"p{tensor.name}: T.handle" for tensor in [*writer.params, *_bearers(symbolic)])
    head = [f"{name} = T.int64()" for name in symbolic]
    for tensor in [*_bearers(symbolic), *writer.params]:
        shape = "".join(f"{dim}, " for dim in tensor.dims)
        head.append(f'{tensor.name} = T.match_buffer(p{tensor.name}, ({shape}), "{writer.dtype}")')
    for tensor in writer.local:
        shape = "".join(f"{dim}, " for dim in tensor.dims)
        head.append(f'{tensor.name} = T.alloc_buffer(({shape}), "{writer.dtype}")')
    body = "".join(f"        {line}\n" for line in [*head, *writer.lines])
    text = f"@I.ir_module\nclass Module:\n    @T.prim_func\n    def main({params}):\n{body}"
    tensors = [*writer.params, *_bearers(symbolic)]
    cases = [_arguments(tensors, symbolic, writer.dtype, choices) for _ in range(3 if symbolic else 1)]
    return Program(text, cases, writer.features)


def _bearers(symbolic: list[str]) -> list[Tensor]:
    """Parameters from which the sizes are known."""
    return [Tensor(f"S{name}", (name,)) for name in symbolic]


def _arguments(tensors: list[Tensor], symbolic: list[str], dtype: str, choices: Choices) -> list[Any]:
    """Arrays of small whole numbers, for sizes by chance."""
    sizes = {name: choices.pick(VALUES) for name in symbolic}
    generator = np.random.default_rng(choices.integer(0, 1 << 30))
    arrays: list[Any] = []
    for tensor in tensors:
        shape = [sizes[dim] if dim in sizes else int(dim[8:-1]) for dim in tensor.dims]
        arrays.append(generator.integers(-3, 4, shape).astype(dtype))
    return arrays
