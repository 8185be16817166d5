"""Common base of all IRs: nodes, spans, diagnostics, dtypes, equality, modules, operators, passes."""

from __future__ import annotations

from . import instrument, transform
from .diagnostics import Diagnostic, DiagnosticContext, DiagnosticError, RelaxWarning, emit_warning
from .dtype import DataType
from .expr import BaseExpr, BaseFunc, GlobalVar, RelaxExpr, StructInfo, VDevice, update_struct_info
from .module import IRModule
from .node import Node, binder, child, children_of, fields_of, label, map_children, node, set_slot, walk
from .op import Op, register_op
from .serialize import load_json, save_json
from .span import Source, Span
from .stored import StoredArray, StoredFile
from .structural import (
    Difference,
    assert_structural_equal,
    exact_digest,
    first_difference,
    matching_free_vars,
    nameless_digest,
    program_digest,
    quick_hash,
    structural_equal,
    structural_hash,
)
from .tvm_names import answer_missing
from .vdevice import (
    find_vdevice,
    listed_vdevices,
    parse_vdevice,
    same_vdevice,
    target_kind,
    vdevice_index,
    vdevice_text,
)

__all__ = [
    "BaseExpr", "BaseFunc", "DataType", "Diagnostic", "DiagnosticContext", "DiagnosticError", "Difference",
    "GlobalVar", "IRModule", "Node", "Op", "RelaxExpr", "RelaxWarning", "Source", "Span", "StoredArray",
    "StoredFile", "StructInfo", "VDevice", "assert_structural_equal", "binder", "child", "children_of",
    "emit_warning", "exact_digest", "fields_of", "find_vdevice", "first_difference", "instrument", "label",
    "listed_vdevices", "load_json", "map_children", "matching_free_vars", "nameless_digest", "node", "parse_vdevice",
    "program_digest", "quick_hash", "register_op", "same_vdevice", "save_json", "set_slot", "structural_equal",
    "structural_hash", "target_kind", "transform", "update_struct_info", "vdevice_index", "vdevice_text", "walk",
]  # fmt: skip

answer_missing("relax.ir")
answer_missing("relax.ir.instrument")
