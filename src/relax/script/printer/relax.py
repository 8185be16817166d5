"""Printing of Relax: leaves, bindings, blocks, functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...expr import (
    BindingBlock,
    DataflowBlock,
    DataflowVar,
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
    VarBinding,
)
from ...ir import GlobalVar, RelaxExpr, structural_equal
from ...ir.sharing import is_large
from ...prim import expr as prim
from .core import NAMED_PLACES, Printer, Text, prints, prints_statement
from .literals import number, string, value_text
from .struct_info import dimension

# ---------------------------------------------------------------------- leaves


@prints(Var, DataflowVar)
def _var(p: Printer, node: Var) -> Text:
    return Text(var_name(p, node))


def var_name(p: Printer, node: Any) -> str:
    """Name of a Relax variable."""
    return p.names.name_of(node, node.name_hint, "lv" if isinstance(node, DataflowVar) else "gv")


@prints(GlobalVar)
def _global_var(p: Printer, node: GlobalVar) -> Text:
    name = p.function_names.get(node.name_hint, node.name_hint)
    if p.in_module and name.isidentifier() and not name.startswith("_"):
        p.mentions_module = True
        return Text(f"{p.module_name}.{name}")
    return Text(f"{p.I('GlobalVar')}({string(node.name_hint)})")


@prints(ShapeExpr)
def _shape(p: Printer, node: ShapeExpr) -> Text:
    return Text(f"{p.R('shape')}([{', '.join(dimension(p, value) for value in node.values)}])")


@prints(PrimValue)
def _prim_value(p: Printer, node: PrimValue) -> Text:
    value = node.value
    if isinstance(value, prim.IntImm) and (value.dtype == "int64" or value.dtype.is_bool):
        text = str(bool(value.value) if value.dtype.is_bool else value.value)
    elif isinstance(value, prim.FloatImm) and value.dtype == "float64":
        text = number(value.value)
    elif isinstance(value, prim.IntImm) and value.dtype == "int32":
        text = f"{p.T('int32')}({value.value})"
    else:
        text = p.text(value)
    return Text(f"{p.R('prim_value')}({text})")


@prints(StringImm)
def _string(p: Printer, node: StringImm) -> Text:
    return Text(f"{p.R('str')}({string(node.value)})")


@prints(DataTypeImm)
def _dtype(p: Printer, node: DataTypeImm) -> Text:
    return Text(f"{p.R('dtype')}({string(str(node.value))})")


@prints(ExternFunc)
def _extern(p: Printer, node: ExternFunc) -> Text:
    return Text(f"{p.R('ExternFunc')}({string(node.global_symbol)})")


@prints(TupleGetItem)
def _get_item(p: Printer, node: TupleGetItem) -> Text:
    if isinstance(node.tuple_value, (Tuple, ShapeExpr)) or node.index < 0:
        return Text(f"{p.R('TupleGetItem')}({p.text(node.tuple_value)}, {node.index})")
    return Text(f"{p.text(node.tuple_value, 13)}[{node.index}]")


# ---------------------------------------------------------------------- what is no expression in Python


def _hoisted(p: Printer, emit: Callable[[], None]) -> None:
    """Print statements that are inserted before the statement being printed."""
    saved = p.lines, p.depth, p.pending
    p.lines, p.depth, p.pending = [], 0, []
    try:
        emit()
        hoisted = p.lines
    finally:
        p.lines, p.depth, p.pending = saved
    p.pending.extend(hoisted)


@prints(If)
def _if_value(p: Printer, node: If) -> Text:
    name = p.names.fresh("gv")
    _hoisted(p, lambda: _if(p, node, name, None))
    return Text(name)


@prints(Function)
def _function_value(p: Printer, node: Function) -> Text:
    name = p.names.fresh("func")
    _hoisted(p, lambda: function(p, node, name, local=True))
    return Text(name)


@prints(SeqExpr)
def _seq_value(p: Printer, node: SeqExpr) -> Text:
    def emit() -> None:
        for block in node.blocks:
            p.statement(block)

    _hoisted(p, emit)
    return p.expr(node.body)


# ---------------------------------------------------------------------- bindings


def _annotation(p: Printer, var: Any, derived: bool = False) -> str:
    """Annotation of a variable; omitted if it is very large and `derived` from the value."""
    info = getattr(var, "struct_info_", None)
    if info is None or (derived and is_large(info, NAMED_PLACES)):
        return ""
    return f": {p.text(info)}"


@prints_statement(VarBinding)
def _var_binding(p: Printer, node: VarBinding) -> None:
    name = var_name(p, node.var)
    if isinstance(node.value, Function):
        function(p, node.value, name, local=True)
    elif isinstance(node.value, If):
        _if(p, node.value, name, node.var)
    else:
        value = p.text(node.value)
        annotation = "" if _follows(p, node) else _annotation(p, node.var, derived=True)
        p.line(f"{name}{annotation} = {value}")


def _follows(p: Printer, node: VarBinding) -> bool:
    """True if a binding is printed without its struct info, because it equals the value's."""
    if p.config.show_all_struct_info:
        return False
    own, derived = (getattr(expr, "struct_info_", None) for expr in (node.var, node.value))
    return derived is not None and structural_equal(own, derived)


@prints_statement(MatchCast)
def _match_cast(p: Printer, node: MatchCast) -> None:
    value = p.text(node.value)
    info = p.text(node.struct_info)
    p.line(f"{var_name(p, node.var)}{_annotation(p, node.var)} = {p.R('match_cast')}({value}, {info})")


@prints_statement(BindingBlock)
def _block(p: Printer, node: BindingBlock) -> None:
    for binding in node.bindings:
        p.statement(binding)


@prints_statement(DataflowBlock)
def _dataflow(p: Printer, node: DataflowBlock) -> None:
    p.line(f"with {p.R('dataflow')}():")
    with p.indented():
        _block(p, node)
        outputs = [b.var for b in node.bindings if not isinstance(b.var, DataflowVar)]
        p.line(f"{p.R('output')}({', '.join(p.text(var) for var in outputs)})")


def _if(p: Printer, node: If, name: str, var: Var | None) -> None:
    """Print an ``if`` whose branches end by assigning their value to the name."""
    annotation = _annotation(p, var, derived=True)
    p.line(f"if {p.text(node.cond)}:")
    _branch(p, node.true_branch, f"{name}{annotation}")
    p.line("else:")
    _branch(p, node.false_branch, f"{name}{annotation}")


def _branch(p: Printer, node: RelaxExpr, target: str) -> None:
    with p.indented(), p.scope():
        body = _blocks_and_body(p, node)
        text = p.text(body)
        p.line(f"{target} = {text}")


def _blocks_and_body(p: Printer, node: RelaxExpr) -> RelaxExpr:
    if not isinstance(node, SeqExpr):
        return node
    for block in node.blocks:
        p.statement(block)
    return node.body


# ---------------------------------------------------------------------- functions


def function(p: Printer, node: Function, name: str, local: bool = False, symbol: str | None = None) -> None:
    """Print a function as a decorated ``def``; `symbol` is its true name if the ``def`` cannot have it."""
    attrs = dict(node.attrs)
    options: list[str] = []
    if symbol is not None and symbol != name:
        options.append(f"name={string(symbol)}")
    if not local:
        if attrs.get("global_symbol") == (symbol or name):
            del attrs["global_symbol"]
        elif "global_symbol" not in attrs:
            options.append("private=True")
    if not node.is_pure:
        options.append("pure=False")
    p.line(f"@{p.R('function')}" + (f"({', '.join(options)})" if options else ""))
    with p.scope() as frame:
        outer, p.in_signature = p.in_signature, True
        try:
            params = ", ".join(f"{var_name(p, param)}{_annotation(p, param)}" for param in node.params)
            returns = _returns(p, node)
        finally:
            p.in_signature = outer
        p.line(f"def {name}({params}){returns}:")
        start = len(p.lines)
        with p.indented():
            if attrs:
                p.line(f"{p.R('func_attr')}({value_text(p, attrs)})")
            text = p.text(_blocks_and_body(p, node.body))
            p.line(f"return {text}")
            indent = " " * (p.config.indent_spaces * p.depth)
        p.lines[start:start] = [indent + line for line in frame.declarations]


def _returns(p: Printer, node: Function) -> str:
    """Annotation of the result; omitted if it is very large, to be derived again."""
    ret = node.ret_struct_info
    if ret is None or (is_large(ret, NAMED_PLACES) and structural_equal(ret, node.body.struct_info_)):
        return ""
    return f" -> {p.text(ret)}"


@prints_statement(Function)
def _function(p: Printer, node: Function) -> None:
    symbol = node.attrs.get("global_symbol")
    name = p.config.name or (symbol if isinstance(symbol, str) and symbol.isidentifier() else "main")
    function(p, node, name)
