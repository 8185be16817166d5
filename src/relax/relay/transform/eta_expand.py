"""EtaExpand: wrap constructors and global functions used as values in functions.

    @map(Cell, %xs)       becomes    @map(fn[A](%x: A) -> Cell[A] { Cell(%x) }, %xs)      with expand_constructor
    @map(@twice, %xs)     becomes    @map(fn(%x: int32) -> int32 { @twice(%x) }, %xs)     with expand_global_var

Direct calls are unchanged, and so are constructors without arguments, which are values. Global functions must be typed
by InferType.
"""

from __future__ import annotations

from typing import cast

from ...ir import GlobalVar, IRModule
from ..adt import Constructor
from ..expr import Call, Expr, Function, Var
from ..parts import parts_of, with_parts
from ..scopes import nodes_with_parts
from ..type_walk import substituted
from ..types import FuncType, Type, TypeCall, TypeData, TypeVar
from .rewriting import Program, relay_pass


def eta_expand(expr: Expr, mod: IRModule, expand_constructor: bool = False, expand_global_var: bool = False) -> Expr:
    """Return the expression with constructors or global functions used as values wrapped in functions."""
    memo: dict[Expr, Expr] = {}

    def standing(node: Expr, part: Expr, index: int) -> Expr:
        called = isinstance(node, Call) and index == 0
        if isinstance(part, Constructor) and expand_constructor and not called and part.inputs:
            return _expanded(part, _constructor_type(part, mod))
        if isinstance(part, GlobalVar) and expand_global_var and not called:
            type_ = getattr(mod.get(part), "checked_type_", None)
            return _expanded(part, type_) if isinstance(type_, FuncType) else part
        return memo.get(part, part)

    for node in nodes_with_parts(expr):
        memo[node] = with_parts(node, [standing(node, part, i) for i, part in enumerate(parts_of(node))])
    return memo.get(expr, expr)


def _constructor_type(constructor: Constructor, mod: IRModule) -> FuncType:
    definition = next(
        cast(TypeData, data) for key, data in mod.type_definitions.items() if key == constructor.belong_to
    )
    result = TypeCall(constructor.belong_to, definition.type_vars)
    return FuncType(constructor.inputs, result, definition.type_vars)


def _expanded(callee: Expr, type_: FuncType) -> Function:
    own = [TypeVar(var.name_hint, var.kind) for var in type_.type_params]
    table: dict[TypeVar, Type] = dict(zip(type_.type_params, own, strict=True))
    params = [Var(f"x{i}", substituted(arg, table)) for i, arg in enumerate(type_.arg_types)]
    result = substituted(type_.ret_type, table)
    relations = [
        relation.replace(args=tuple(substituted(arg, table) for arg in relation.args))
        for relation in type_.type_constraints
    ]
    return Function(params, Call(callee, params), result, own, type_constraints=relations)


@relay_pass("EtaExpand", opt_level=1, required=["InferType"])
def EtaExpand(
    function: Function, program: Program, expand_constructor: bool = False, expand_global_var: bool = False
) -> Expr:
    """Wrap constructors and global functions used as values in functions, in every function."""
    mod = IRModule() if program.mod is None else program.mod
    return eta_expand(function, mod, expand_constructor, expand_global_var)
