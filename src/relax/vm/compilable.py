"""The Relax functions that can be compiled: those of first order.

    compiled    values are tensors, shapes, scalars and tuples of them, or pass through; calls are of kernels, of other
                Relax functions, of packed functions and builtins
    bytecode    functions that make or call closures, or that pass functions on; tensors of strings as constants, and
                scalars of uint64, which tvm-ffi's C ABI cannot hold

Either kind calls the other.
"""

from __future__ import annotations

from ..expr import Call, Constant, ExternFunc, Function, MatchCast, SeqExpr, Tuple, Var, VarBinding
from ..info.mapping import fields_in
from ..ir import GlobalVar, IRModule, Node, RelaxExpr, StructInfo, walk
from ..runtime.builtin_table import BUILTINS
from ..struct_info import FuncStructInfo, PrimStructInfo, TensorStructInfo


def compilable_functions(mod: IRModule) -> list[str]:
    """The names of a lowered module's functions that can be compiled, in their order."""
    functions = {g.name_hint: f for g, f in mod.functions.items() if isinstance(f, Function)}
    return [name for name, function in functions.items() if _is_first_order(function)]


def _is_first_order(function: Function) -> bool:
    first_order = True

    def visit(node: Node) -> bool:
        nonlocal first_order
        passed_on = any(isinstance(operand, GlobalVar | ExternFunc | Function) for operand in _operands(node))
        infos = (
            [] if not isinstance(node, Constant | Var) or node.struct_info_ is None else [node.struct_info_]
        )
        odd = any(map(_is_odd, fields_in(*infos)))
        called = not isinstance(node, Call) or _is_plain_callee(node.op)
        first_order = first_order and called and not passed_on and not odd
        return first_order

    walk(function, visit)
    return first_order


def _operands(node: Node) -> tuple[RelaxExpr, ...]:
    """The expressions whose values a node uses, its callee apart."""
    match node:
        case Call(_, args):
            return args
        case Tuple(fields):
            return fields
        case VarBinding(_, value) | MatchCast(_, value):
            return (value,)
        case SeqExpr():
            return (node.body,)
        case _:
            return ()


def _is_plain_callee(op: Node) -> bool:
    if isinstance(op, GlobalVar):
        return True
    if not isinstance(op, ExternFunc):
        return False
    builtin = BUILTINS.get(op.global_symbol)
    return builtin is None or not (builtin.enters or builtin.closures)


def _is_odd(info: StructInfo) -> bool:
    """True for values, but of tuples, that cannot be compiled."""
    match info:
        case TensorStructInfo(_, dtype):
            return dtype == "string"
        case PrimStructInfo(dtype):
            return dtype == "uint64"
        case _:
            return isinstance(info, FuncStructInfo)


__all__ = ["compilable_functions"]
