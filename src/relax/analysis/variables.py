"""The variables a program binds and uses, and their users.

Order is that of first occurrence, everywhere.
"""

from __future__ import annotations

from ..derive.call_graph import global_vars_in
from ..expr import Binding, BindingBlock, Call, Function, MatchCast, Var
from ..info.mapping import bound_in, used_in
from ..ir import GlobalVar, Node, Op, RelaxExpr, StructInfo, walk
from ..prim import free_vars as free_prim_vars
from ..prim.expr import PrimExpr
from ..prim.expr import Var as PrimVar
from ..rewrite.visitor import ExprVisitor


class _Variables(ExprVisitor):
    def __init__(self) -> None:
        self.used: dict[Var, None] = {}
        self.bound: dict[Var, None] = {}
        self.both: dict[Var, None] = {}

    def visit_var_(self, op: Var) -> None:
        self.used[op] = None
        self.both[op] = None

    def visit_var_def(self, var: Var) -> None:
        self.bound[var] = None
        self.both[var] = None
        super().visit_var_def(var)


def _variables(expr: RelaxExpr) -> _Variables:
    visitor = _Variables()
    visitor.visit_expr(expr)
    return visitor


def free_vars(expr: RelaxExpr) -> list[Var]:
    """The Relax variables an expression uses and does not bind."""
    variables = _variables(expr)
    return [var for var in variables.used if var not in variables.bound]


def bound_vars(expr: RelaxExpr) -> list[Var]:
    """The Relax variables an expression binds: parameters and bindings."""
    return list(_variables(expr).bound)


def all_vars(expr: RelaxExpr) -> list[Var]:
    """The Relax variables an expression uses or binds."""
    return list(_variables(expr).both)


def called_global_vars(expr: RelaxExpr) -> list[GlobalVar]:
    """The global functions an expression calls, also as the kernel of a call_tir, one per name."""
    callees: dict[str, GlobalVar] = {}

    def visit(item: Node) -> None:
        if isinstance(item, Call):
            for callee in (item.op, *item.args[:1]) if isinstance(item.op, Op) else (item.op,):
                if isinstance(callee, GlobalVar):
                    callees.setdefault(callee.name_hint, callee)

    walk(expr, visit)
    return list(callees.values())


def all_global_vars(expr: RelaxExpr) -> list[GlobalVar]:
    """The global functions an expression mentions, one per name."""
    return list(global_vars_in(expr).values())


class _ShapeVariables(ExprVisitor):
    """Shape variables bound and used; `free` are those used where they are not bound."""

    def __init__(self) -> None:
        self.bound: dict[PrimVar, None] = {}
        self.used: dict[PrimVar, None] = {}

    def visit_prim_expr(self, expr: PrimExpr) -> None:
        if isinstance(expr, PrimVar):
            self.used[expr] = None
        else:
            self.used.update((var, None) for var in free_prim_vars(expr))

    def visit_expr_dep_struct_info_field(self, struct_info: StructInfo) -> None:
        # A function type's own parameter variables are nobody else's.
        self.used.update(used_in(struct_info))

    def visit_function_(self, op: Function) -> None:
        infos = [p.struct_info_ for p in op.params if p.struct_info_ is not None]
        self.bound.update(bound_in(*infos))
        super().visit_function_(op)

    def visit_match_cast_(self, binding: MatchCast) -> None:
        self.bound.update(bound_in(binding.struct_info))
        super().visit_match_cast_(binding)


def _shape_variables(expr: RelaxExpr) -> _ShapeVariables:
    visitor = _ShapeVariables()
    visitor.visit_expr(expr)
    return visitor


def defined_symbolic_vars(expr: RelaxExpr) -> list[PrimVar]:
    """The shape variables an expression binds: in parameters and match_casts, where they stand alone."""
    return list(_shape_variables(expr).bound)


bound_symbolic_vars = defined_symbolic_vars


def free_symbolic_vars(expr: RelaxExpr) -> list[PrimVar]:
    """The shape variables an expression uses and does not bind."""
    variables = _shape_variables(expr)
    return [var for var in variables.used if var not in variables.bound]


def all_symbolic_vars(expr: RelaxExpr) -> list[PrimVar]:
    """The shape variables an expression uses or binds."""
    variables = _shape_variables(expr)
    return list({**variables.used, **variables.bound})


shape_vars = all_symbolic_vars


def definable_tir_vars_in_struct_info(sinfo: StructInfo) -> list[PrimVar]:
    """The shape variables that an annotation binds where it may: those standing alone."""
    return list(bound_in(sinfo))


def tir_vars_in_struct_info(sinfo: StructInfo) -> list[PrimVar]:
    """The shape variables that occur in an annotation."""
    return list(used_in(sinfo))


# ------------------------------------------------------------------------------------ bindings


class _Bindings(ExprVisitor):
    def __init__(self) -> None:
        self.found: list[Binding] = []

    def visit_binding(self, binding: Binding) -> None:
        self.found.append(binding)
        super().visit_binding(binding)


def all_bindings(expr: RelaxExpr) -> list[Binding]:
    """Every binding in an expression, nested ones included."""
    visitor = _Bindings()
    visitor.visit_expr(expr)
    return visitor.found


def get_var2val(func: RelaxExpr) -> dict[Var, RelaxExpr]:
    """For each variable a function binds, the value it is bound to."""
    table: dict[Var, RelaxExpr] = {}
    for binding in all_bindings(func):
        table[binding.var] = binding.value
    return table


def name_to_binding(func: RelaxExpr) -> dict[str, list[Binding]]:
    """For each name, the bindings of variables that have it."""
    table: dict[str, list[Binding]] = {}
    for binding in all_bindings(func):
        table.setdefault(binding.var.name_hint, []).append(binding)
    return table


def udchain(block: BindingBlock) -> dict[Var, list[Var]]:
    """For each variable of a dataflow block, the variables whose values use it."""
    chain: dict[Var, list[Var]] = {}
    for binding in block.bindings:
        for used in free_vars(binding.value):
            chain.setdefault(used, []).append(binding.var)
        chain.setdefault(binding.var, [])
    return chain
