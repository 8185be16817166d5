"""Calls of Relax: operators with their attributes, packed functions, intrinsics.

``R.nn.softmax(x, axis=1)``: operands in order, then the attributes that differ from their defaults. A call that no
function of `R` would build (an invalid or hand-built one) prints as ``R.Call(...)``.
"""

from __future__ import annotations

import inspect
from typing import Any

from ...expr import Call, ExternFunc, Tuple
from ...ir import Node, Op, StructInfo, VDevice, structural_equal
from ...op.base import Operator, expand_operands, operator_of
from ...op.errors import OperatorError
from ...op.intrinsic import DestinationPassing, Intrinsic
from ...op.operands import ABSENT, is_absent
from ...op.operator import public_function
from ...struct_info import TupleStructInfo
from .core import Printer, Text, prints
from .literals import metadata_reference, string, value_text
from .struct_info import vdevice_reference


@prints(Call)
def _call(p: Printer, node: Call) -> Text:
    if isinstance(node.op, Op):
        return _operator_call(p, node, node.op)
    if isinstance(node.op, ExternFunc) and node.attrs is None:
        arguments = [string(node.op.global_symbol), *(p.text(arg) for arg in node.args)]
        if node.sinfo_args:
            arguments.append(f"sinfo_args={_infos(p, node.sinfo_args)}")
        return Text(f"{p.R('call_packed')}({', '.join(arguments)})")
    if node.attrs is None and not node.sinfo_args:
        return Text(f"{p.text(node.op, 13)}({', '.join(p.text(arg) for arg in node.args)})")
    return _raw_call(p, node)


def _operator_call(p: Printer, node: Call, op: Op) -> Text:
    function = public_function(op.name)
    operator = operator_of(node) if node.attrs is None or isinstance(node.attrs, Operator) else None
    if function is None or operator is None or operator.op_name != op.name:
        return _raw_call(p, node)
    try:
        operands = expand_operands(operator, len(node.args))
    except OperatorError:
        return _raw_call(p, node)
    parameters = inspect.signature(function).parameters
    arguments: list[str] = []
    for i, (operand, arg) in enumerate(zip(operands, node.args, strict=True)):
        left_out = operand.optional and arg is ABSENT and i < len(operands) - 1
        arguments.append("None" if left_out or _skipped(operand, arg, i, node) else _operand(p, operator, i, arg))
    arguments += _attributes(p, operator, parameters)
    if node.sinfo_args:
        info = _result(p, node.sinfo_args, parameters)
        if info is None:
            return _raw_call(p, node)
        arguments.append(info)
    if isinstance(operator, DestinationPassing) and len(node.args) == 3:
        arguments[2] = f"tir_vars={arguments[2]}"
        arguments = [*arguments[:2], *arguments[3:], arguments[2]]
    return Text(f"{p.R(operator.short_name)}({', '.join(arguments)})")


def _skipped(operand: Any, arg: Any, index: int, node: Call) -> bool:
    return operand.optional and is_absent(arg) and index < len(node.args) - 1


def _operand(p: Printer, operator: Operator, index: int, arg: Any) -> str:
    named = isinstance(operator, Intrinsic) and operator.named_callee
    if index == 0 and named and isinstance(arg, ExternFunc):
        return p.marked(arg, Text(string(arg.global_symbol))).text
    return p.text(arg)


def _attributes(p: Printer, operator: Operator, parameters: Any) -> list[str]:
    arguments: list[str] = []
    for name in operator.attribute_names:
        value = getattr(operator, name)
        default = parameters[name].default if name in parameters else inspect.Parameter.empty
        if default is inspect.Parameter.empty or not _is_default(operator, name, value, default):
            text = vdevice_reference(p, value) if isinstance(value, VDevice) else value_text(p, value)
            arguments.append(f"{name}={text}")
    return arguments


def _is_default(operator: Operator, name: str, value: Any, default: Any) -> bool:
    """True if omitting the attribute yields this value (after its converter)."""
    if structural_equal(value, default):
        return True
    try:
        return structural_equal(operator.spelled(name, default), value)
    except (ValueError, TypeError):
        return False


def _result(p: Printer, infos: tuple[StructInfo, ...], parameters: Any) -> str | None:
    if "out_sinfo" in parameters and len(infos) == 1:
        info = infos[0]
        if isinstance(info, TupleStructInfo) and len(info.fields) > 1:
            return f"out_sinfo=[{', '.join(p.text(field) for field in info.fields)}]"
        return f"out_sinfo={p.text(info)}"
    return f"sinfo_args={_infos(p, infos)}" if "sinfo_args" in parameters else None


def _infos(p: Printer, infos: tuple[StructInfo, ...]) -> str:
    texts = [p.text(info) for info in infos]
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"


def _raw_call(p: Printer, node: Call) -> Text:
    """``R.Call(op, args, attrs=..., sinfo_args=...)``, which builds the node without checks."""
    op = string(node.op.name) if isinstance(node.op, Op) else p.text(node.op)
    args = ", ".join(p.text(arg) for arg in node.args)
    arguments = [op, f"[{args}]"]
    if node.attrs is not None:
        attrs: Any = node.attrs
        arguments.append(f"attrs={metadata_reference(p, attrs) if isinstance(attrs, Node) else p.text(attrs)}")
    if node.sinfo_args:
        arguments.append(f"sinfo_args={_infos(p, node.sinfo_args)}")
    return Text(f"{p.R('Call')}({', '.join(arguments)})")


@prints(Op)
def _op(p: Printer, node: Op) -> Text:
    return Text(f"{p.R('Op')}({string(node.name)})")


@prints(Tuple)
def _tuple(p: Printer, node: Tuple) -> Text:
    if not node.fields:
        return Text(f"{p.R('tuple')}()")
    fields = [p.text(field) for field in node.fields]
    return Text(f"({fields[0]},)" if len(fields) == 1 else f"({', '.join(fields)})")
