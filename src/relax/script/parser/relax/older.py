"""The spellings of the documents up to 2023, which predate purity annotations (language.md §7.4)."""

from __future__ import annotations

import ast

from ....expr import Call, ExternFunc, If, MatchCast, SeqExpr, Tuple, TupleGetItem, VarBinding
from ....ir import Op, RelaxExpr
from ....op.base import class_named
from ....op.intrinsic import DestinationPassing

_NAMES = frozenset({"match_shape", "outputs", "func", "read_tensor_from_file"})
_KEYWORDS = frozenset({"dtype", "output_dtype"})
_INFOS = frozenset({"Tensor", "Shape", "Prim", "Tuple", "Callable", "Object"})


def is_older_spelling(function: ast.FunctionDef) -> bool:
    """True if a function uses a spelling found only in the older documents."""
    return any(_is_older(node) for node in ast.walk(function))


def leaves_purity_unsaid(function: ast.FunctionDef) -> bool:
    """True if a function calls a packed function with struct info among the arguments.

    As in the issue that introduced `sinfo_args`; functions did not state their purity then.
    """
    return any(_has_info_among_arguments(node) for node in ast.walk(function))


def _has_info_among_arguments(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="call_packed"), args=[_, *args]):
            return any(_is_info(arg) for arg in args)
        case _:
            return False


def _is_info(node: ast.expr) -> bool:
    form = node.func if isinstance(node, ast.Call) else node
    return isinstance(form, ast.Attribute) and form.attr in _INFOS


def _is_older(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr=name):
            return name in _NAMES
        case ast.Subscript(value=ast.Attribute(attr="Tensor")) | ast.arg(annotation=ast.Name("Tensor")):
            return True
        case ast.Call(func=ast.Attribute(attr=name), keywords=keywords):
            older = any(keyword.arg in _KEYWORDS for keyword in keywords)
            return older and issubclass(class_named(f"relax.{name}") or object, DestinationPassing)
        case _:
            return False


def has_effects(body: RelaxExpr) -> bool:
    """True if an expression calls packed functions or impure operators (functions inside it do not count)."""
    match body:
        case SeqExpr(blocks, result):
            values = [
                binding.value
                for block in blocks
                for binding in block.bindings
                if isinstance(binding, (VarBinding, MatchCast))
            ]
            return any(has_effects(value) for value in (*values, result))
        case If(cond, then, other):
            return any(has_effects(child) for child in (cond, then, other))
        case Call(op, args):
            impure = isinstance(op, ExternFunc) or (isinstance(op, Op) and op.get_attr("FPurity") is False)
            return impure or any(has_effects(arg) for arg in args)
        case Tuple(fields):
            return any(has_effects(field) for field in fields)
        case TupleGetItem(value):
            return has_effects(value)
        case _:
            return False
