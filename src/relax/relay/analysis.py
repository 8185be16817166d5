"""Analyses of expressions: `relay.analysis`.

`free_vars`, `bound_vars`, `all_vars`, `closed`, `free_type_vars`, `bound_type_vars`, `all_type_vars`, `well_formed`,
`check_well_formed`, `check_kind`, `unmatched_cases`, `alpha_equal`, `post_order_visit`, `call_count`.

Variables are returned once each, in order of first occurrence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, cast

from ..ir import Diagnostic, DiagnosticError, IRModule, Node
from ..ir.module import register_closing
from ..ir.tvm_names import answer_missing
from .adt import Match
from .cases import unmatched_cases
from .expr import Call, Expr, Function, Let, RelayExpr, TempExpr, Tuple, Var
from .functor import post_order_visit
from .kinds import check_kind
from .parts import bound_by, parts_of, types_of
from .scopes import EvaluationScope, Placement, place
from .structural import alpha_equal, alpha_hash, assert_alpha_equal
from .types import FuncType, Type, TypeData, TypeVar


def _nodes(expr: Expr) -> Iterator[Expr]:
    """Yield each expression object once, from left to right, parents before children."""
    seen: set[Expr] = set()
    stack = [expr]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            yield node
            stack.extend(reversed(parts_of(node)))


def all_vars(expr: Expr) -> list[Var]:
    """Return the local variables of an expression."""
    return [node for node in _nodes(expr) if isinstance(node, Var)]


def bound_vars(expr: Expr) -> list[Var]:
    """Return the variables bound in an expression, at any depth."""
    return list(dict.fromkeys(var for node in _nodes(expr) for var in bound_by(node)))


def free_vars(expr: Expr) -> list[Var]:
    """Return the variables that are free in the expression."""
    placement = place(expr)
    visible = _visible(placement)
    free: dict[Var, None] = {}
    for node in placement.order:
        for part, scope in placement.positions(node):
            if isinstance(part, Var) and not _sees(visible, part, scope):
                free[part] = None
    if isinstance(expr, Var):
        free[expr] = None
    return [var for var in all_vars(expr) if var in free]


def _visible(placement: Placement) -> dict[Var, list[EvaluationScope]]:
    """Scopes in which each bound variable is visible."""
    visible: dict[Var, list[EvaluationScope]] = {}
    uses = Counter(part for node in placement.order for part in parts_of(node) if isinstance(part, Function))
    for node in placement.order:
        opened = placement.opened.get(node, ())
        match node:
            case Function():
                for param in node.params:
                    visible.setdefault(param, []).append(opened[0])
            case Let():
                scopes = visible.setdefault(node.var, [])
                scopes.append(opened[0])
                # A function with other uses is evaluated outside of the `Let`.
                if isinstance(node.value, Function) and uses[node.value] == 1:
                    scopes.append(placement.opened[node.value][0])
            case Match():
                for clause, scope in zip(node.clauses, opened, strict=True):
                    for var in bound_by(Match(Tuple(()), (clause,))):
                        visible.setdefault(var, []).append(scope)
            case _:
                pass
    return visible


def _sees(visible: dict[Var, list[EvaluationScope]], var: Var, scope: EvaluationScope) -> bool:
    return any(binding.encloses(scope) for binding in visible.get(var, ()))


def closed(expr: Expr) -> Function:
    """Return the function of the free variables and free type variables of the expression whose body it is."""
    return Function(free_vars(expr), expr, None, free_type_vars(expr))


# ------------------------------------------------------------------------------------------ type variables


def all_type_vars(expr: Expr | Type, mod: IRModule | None = None) -> list[TypeVar]:
    """Return the type variables of an expression or type."""
    return list(dict.fromkeys((*_type_vars(expr, bound=True), *_type_vars(expr, bound=False))))


def bound_type_vars(expr: Expr | Type, mod: IRModule | None = None) -> list[TypeVar]:
    """Return the type variables bound in an expression or type, at any depth."""
    return _type_vars(expr, bound=True)


def free_type_vars(expr: Expr | Type, mod: IRModule | None = None) -> list[TypeVar]:
    """Return the type variables that are free in the expression or type."""
    bound = set(_type_vars(expr, bound=True))
    return [var for var in _type_vars(expr, bound=False) if var not in bound]


def _type_vars(expr: Expr | Type, bound: bool) -> list[TypeVar]:
    """Return the type variables of binders (`bound`), or those used in types."""
    variables: dict[TypeVar, None] = {}
    seen: set[int] = set()
    stack: list[Node] = [expr]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, TypeVar):
            if not bound:
                variables[node] = None
            continue
        if bound:
            variables.update(dict.fromkeys(_type_params(node)))
        stack.extend(reversed(_type_parts(node)))
    return list(variables)


def _type_params(node: Node) -> tuple[TypeVar, ...]:
    if isinstance(node, (Function, FuncType)):
        return node.type_params
    return node.type_vars if isinstance(node, TypeData) else ()


def _type_parts(node: Node) -> list[Node]:
    """Expressions and types directly below a node, except the variables it binds."""
    if isinstance(node, Expr):
        return [*types_of(node), *parts_of(node)]
    children: list[Node] = []
    for spec in node.__node_fields__:
        if spec.kind == "child":
            value: Any = getattr(node, spec.name)
            items: Iterable[Any] = cast("tuple[Any, ...]", value) if isinstance(value, tuple) else (value,)
            children.extend(item for item in items if isinstance(item, (Type, Expr)))
            children.extend(child for item in items for child in getattr(item, "inputs", ()))
    return children


# ---------------------------------------------------------------------------------------- well-formedness


def well_formed(expr: Expr | IRModule) -> bool:
    """True if `check_well_formed` raises nothing."""
    return not _problems(expr)


def check_well_formed(expr: Expr | IRModule) -> None:
    """Raise DiagnosticError with every violation of well-formedness in an expression or a module:

    * a variable that is bound in two places, or twice in one (E9020);
    * a variable used outside of the scope that binds it, or, in a module's function, not bound at all (E9021);
    * a TempExpr, which no pass may leave behind (E9022).
    """
    problems = _problems(expr)
    if problems:
        raise DiagnosticError(problems)


def _problems(expr: Expr | IRModule) -> list[Diagnostic]:
    if not isinstance(expr, IRModule):
        return _expression_problems(expr, False)
    return [
        problem
        for name, function in expr.functions.items()
        if isinstance(function, Function)
        for problem in _expression_problems(function, True, f" in @{name.name_hint}")
    ]


def _expression_problems(expr: Expr, is_closed: bool, where: str = "") -> list[Diagnostic]:
    placement = place(expr)
    visible = _visible(placement)
    problems: list[Diagnostic] = []
    bound: set[Var] = set()
    for node in placement.order:
        for var in bound_by(node):
            if var in bound:
                message = f"the variable %{var.name_hint} is bound more than once{where}"
                hint = "make a Var for each place that binds one"
                problems.append(Diagnostic("E9020", message, var.span or node.span, hint=hint))
            bound.add(var)
    for node in placement.order:
        for part, scope in dict.fromkeys(placement.positions(node)):
            if isinstance(part, Var) and not _sees(visible, part, scope) and (is_closed or part in visible):
                message = f"the variable %{part.name_hint} is used outside of its scope{where}"
                problems.append(Diagnostic("E9021", message, node.span or part.span, hint=_scope_hint(node)))
            if isinstance(part, TempExpr):
                problems.append(_temporary(part, where))
    if isinstance(expr, TempExpr):
        problems.append(_temporary(expr, where))
    return problems


def _scope_hint(node: Expr) -> str:
    if isinstance(node, Call):
        return "a node that stands in several scopes is evaluated in the innermost that holds all of them"
    return ""


def _temporary(expr: TempExpr, where: str) -> Diagnostic:
    name = type(expr).__name__
    return Diagnostic("E9022", f"a {name} is left{where}", expr.span, hint="realize it before the pass ends")


def call_count(expr: Expr) -> int:
    """Number of calls in an expression; a shared call counts once."""
    return sum(isinstance(node, Call) for node in _nodes(expr))


__all__ = [
    "all_type_vars",
    "all_vars",
    "alpha_equal",
    "alpha_hash",
    "assert_alpha_equal",
    "bound_type_vars",
    "bound_vars",
    "call_count",
    "check_kind",
    "check_well_formed",
    "closed",
    "free_type_vars",
    "free_vars",
    "post_order_visit",
    "unmatched_cases",
    "well_formed",
]

register_closing(RelayExpr, closed)
answer_missing(__name__)
