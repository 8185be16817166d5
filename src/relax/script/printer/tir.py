"""Printing of TIR: functions, statements, blocks."""

from __future__ import annotations

from typing import Any

from ...ir import Node, structural_equal, walk
from ...prim import expr as prim
from ...tir.buffer import Buffer, IterVar, Range
from ...tir.stmt import (
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
    Precondition,
    PrimFunc,
    SeqStmt,
    Stmt,
    While,
)
from .core import Printer, Text, prints, prints_statement
from .literals import string, value_text
from .scalar import buffer_name, dtype_function, explicit, indices, sum_text

_LOOPS = {
    ForKind.SERIAL: "serial",
    ForKind.PARALLEL: "parallel",
    ForKind.VECTORIZED: "vectorized",
    ForKind.UNROLLED: "unroll",
    ForKind.THREAD_BINDING: "thread_binding",
}


# ---------------------------------------------------------------------- buffers


@prints(Buffer)
def _buffer(p: Printer, node: Buffer) -> Text:
    return Text(buffer_name(p, node))


def buffer_type(p: Printer, buffer: Buffer, dtype: bool = False, scope: bool = False) -> str:
    """Arguments that describe a buffer: shape, and non-default (or requested) properties."""
    dims = [_size(p, value) for value in buffer.shape]
    shape = f"({dims[0]},)" if len(dims) == 1 else f"({', '.join(dims)})"
    arguments = [shape]
    if buffer.dtype != "float32" or dtype:
        arguments.append(string(str(buffer.dtype)))
    if buffer.strides:
        strides = [_size(p, value) for value in buffer.strides]
        arguments.append(f"strides=({', '.join(strides)}{',' if len(strides) == 1 else ''})")
    if buffer.elem_offset is not None:
        arguments.append(f"elem_offset={p.text(buffer.elem_offset)}")
    if p.is_declared(buffer.data):
        arguments.append(f"data={p.text(buffer.data)}")
    if buffer.scope != "global" or scope:
        arguments.append(f"scope={string(buffer.scope)}")
    if buffer.data_alignment != 64:
        arguments.append(f"align={buffer.data_alignment}")
    if buffer.offset_factor != 1:
        arguments.append(f"offset_factor={buffer.offset_factor}")
    if buffer.axis_separators:
        arguments.append(f"axis_separators={list(buffer.axis_separators)}")
    return ", ".join(arguments)


def _size(p: Printer, value: Any) -> str:
    """Text of a buffer's size, in which an int64 literal is plain."""
    if isinstance(value, prim.IntImm) and value.dtype == "int64":
        return str(value.value)
    return p.text(value)


def declare_buffer(p: Printer, buffer: Buffer) -> str:
    """Name of a buffer being defined; its data variable is printed through it."""
    name = buffer_name(p, buffer)
    if not p.is_declared(buffer.data):
        p.data_owners[id(buffer.data)] = name
        p.declare(buffer.data)
    return name


# ---------------------------------------------------------------------- functions


def prim_func(p: Printer, node: PrimFunc, name: str, symbol: str | None = None) -> None:
    """Print a PrimFunc as a decorated ``def``; `symbol` is its true name if the ``def`` cannot have it."""
    attrs = dict(node.attrs)
    options: list[str] = []
    if symbol is not None and symbol != name:
        options.append(f"name={string(symbol)}")
    if attrs.get("global_symbol") == (symbol or name):
        del attrs["global_symbol"]
    elif "global_symbol" not in attrs:
        options.append("private=True")
    p.line(f"@{p.T('prim_func')}" + (f"({', '.join(options)})" if options else ""))
    with p.scope():
        matched: list[tuple[str, Buffer]] = []
        params: list[str] = []
        used = set[int]().union(*map(_variables, (*node.preconditions, node.body)))
        for param in node.params:
            buffer = node.buffer_map.get(param)
            if buffer is not None and _is_simple(buffer) and id(param) not in used:
                kind = f"{p.T('Buffer')}({buffer_type(p, buffer, dtype=True)})"
                params.append(f"{declare_buffer(p, buffer)}: {kind}")
            else:
                param_name = p.names.name_of(param, param.name, "arg")
                p.declare(param)
                params.append(f"{param_name}: {p.T(dtype_function(param))}")
                if buffer is not None:
                    matched.append((param_name, buffer))
        returns = "" if node.ret_type is None else f" -> {p.T(str(node.ret_type))}"
        p.line(f"def {name}({', '.join(params)}){returns}:")
        with p.indented():
            if attrs:
                p.line(f"{p.T('func_attr')}({value_text(p, attrs)})")
            for param_name, buffer in matched:
                arguments = buffer_type(p, buffer, dtype=True)
                p.line(f"{declare_buffer(p, buffer)} = {p.T('match_buffer')}({param_name}, {arguments})")
            for precondition in node.preconditions:
                p.statement(precondition)
            _threads(p, node.body)
            _function_body(p, node.body)


def _threads(p: Printer, body: Node) -> None:
    """Declare the device threads that a function's body launches."""
    threads: dict[prim.Var, IterVar] = {}

    def visit(item: Node) -> None:
        if isinstance(item, AttrStmt) and isinstance(item.node, IterVar) and item.node.iter_type == "thread":
            threads.setdefault(item.node.var, item.node)

    walk(body, visit)
    for var, thread in threads.items():
        if thread.dom is None and var.dtype == "int32":
            p.line(f"{_define(p, var)} = {p.T('env_thread')}({string(thread.thread_tag)})")


def _variables(body: Node) -> set[int]:
    """Ids of the variables used by statements."""
    ids: set[int] = set()

    def visit(item: Node) -> None:
        if isinstance(item, prim.Var):
            ids.add(id(item))

    walk(body, visit)
    return ids


def _function_body(p: Printer, body: Stmt) -> None:
    """Print the body; a root block that the parser would recreate is omitted."""
    root = body.block if isinstance(body, BlockRealize) else None
    if root is None or not _is_implied(root) or not prim.is_const(body.predicate, 1):  # type: ignore[attr-defined]
        _body(p, body)
        return
    if root.annotations:
        p.line(f"{p.T('block_attr')}({value_text(p, root.annotations)})")
    for buffer in root.alloc_buffers:
        arguments = buffer_type(p, buffer)
        p.line(f"{declare_buffer(p, buffer)} = {p.T('alloc_buffer')}({arguments})")
    _body(p, root.body)


def _is_implied(root: Block) -> bool:
    """True if the parser would create this very root block around its body."""
    if root.iter_vars or root.reads or root.writes or root.match_buffers or root.init is not None:
        return False
    if root.name_hint != "root":
        return False
    if root.alloc_buffers or root.annotations:
        return True
    body = root.body
    if isinstance(body, BlockRealize) and not body.block.iter_vars:
        return False
    has_block = False

    def visit(item: Node) -> bool:
        nonlocal has_block
        has_block = has_block or isinstance(item, BlockRealize)
        return not has_block and not isinstance(item, prim.PrimExpr)

    walk(body, visit)
    return has_block


def _is_simple(buffer: Buffer) -> bool:
    """True if a parameter can be declared as T.Buffer: its shape uses no variable."""
    offset = () if buffer.elem_offset is None else (buffer.elem_offset,)
    return all(isinstance(size, prim.IntImm) for size in (*buffer.shape, *buffer.strides, *offset))


@prints_statement(Precondition)
def _precondition(p: Printer, node: Precondition) -> None:
    p.line(f"{p.T('precondition')}({p.text(node.condition)}, {string(node.message)})")


@prints_statement(PrimFunc)
def _prim_func(p: Printer, node: PrimFunc) -> None:
    symbol = node.attrs.get("global_symbol")
    prim_func(p, node, p.config.name or (symbol if isinstance(symbol, str) and symbol.isidentifier() else "main"))


# ---------------------------------------------------------------------- statements


def _body(p: Printer, node: Stmt) -> None:
    """Print the statements of a Python block; `pass` for none."""
    start = len(p.lines)
    p.statement(node)
    if all(not line.strip() or line.lstrip().startswith("#") for line in p.lines[start:]):
        p.line("pass")


def _indented_body(p: Printer, node: Stmt) -> None:
    with p.indented(), p.scope():
        _body(p, node)


@prints_statement(SeqStmt)
def _seq(p: Printer, node: SeqStmt) -> None:
    for i, item in enumerate(node.seq):
        last = i == len(node.seq) - 1
        if last or not isinstance(item, _OPEN):
            p.statement(item)
        else:
            _closed(p, item)


@prints_statement(BufferStore)
def _store(p: Printer, node: BufferStore) -> None:
    name, subscripts = buffer_name(p, node.buffer), indices(p, node.indices)
    if node.predicate is not None:
        predicate = p.text(node.predicate)
        p.line(f"{name}.vstore([{subscripts}], {explicit(p, node.value).text}, predicate={predicate})")
    else:
        p.line(f"{name}[{subscripts}] = {p.text(node.value)}")


@prints_statement(Evaluate)
def _evaluate(p: Printer, node: Evaluate) -> None:
    if isinstance(node.value, prim.Call):
        p.line(p.text(node.value))
    else:
        p.line(f"{p.T('evaluate')}({p.text(node.value)})")


@prints_statement(For)
def _for(p: Printer, node: For) -> None:
    loops: list[For] = [node]
    while _in_grid(loops[-1]) and isinstance(loops[-1].body, For) and _in_grid(loops[-1].body):
        inner = loops[-1].body
        if p.is_marked(inner) or any(_mentions(inner.extent, loop.loop_var) for loop in loops):
            break
        loops.append(inner)
    with p.scope():
        if len(loops) > 1:
            extents = ", ".join(p.text(loop.extent) for loop in loops)
            header = f"{p.T('grid')}({extents})"
        else:
            header = _loop(p, node)
        names: list[str] = []
        for loop in loops:
            names.append(p.names.name_of(loop.loop_var, loop.loop_var.name, "i"))
            p.declare(loop.loop_var)
            p.loops[id(loop.loop_var)] = Range.from_min_extent(loop.min, loop.extent)
        p.line(f"for {', '.join(names)} in {header}:")
        _indented_body(p, loops[-1].body)


def _in_grid(node: For) -> bool:
    plain = node.kind is ForKind.SERIAL and not node.annotations and not node.thread_binding
    return plain and prim.is_const(node.min, 0) and node.extent.dtype == node.loop_var.dtype


def _mentions(expr: prim.PrimExpr, var: prim.Var) -> bool:
    mentioned = False

    def visit(item: Node) -> None:
        nonlocal mentioned
        mentioned = mentioned or item is var

    walk(expr, visit)
    return mentioned


def _loop(p: Printer, node: For) -> str:
    arguments = [p.text(node.extent)]
    plain = node.kind is ForKind.SERIAL and not node.annotations and not node.thread_binding
    if not prim.is_const(node.min, 0):
        arguments = [p.text(node.min), sum_text(p, node.min, node.extent)]
    if node.thread_binding:
        arguments.append(f"thread={string(node.thread_binding)}")
    if node.annotations:
        arguments.append(f"annotations={value_text(p, node.annotations)}")
    if plain:
        return f"range({', '.join(arguments)})"
    return f"{p.T(_LOOPS[node.kind])}({', '.join(arguments)})"


@prints_statement(While)
def _while(p: Printer, node: While) -> None:
    p.line(f"while {p.text(node.condition)}:")
    _indented_body(p, node.body)


@prints_statement(IfThenElse)
def _if(p: Printer, node: IfThenElse) -> None:
    p.line(f"if {p.text(node.condition)}:")
    _indented_body(p, node.then_case)
    if node.else_case is not None:
        p.line("else:")
        _indented_body(p, node.else_case)


# Statements whose body is the rest of the Python block.


@prints_statement(LetStmt)
def _let(p: Printer, node: LetStmt) -> None:
    value = explicit(p, node.value).text
    name = p.names.name_of(node.var, node.var.name)
    p.declare(node.var)
    p.line(f"{name}: {p.T(dtype_function(node.var))} = {value}")
    p.statement(node.body)


@prints_statement(AssertStmt)
def _assert(p: Printer, node: AssertStmt) -> None:
    p.line(f"assert {p.text(node.condition)}, {string(node.message)}")
    p.statement(node.body)


@prints_statement(AttrStmt)
def _attr(p: Printer, node: AttrStmt) -> None:
    p.line(_attr_call(p, node))
    p.statement(node.body)


def _attr_call(p: Printer, node: AttrStmt) -> str:
    if isinstance(node.node, IterVar) and node.attr_key == "thread_extent" and p.is_declared(node.node.var):
        return f"{p.T('launch_thread')}({p.text(node.node.var)}, {p.text(node.value)})"
    value = explicit(p, node.value).text
    return f"{p.T('attr')}({value_text(p, node.node)}, {string(node.attr_key)}, {value})"


@prints_statement(AllocBuffer)
def _alloc(p: Printer, node: AllocBuffer) -> None:
    call = _alloc_call(p, node)
    p.line(f"{declare_buffer(p, node.buffer)} = {call}")
    p.statement(node.body)


def _alloc_call(p: Printer, node: AllocBuffer) -> str:
    notes = f", annotations={value_text(p, node.annotations)}" if node.annotations else ""
    return f"{p.T('allocate')}({buffer_type(p, node.buffer)}{notes})"


@prints_statement(DeclBuffer)
def _decl(p: Printer, node: DeclBuffer) -> None:
    p.line(f"{buffer_name(p, node.buffer)} = {_decl_call(p, node)}")
    p.statement(node.body)


def _decl_call(p: Printer, node: DeclBuffer) -> str:
    arguments = buffer_type(p, node.buffer)
    if not p.is_declared(node.buffer.data):
        arguments += f", data={p.text(node.buffer.data)}"
    return f"{p.T('decl_buffer')}({arguments})"


_OPEN = (LetStmt, AssertStmt, AttrStmt, AllocBuffer, DeclBuffer)


def _closed(p: Printer, node: Any) -> None:
    """Print a statement whose body ends before the Python block does."""
    match node:
        case LetStmt():
            value = explicit(p, node.value).text
            name = p.names.name_of(node.var, node.var.name)
            header = f"{p.T('LetStmt')}({value}) as {name}"
            declared: Any = node.var
        case AllocBuffer():
            header, declared = f"{_alloc_call(p, node)} as {declare_buffer(p, node.buffer)}", None
        case DeclBuffer():
            header, declared = f"{_decl_call(p, node)} as {buffer_name(p, node.buffer)}", None
        case AttrStmt():
            header, declared = _attr_call(p, node), None
        case _:
            header = f"{p.T('Assert')}({p.text(node.condition)}, {string(node.message)})"
            declared = None
    p.line(f"with {header}:")
    with p.indented(), p.scope():
        if declared is not None:
            p.declare(declared)
        _body(p, node.body)


# ---------------------------------------------------------------------- blocks


@prints_statement(BlockRealize)
def _realize(p: Printer, node: BlockRealize) -> None:
    block = node.block
    p.line(f"with {p.T('block')}({string(block.name_hint) if block.name_hint else ''}):")
    with p.indented(), p.scope():
        start = len(p.lines)
        _axes(p, node)
        if not prim.is_const(node.predicate, 1):
            p.line(f"{p.T('where')}({p.text(node.predicate)})")
        _block_body(p, block, start)


@prints_statement(Block)
def _block(p: Printer, node: Block) -> None:
    values = tuple(item.var for item in node.iter_vars)
    _realize(p, BlockRealize(values, True, node))


def _block_body(p: Printer, block: Block, start: int) -> None:
    p.line(f"{p.T('reads')}({', '.join(p.text(region) for region in block.reads)})")
    p.line(f"{p.T('writes')}({', '.join(p.text(region) for region in block.writes)})")
    if block.annotations:
        p.line(f"{p.T('block_attr')}({value_text(p, block.annotations)})")
    for buffer in block.alloc_buffers:
        arguments = buffer_type(p, buffer)
        p.line(f"{declare_buffer(p, buffer)} = {p.T('alloc_buffer')}({arguments})")
    for match in block.match_buffers:
        p.statement(match)
    if block.init is not None:
        p.line(f"with {p.T('init')}():")
        _indented_body(p, block.init)
    _body(p, block.body)


@prints_statement(MatchBufferRegion)
def _match(p: Printer, node: MatchBufferRegion) -> None:
    source = p.text(node.source)
    arguments = buffer_type(p, node.buffer, dtype=True, scope=True)
    p.line(f"{declare_buffer(p, node.buffer)} = {p.T('match_buffer')}({source}, {arguments})")


def _axes(p: Printer, node: BlockRealize) -> None:
    iters = list(zip(node.block.iter_vars, node.iter_values, strict=True))
    kinds = {"spatial": "S", "reduce": "R"}
    remapped = len(iters) > 1 and all(
        isinstance(value, prim.Var) and item.iter_type in kinds and _spans_loop(p, item.dom, value)
        for item, value in iters
    )
    if remapped:
        letters = "".join(kinds[item.iter_type] for item, _ in iters)
        values = ", ".join(p.text(value) for _, value in iters)
        names = [_define(p, item.var) for item, _ in iters]
        p.line(f'{", ".join(names)} = {p.T("axis.remap")}("{letters}", [{values}])')
        return
    for item, value in iters:
        dom = _domain(p, item.dom)
        text = p.text(value)
        p.line(f"{_define(p, item.var)} = {p.T(f'axis.{item.iter_type}')}({dom}, {text})")


def _define(p: Printer, var: prim.Var) -> str:
    name = p.names.name_of(var, var.name)
    p.declare(var)
    return name


def _domain(p: Printer, dom: Range | None) -> str:
    if dom is None:
        return "None"
    if prim.is_const(dom.min, 0):
        return p.text(dom.extent)
    return f"({p.text(dom.min)}, {sum_text(p, dom.min, dom.extent)})"


def _spans_loop(p: Printer, dom: Range | None, value: prim.PrimExpr) -> bool:
    """True if a block variable ranges over the whole loop of its loop variable."""
    loop = p.loops.get(id(value))
    return loop is not None and dom is not None and structural_equal(dom, loop)
