"""Small builders of TIR for rules: loops from Python functions, vectors, allocations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ..prim import IntImm, PrimExpr, SizeVar, Var, const, is_const, simplify
from ..prim.intrin import floordiv, floormod
from ..tir import (
    AllocBuffer,
    Broadcast,
    Buffer,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    For,
    ForKind,
    IterVar,
    LetStmt,
    Ramp,
    Stmt,
)
from ..tir.buffer import decl_buffer
from ..tir.statements import seq_of
from ..tir.stmt import OWN_FUNCTION, STAYS_PARALLEL, STAYS_ROLLED

Body = Callable[[Var], Stmt]


def int64(value: int | PrimExpr) -> PrimExpr:
    """Return an index expression; a Python int becomes an int64 constant."""
    return const(value, "int64") if isinstance(value, int) else value.astype("int64")


def size_of(iter_var: IterVar) -> PrimExpr:
    """Return the extent of a variable, as int64."""
    assert iter_var.dom is not None
    return int64(iter_var.dom.extent)


def loop(name: str, extent: int | PrimExpr, body: Body, kind: ForKind = ForKind.SERIAL) -> Stmt:
    """Return a loop over range(extent) whose body is `body(loop variable)`."""
    var = Var(name, "int64")
    return For(var, const(0, "int64"), int64(extent), kind, body(var))


def apart(name: str, extent: int | PrimExpr, body: Body) -> Stmt:
    """Return a serial loop marked for compilation as a separate LLVM function.

    Its register pressure then spills nothing of the enclosing loops.
    """
    var = Var(name, "int64")
    zero, annotations = const(0, "int64"), {OWN_FUNCTION: True}
    return For(var, zero, int64(extent), ForKind.SERIAL, body(var), annotations)


def rolled(name: str, extent: int | PrimExpr, body: Body) -> Stmt:
    """Return a serial loop that LLVM does not unroll: its iterations are long, or seldom run."""
    var = Var(name, "int64")
    zero, annotations = const(0, "int64"), {STAYS_ROLLED: True}
    return For(var, zero, int64(extent), ForKind.SERIAL, body(var), annotations)


def shared(name: str, extent: int | PrimExpr, body: Body) -> Stmt:
    """Return a nested parallel loop; it is divided among threads only if the enclosing parallel loop is not."""
    var = Var(name, "int64")
    zero, annotations = const(0, "int64"), {STAYS_PARALLEL: True}
    return For(var, zero, int64(extent), ForKind.PARALLEL, body(var), annotations)


def let(name: str, value: PrimExpr, body: Body) -> Stmt:
    """Bind `value` to a new variable in `body(variable)`."""
    var = Var(name, value.dtype)
    return LetStmt(var, value, body(var))


def alloc(name: str, shape: Iterable[int | PrimExpr], dtype: str, scope: str, body: Callable[[Buffer], Stmt]) -> Stmt:
    """Allocate a buffer for the duration of `body(buffer)`."""
    buffer = decl_buffer([int64(size) for size in shape], dtype, name, scope=scope)
    return AllocBuffer(buffer, body(buffer))


def scratch(name: str, shape: Iterable[int | PrimExpr], dtype: str, body: Callable[[Buffer], Stmt]) -> Stmt:
    """Allocate a buffer and access it through a view, which keeps passes from shrinking it to the accessed region.

    Whole vectors may reach beyond the accessed region, and bounds are proved against the declared size.
    """

    def viewed(buffer: Buffer) -> Stmt:
        view = decl_buffer(buffer.shape, dtype, name, data=buffer.data)
        return DeclBuffer(view, body(view))

    return alloc(f"{name}_memory", shape, dtype, "global", viewed)


def scratches(
    shapes: Mapping[str, tuple[Iterable[int | PrimExpr], str]], body: Callable[[Mapping[str, Buffer]], Stmt]
) -> Stmt:
    """Allocate a `scratch` buffer of each shape and dtype, and call `body` with the buffers by name."""

    def rest(names: Sequence[str], buffers: Mapping[str, Buffer]) -> Stmt:
        if not names:
            return body(buffers)
        name, *others = names
        return scratch(name, *shapes[name], lambda buffer: rest(others, {**buffers, name: buffer}))

    return rest(list(shapes), {})


def ramp(start: int | PrimExpr, lanes: int) -> PrimExpr:
    """The indices start, start + 1, …"""
    return Ramp(int64(start), const(1, "int64"), lanes) if lanes > 1 else int64(start)


def vector_load(
    buffer: Buffer, indices: Iterable[int | PrimExpr], lanes: int, mask: PrimExpr | None = None
) -> PrimExpr:
    """Load `lanes` consecutive elements from `indices` on; lanes outside of `mask` are 0."""
    *outer, last = indices
    return BufferLoad(buffer, (*map(int64, outer), ramp(last, lanes)), mask)


def vector_store(
    buffer: Buffer, indices: Iterable[int | PrimExpr], value: PrimExpr, mask: PrimExpr | None = None
) -> Stmt:
    """Store a vector to consecutive elements from `indices` on; lanes outside of `mask` are not written."""
    *outer, last = indices
    lanes = value.dtype.lanes
    return BufferStore(buffer, value, (*map(int64, outer), ramp(last, lanes)), mask)


def spread(value: PrimExpr, lanes: int) -> PrimExpr:
    """Broadcast a scalar to a vector of `lanes` lanes; return it unchanged for one lane."""
    return Broadcast(value, lanes) if lanes > 1 else value


def block(stmts: Iterable[Stmt]) -> Stmt:
    """Return a sequence of statements."""
    return seq_of(stmts)


def named(name: str, value: PrimExpr, body: Callable[[PrimExpr], Stmt]) -> Stmt:
    """Bind a compound size to a name in `body(name)`, opaque to proofs; constants and variables stay."""
    if isinstance(value, (IntImm, Var)):
        return body(value)
    var = SizeVar(name, "int64")
    return LetStmt(var, value, body(var))


def product_of(sizes: Iterable[PrimExpr]) -> PrimExpr:
    """Return the simplified product of sizes, as int64."""
    total: PrimExpr = int64(1)
    for size in sizes:
        total = total * size
    return simplify(total)


def tasks(
    name: str, names: Sequence[str], sizes: Sequence[PrimExpr], body: Callable[[list[PrimExpr]], Stmt]
) -> Stmt:  # fmt: skip
    """Return one parallel loop over all indices below `sizes`, with `body(indices)`; the last varies fastest."""
    return loop(name, product_of(sizes), lambda flat: digits(flat, names, sizes, body), ForKind.PARALLEL)


def digits(
    index: PrimExpr, names: Sequence[str], sizes: Sequence[PrimExpr], body: Callable[[list[PrimExpr]], Stmt]
) -> Stmt:
    """Call `body` with the mixed-radix digits of `index`, the last of which varies fastest."""
    several = [i for i, size in enumerate(sizes) if not is_const(size, 1)]
    parts: list[PrimExpr] = [int64(0) for _ in sizes]
    values: list[tuple[Var, PrimExpr]] = []
    for i in reversed(several):
        if i == several[0]:
            value, index = index, int64(0)
        else:
            value, index = floormod(index, sizes[i]), floordiv(index, sizes[i])
        if isinstance(value, Var):
            parts[i] = value
        else:
            parts[i] = var = SizeVar(names[i], "int64")
            values.append((var, value))
    result = body(parts)
    for var, value in reversed(values):
        result = LetStmt(var, value, result)
    return result
