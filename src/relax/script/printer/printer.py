"""Entry point of the printer: converts any node to TVMScript text; registered for ``.script()`` and ``.show()``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ...expr import ExternFunc, Function
from ...ir import GlobalVar, IRModule, Node, RelaxExpr, listed_vdevices, walk
from ...ir.printing import Annotate, register_printer
from ...runtime.rooms import ModuleWhenUsed
from ...tir.stmt import PrimFunc
from . import calls as calls  # registers its nodes
from . import scalar as scalar
from . import struct_info as struct_info
from .config import PrinterConfig
from .core import Printer, is_statement, prints_statement
from .literals import metadata_section, value_text
from .marks import render_marks
from .names import NameTable, identifier
from .relax import function
from .tir import prim_func

if TYPE_CHECKING:
    from .. import highlight
else:  # it needs rich, which text does not
    highlight = ModuleWhenUsed("relax.script.highlight")

OMITTED = "# Metadata omitted. Use show_meta=True in script() method to show it."


@prints_statement(IRModule)
def _module(p: Printer, node: IRModule) -> None:
    p.in_module, p.vdevices = True, listed_vdevices(node)
    name = p.config.name or "Module"
    p.module_name = p.config.module_alias or name
    p.line(f"@{p.I('ir_module')}")
    p.line(f"class {name}:")
    p.function_names = _function_names(node, {*p.reserved, name})
    with p.indented():
        start = len(p.lines)
        if node.attrs:
            p.line(f"{p.I('module_attrs')}({value_text(p, node.attrs)})")
        if node.global_infos:
            infos = {key: list(items) for key, items in node.global_infos.items()}
            p.line(f"{p.I('module_global_infos')}({value_text(p, infos)})")
        for global_var, item in node.functions.items():
            if len(p.lines) > start:
                p.raw_line("")
            p.names, p.mentions_module = NameTable({*p.reserved, name}), False
            first = len(p.lines)
            _global_function(p, global_var, item)
            if p.mentions_module and p.module_name not in ("cls", name):
                _define_alias(p, name, first)
        if len(p.lines) == start:
            p.line("pass")


def _define_alias(p: Printer, name: str, first: int) -> None:
    """Define the module's alias as the first statement of the function whose lines start at `first`."""
    header = next(i for i in range(first, len(p.lines)) if p.lines[i].lstrip().startswith("def "))
    indent = " " * (p.config.indent_spaces * (p.depth + 1))
    p.lines.insert(header + 1, f"{indent}{p.module_name} = {name}")


def _function_names(mod: IRModule, reserved: set[str]) -> dict[str, str]:
    """Names for ``def``: a function's own, unless it is not an identifier or already used."""
    hints = [global_var.name_hint for global_var in mod.functions]
    own = {hint for hint in hints if identifier(hint, "func") == hint and hint not in reserved}
    table = NameTable({*reserved, *own})
    return {hint: hint if hint in own else table.fresh(hint, "func") for hint in hints}


def _global_function(p: Printer, global_var: GlobalVar, item: Any) -> None:
    symbol = global_var.name_hint
    name = p.function_names.get(symbol, identifier(symbol, "func"))
    if isinstance(item, Function):
        function(p, item, name, symbol=symbol)
    elif isinstance(item, PrimFunc):
        prim_func(p, item, name, symbol=symbol)
    elif isinstance(item, ExternFunc) and name == symbol:
        p.line(f"{name} = {p.expr(item).text}")
    else:
        p.statement(item)


class ScriptPrinter:
    """The printer that `relax.ir.printing` calls."""

    def script(self, node: Any, **options: Any) -> str:
        """Text of a node. Raises TypeError for an unknown option, but never for an invalid node."""
        return print_script(node, PrinterConfig.of(options))

    def astext(self, node: Any, show_meta_data: bool, annotate: Annotate | None) -> str:
        """Text of a module that `from_source` parses; `annotate` gives comments for expressions."""
        remarks: dict[Node, str] = {}

        def remark(part: Node) -> None:
            text = annotate(part) if annotate is not None and isinstance(part, RelaxExpr) else ""
            if text:
                remarks[part] = text

        if annotate is not None:
            walk(node, remark)
        return self.script(node, show_meta=show_meta_data, obj_to_annotate=remarks)

    def show(self, node: Any, style: str | None = None, **options: Any) -> None:
        """Print a node, coloured on a terminal."""
        text = print_script(node, PrinterConfig.of(options))
        highlight.print_highlighted(text, style)

    def show_text(self, text: str, style: str | None) -> None:
        """Print Python text, coloured on a terminal."""
        highlight.print_highlighted(text, style)


def print_script(node: Any, config: PrinterConfig) -> str:
    """Text of a node."""
    p = Printer(config)
    whole = isinstance(node, (IRModule, Function, PrimFunc))
    if is_statement(node):
        p.statement(node)
    else:
        text = p.expr(node).text if isinstance(node, Node) else value_text(p, node)
        p.line(text)
    lines = [*(_header(p) if whole else []), *p.lines]
    if p.metadata and not config.show_meta:
        lines += ["", OMITTED]
    return "\n".join(render_marks(lines, p.remarks) if p.marking else lines)


def _header(p: Printer) -> list[str]:
    """Header of a text: imports, as comments, and the metadata section."""
    body = "\n".join(p.lines)
    names = {"ir": p.config.ir_prefix, "relax": p.config.relax_prefix, "tir": p.config.tir_prefix}
    shown: list[str] = []
    section: list[str] = []
    if p.metadata and p.config.show_meta:
        section = [metadata_section(p), ""]
    for module, prefix in names.items():
        if f"{prefix}." in body or (section and module == "ir"):
            shown.append(f"# from relax.script import {module} as {prefix}")
    return [*shown, "", *section] if shown else []


def register() -> None:
    """Register this printer for all nodes."""
    register_printer(cast(Any, ScriptPrinter()))


register()
