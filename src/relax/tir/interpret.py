"""Reference interpreter of PrimFuncs over NumPy arrays.

    interpret(func, a, b, n, out)

calls `func` with its arguments in order; tensors are NumPy arrays, written in place. Lowering and code generation are
tested against this interpreter, so it is strict: an index outside its dimension, a block variable outside its domain,
or a division by zero is an error, and fresh storage holds garbage (NaN). Blocks are executed without lowering; an empty
reduction still runs the block's init.

Statements that store many elements run in lockstep (`relax.tir.lockstep`), with the same results and errors; other
statements, and those that fail in lockstep, run here one step at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from ..ir import GlobalVar, IRModule
from ..prim import Call, PrimExpr, Var, const
from ..runtime.messages import KIND, NO_SIZE, counted_arguments
from ..runtime.sizes import is_size
from . import lockstep
from .arguments import CheckedArguments
from .assertion import shown_sizes
from .buffer import Buffer, IterVar, element_count
from .empty_reductions import reduces, reductions
from .evaluation import Env, ExpressionCompiler, Externs, Value, View, flat_memory, garbage, lanes_of
from .signature import signature_of
from .statements import conjuncts
from .stmt import (
    AllocBuffer,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    MatchBufferRegion,
    PrimFunc,
    SeqStmt,
    Stmt,
    While,
)
from .usage import free_vars

Array = np.ndarray[Any, Any]
Run = Callable[[Env], None]


def interpret(
    func: PrimFunc,
    *args: Any,
    module: IRModule | None = None,
    externs: Externs | None = None,
    reverse_parallel: bool = False,
) -> None:
    """Run a PrimFunc on NumPy arrays and Python scalars, one per parameter.

    `module` holds the functions it calls, `externs` those of call_extern and call_packed by name. With
    `reverse_parallel`, parallel and vectorised loops run backwards: a changed result shows a dependence on their order.
    Raises TypeError or ValueError for arguments that do not fit, and IndexError, ZeroDivisionError or AssertionError
    for errors of the program.
    """
    executable(func, module=module, externs=externs, reverse_parallel=reverse_parallel)(args)


def executable(
    func: PrimFunc,
    *,
    module: IRModule | None = None,
    externs: Externs | None = None,
    reverse_parallel: bool = False,
    name: str = "main",
) -> Callable[[Sequence[Any]], None]:
    """Compile a function for any number of calls with a sequence of arguments; see `interpret`.

    `name` denotes a function without a global_symbol in messages.
    """
    prepared = _Compiler(module, {} if externs is None else externs, reverse_parallel).function(func, name)

    def run(args: Sequence[Any]) -> None:
        with np.errstate(all="ignore"):
            prepared(args)

    return run


def _nothing(env: Env) -> None:
    return None


class _Compiler(ExpressionCompiler):
    """Compile statements to Python closures over the environment."""

    def __init__(self, module: IRModule | None, externs: Externs, reverse_parallel: bool) -> None:
        super().__init__(externs)
        self.module = module
        self.reverse = reverse_parallel
        self.small = False
        """True while parts of a statement are compiled that stores too few elements for lockstep execution."""
        self.functions: dict[str, Callable[[Sequence[Any]], None]] = {}
        self.owners: dict[Var, str] = {}
        """Name of the buffer that owns the memory of a data variable."""
        self.buffers: dict[Var, Buffer] = {}
        """Parameter or allocation that a data variable denotes when it is an argument."""

    # ------------------------------------------------------------------ functions

    def function(self, func: PrimFunc, name: str) -> Callable[[Sequence[Any]], None]:
        """Compile a function to a closure over a sequence of arguments."""
        name = str(func.attrs.get("global_symbol", name))
        bind = self.binder(func, name)
        with self.exactly(bool(func.attrs.get("tir.is_host_func"))):
            body = self.stmt(func.body)
        for precondition in reversed(func.preconditions):
            body = self.checked(precondition.condition, precondition.message, body)

        def run(args: Sequence[Any]) -> None:
            body(bind(args))

        return run

    def global_function(self, name: str) -> Callable[[Sequence[Any]], None]:
        """Return a compiled function of the module, by name."""
        if name not in self.functions:
            callee = None if self.module is None else self.module.get(name)
            if not isinstance(callee, PrimFunc):
                raise ValueError(f"interpret: the function {name} is not in the module")
            self.functions[name] = lambda args: self.functions[name](args)  # it may call itself
            self.functions[name] = self.function(callee, name)
        return self.functions[name]

    def binder(self, func: PrimFunc, name: str) -> Callable[[Sequence[Any]], Env]:
        signature = signature_of(func)
        buffers = func.buffer_map.values()
        self.owners.update((buffer.data, buffer.name) for buffer in buffers)
        self.buffers.update((buffer.data, buffer) for buffer in buffers)
        layouts = {buffer: self.layout(buffer) for buffer in buffers}
        sizes = {size: self.size(size) for _, size in signature.compared}

        def bind(args: Sequence[Any]) -> Env:
            if len(args) != len(signature.params):
                raise KIND(context=name, expected=counted_arguments(len(signature.params)), found=len(args))
            matching = CheckedArguments(signature, name, args, sizes)
            matching.match()
            env = matching.env
            for (_, buffer), arg in zip(signature.params, args, strict=True):
                if buffer is not None:
                    env[buffer.data] = memory = flat_memory(arg, matching.who(buffer))
                    env[buffer] = layouts[buffer](env, memory)
            return env

        return bind

    def argument(self, expr: PrimExpr) -> Value:
        """Compile an argument; the data variable of a buffer becomes the buffer's array."""
        buffer = self.buffers.get(expr) if isinstance(expr, Var) else None
        if buffer is None:
            return self.expr(expr)
        return lambda env: cast(View, env[buffer]).array()

    def parallel(self, call: Call) -> Value:
        """Compile a parallel loop: one call for all iterations; with `reverse`, one call per iteration, backwards."""
        whole = self.call(call)
        if not self.reverse:
            return whole
        args = [self.argument(arg) for arg in call.args]
        callee = cast(GlobalVar, call.op).name_hint

        def run(env: Env) -> None:
            begin, end, *captures = (arg(env) for arg in args)
            for i in reversed(range(begin, end)):
                self.global_function(callee)([i, i + 1, *captures])

        return run

    # ------------------------------------------------------------------ statements

    def stmt(self, stmt: Stmt) -> Run:
        """Compile a statement, for lockstep execution if that is possible and expected to be faster."""
        if self.small or self.exact or isinstance(stmt, (BufferStore, Evaluate, AssertStmt)):
            return self.by_steps(stmt)
        gain, count = lockstep.gain(stmt, self.expr)
        if gain >= lockstep.LEAST:
            return self.large(stmt)
        small = self.in_small(stmt)
        return small if count is None else _by_gain(count, small, lambda: self.large(stmt))

    def large(self, stmt: Stmt) -> Run:
        """Compile a statement that stores many elements, for lockstep execution if possible."""
        run = lockstep.in_lockstep(stmt, self.reverse, self.by_steps)
        return self.by_steps(stmt) if run is None else run

    def in_small(self, stmt: Stmt) -> Run:
        """Compile a statement that stores few elements."""
        self.small = True
        try:
            return self.by_steps(stmt)
        finally:
            self.small = False

    def by_steps(self, stmt: Stmt) -> Run:
        """Compile a statement without lockstep execution: its iterations run one after the other."""
        match stmt:
            case SeqStmt(seq):
                return _sequence([self.stmt(s) for s in seq])
            case BufferStore():
                return self.store(stmt)
            case For():
                return self.loop(stmt)
            case BlockRealize():
                return self.block(stmt)
            case IfThenElse(condition, then_case, else_case):
                return _branch(
                    self.expr(condition), self.stmt(then_case), _nothing if else_case is None else self.stmt(else_case)
                )
            case LetStmt(var, value, body):
                return _let(var, self.expr(value), self.stmt(body))
            case While(condition, body):
                return _while(self.expr(condition), self.stmt(body))
            case AssertStmt(condition, message, body):
                return self.checked(condition, message, self.stmt(body))
            case AllocBuffer(buffer, body):
                return _then(self.allocation(buffer), self.stmt(body))
            case DeclBuffer(buffer, body):
                return _then(self.declaration(buffer), self.stmt(body))
            case AttrStmt(IterVar() as thread, "thread_extent", extent, body):
                zero = self.expr(const(0, extent.dtype))
                return _plain_loop(thread.var, zero, self.expr(extent), self.stmt(body))
            case AttrStmt(_, _, _, body):
                return self.stmt(body)
            case Evaluate(value):
                return self.expr(value)
            case _:
                raise TypeError(f"interpret: cannot run a {type(stmt).__name__}")

    def checked(self, condition: PrimExpr, message: str, body: Run) -> Run:
        """Compile a check: run `body` if the condition holds, else raise AssertionError."""
        shown = [(var.name, self.expr(var)) for var in shown_sizes(condition)]
        return _assert(self.expr(condition), message, shown, body)

    def store(self, stmt: BufferStore) -> Run:
        buffer = stmt.buffer
        indices = [self.expr(index) for index in stmt.indices]
        value = self.expr(stmt.value)
        count = stmt.indices[-1].dtype.lanes if stmt.indices else 1
        active = None if stmt.predicate is None else self.expr(stmt.predicate)

        def run(env: Env) -> None:
            view: View = env[buffer]
            where = [index(env) for index in indices]
            result = value(env)
            if count == 1:
                view.store(where, result)
                return
            lanes = view.lanes
            writes = [True] * count if active is None else active(env)
            for lane, position in enumerate(lanes_of(where, count)):
                item = result[lane] if lanes == 1 else result[lane * lanes : (lane + 1) * lanes]
                if writes[lane]:
                    view.store(position, item)

        return run

    def loop(self, stmt: For) -> Run:
        low, extent = self.expr(stmt.min), self.expr(stmt.extent)
        body = self.stmt(stmt.body)
        reduced = any(reduces(stmt, realize) for realize in reductions(stmt.body))
        starts = self.starts_only(stmt) if reduced else _nothing
        var, dtype = stmt.loop_var, stmt.loop_var.dtype
        backwards = self.reverse and stmt.kind in (ForKind.PARALLEL, ForKind.VECTORIZED)

        def run(env: Env) -> None:
            first, count = low(env), extent(env)
            if count <= 0:
                starts(env)
                return
            if first + count - 1 > dtype.max_value:
                raise OverflowError(f"loop {var.name}: {first + count - 1} does not fit {dtype!s}")
            steps = range(first, first + count)
            for i in reversed(steps) if backwards else steps:
                env[var] = i
                body(env)

        return run

    def block(self, stmt: BlockRealize) -> Run:
        block = stmt.block
        bind, check = self.block_variables(stmt), self.domain_check(block)
        predicate = self.expr(stmt.predicate)
        storage = _sequence(
            [self.allocation(buffer) for buffer in block.alloc_buffers]
            + [self.match(match) for match in block.match_buffers]
        )
        init = None if block.init is None else self.stmt(block.init)
        body = self.stmt(block.body)
        starts = self.reduce_starts(block)

        def run(env: Env) -> None:
            bind(env)
            if not predicate(env):
                return
            check(env)
            storage(env)
            if init is not None and starts(env):
                init(env)
            body(env)

        return run

    def reduce_starts(self, block: Block) -> Callable[[Env], bool]:
        """Return a closure that tests whether every reduction variable of a block is at its start."""
        lows = [(v.var, self.expr(v.dom.min)) for v in block.iter_vars if v.iter_type == "reduce" and v.dom is not None]
        return lambda env: all(env[var] == low(env) for var, low in lows)

    def block_variables(self, stmt: BlockRealize) -> Run:
        """Return a closure that binds the block's variables."""
        variables = [iter_var.var for iter_var in stmt.block.iter_vars]
        values = [self.expr(value) for value in stmt.iter_values]

        def bind(env: Env) -> None:
            env.update(zip(variables, [value(env) for value in values], strict=True))

        return bind

    def domain_check(self, block: Block) -> Run:
        """Return a closure that raises IndexError if a variable of the block is outside of its domain."""
        limits = [
            (iter_var.var, self.expr(iter_var.dom.min), self.expr(iter_var.dom.extent))
            for iter_var in block.iter_vars
            if iter_var.dom is not None
        ]

        def check(env: Env) -> None:
            for var, start, count in limits:
                value, low, extent = env[var], start(env), count(env)
                if not low <= value < low + extent:
                    raise IndexError(
                        f"block {block.name_hint}: {var.name} is {value}, outside of [{low}, {low + extent})"
                    )

        return check

    # ------------------------------------------------------------------ reductions over nothing

    def starts_only(self, stmt: Stmt) -> Run:
        """Compile only the inits of the reduction blocks below `stmt`, for reduction loops without iterations."""
        return _sequence([self.start_of(realize, stmt) for realize in reductions(stmt)])

    def start_of(self, target: BlockRealize, stmt: Stmt, reducing: frozenset[Var] = frozenset()) -> Run:
        """Compile the init of the block `target` below `stmt`, inside the loops that do not reduce. `reducing` holds
        the other loops' variables.
        """
        match stmt:
            case For() if reduces(stmt, target):
                inner = self.start_of(target, stmt.body, reducing | {stmt.loop_var})
                return _let(stmt.loop_var, self.expr(stmt.min), inner)
            case For():
                low, extent = self.expr(stmt.min), self.expr(stmt.extent)
                return _plain_loop(stmt.loop_var, low, extent, self.start_of(target, stmt.body, reducing))
            case SeqStmt(seq):
                return _sequence([self.start_of(target, s, reducing) for s in seq if target in reductions(s)])
            case IfThenElse(condition, then_case, _):
                return _branch(self.expr(condition), self.start_of(target, then_case, reducing), _nothing)
            case LetStmt(var, value, body):
                return _let(var, self.expr(value), self.start_of(target, body, reducing))
            case BlockRealize(_, predicate, Block(init=init)) if init is not None:
                kept = [self.expr(c) for c in conjuncts(predicate) if not reducing.intersection(free_vars(c))]
                return self.start_of_block(stmt, kept, self.stmt(init))
            case _:
                return _nothing

    def start_of_block(self, stmt: BlockRealize, kept: list[Value], init: Run) -> Run:
        """Compile the init of a block; it runs where `kept` holds and the axes of the empty reduction are at their
        starts.
        """
        rows: list[tuple[Var, Value]] = []
        axes: list[tuple[Var, Value, Value]] = []
        for iter_var, value in zip(stmt.block.iter_vars, stmt.iter_values, strict=True):
            if iter_var.iter_type == "reduce" and iter_var.dom is not None:
                axes.append((iter_var.var, self.expr(value), self.expr(iter_var.dom.min)))
            else:
                rows.append((iter_var.var, self.expr(value)))

        def run(env: Env) -> None:
            env.update([(var, value(env)) for var, value in rows])
            if all(condition(env) for condition in kept) and all(_starts(env, *axis) for axis in axes):
                init(env)

        return run

    # ------------------------------------------------------------------ storage

    def layout(self, buffer: Buffer) -> Callable[[Env, Array], View]:
        """Return a closure that views memory as `buffer`, with sizes from the environment."""
        shape = [self.size(size) for size in buffer.shape]
        strides = [self.expr(stride) for stride in buffer.strides]
        offset = None if buffer.elem_offset is None else self.expr(buffer.elem_offset)
        dtype, name = buffer.dtype, buffer.name

        def view(env: Env, memory: Array) -> View:
            sizes = [size(env) for size in shape]
            return View(
                name,
                dtype,
                memory,
                sizes,
                [stride(env) for stride in strides] if strides else None,
                0 if offset is None else offset(env),
            )

        return view

    def allocation(self, buffer: Buffer) -> Run:
        layout = self.layout(buffer)
        shape = [self.size(size) for size in buffer.shape]
        count = self.size(buffer.shape[0] * buffer.strides[0] if buffer.strides else element_count(buffer))
        self.owners[buffer.data] = buffer.name
        self.buffers[buffer.data] = buffer

        def run(env: Env) -> None:
            for axis, size in enumerate(shape):
                value = size(env)
                if not is_size(value):
                    context = f"buffer {buffer.name}"
                    raise NO_SIZE(context=context, place=f"dimension {axis}", found=value)
            memory = garbage(buffer.dtype, max(count(env), 0) * buffer.dtype.lanes)
            env[buffer.data] = memory
            env[buffer] = view = layout(env, memory)
            view.require_inside(f"buffer {buffer.name}")

        return run

    def declaration(self, buffer: Buffer) -> Run:
        layout = self.layout(buffer)
        owner = self.owners.get(buffer.data, buffer.data.name)

        def run(env: Env) -> None:
            memory = env[buffer.data]
            if memory is None:
                raise ValueError(f"buffer {buffer.name}: the pointer {buffer.data.name} is null")
            env[buffer] = view = layout(env, memory)
            view.require_inside(f"buffer {buffer.name}, a view of {owner},")

        return run

    def match(self, match: MatchBufferRegion) -> Run:
        buffer, region = match.buffer, match.source
        corners = [self.expr(r.min) for r in region.region]
        sizes = [self.expr(r.extent) for r in region.region]
        layout = self.layout(buffer)
        self.owners[buffer.data] = self.owners.get(region.buffer.data, region.buffer.name)

        def run(env: Env) -> None:
            source: View = env[region.buffer]
            start = source.offset + sum(c(env) * s for c, s in zip(corners, source.strides, strict=True))
            skipped = len(sizes) - len(buffer.shape)
            strides = source.strides[skipped:]
            extents = [size(env) for size in sizes[skipped:]]
            for name, value in [
                *zip(buffer.shape, extents, strict=True),
                *zip(buffer.strides, strides, strict=False),
                (buffer.elem_offset, start),
            ]:
                if isinstance(name, Var):
                    env[name] = value
            view = layout(env, source.memory)
            if view.shape != extents:
                raise ValueError(f"match_buffer {buffer.name}: the region is {extents}, expected {view.shape}")
            env[buffer.data] = source.memory
            env[buffer] = View(buffer.name, buffer.dtype, source.memory, extents, list(strides), start)

        return run


# ---------------------------------------------------------------------------------------------- pieces


def _sequence(steps: list[Run]) -> Run:
    if len(steps) == 1:
        return steps[0]

    def run(env: Env) -> None:
        for step in steps:
            step(env)

    return run


def _by_gain(gain: Callable[[Env], int], small: Run, prepare: Callable[[], Run]) -> Run:
    """Run `small`, or from the first run with enough gain on, the statement that `prepare` compiles."""
    large: list[Run] = []

    def run(env: Env) -> None:
        if gain(env) < lockstep.LEAST:
            small(env)
            return
        if not large:
            large.append(prepare())
        large[0](env)

    return run


def _then(first: Run, second: Run) -> Run:
    return _sequence([first, second])


def _branch(condition: Callable[[Env], Any], yes: Run, no: Run) -> Run:
    return lambda env: yes(env) if condition(env) else no(env)


def _let(var: Var, value: Callable[[Env], Any], body: Run) -> Run:
    def run(env: Env) -> None:
        env[var] = value(env)
        body(env)

    return run


def _while(condition: Callable[[Env], Any], body: Run) -> Run:
    def run(env: Env) -> None:
        while condition(env):
            body(env)

    return run


def _assert(
    condition: Callable[[Env], Any], message: str, shown: Sequence[tuple[str, Callable[[Env], Any]]], body: Run
) -> Run:
    def run(env: Env) -> None:
        if not condition(env):
            values = ", ".join(f"{name} = {int(value(env))}" for name, value in shown)
            raise AssertionError(message + f" ({values})" * bool(shown))
        body(env)

    return run


def _plain_loop(var: Var, low: Callable[[Env], Any], extent: Callable[[Env], Any], body: Run) -> Run:
    def run(env: Env) -> None:
        first = low(env)
        for i in range(first, first + extent(env)):
            env[var] = i
            body(env)

    return run


def _starts(env: Env, var: Var, value: Value, low: Value) -> bool:
    """True if a reduction axis is at its start, or its value is undefined in an empty loop (``f // 0``)."""
    env[var] = low(env)
    try:
        return bool(value(env) == env[var])
    except ZeroDivisionError:
        return True
