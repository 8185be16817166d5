"""Effects in monomorphic programs: functions that access references, directly or through calls.

A module without references has no effects. Otherwise a function is pure if it accesses no references and calls only
operators, constructors and pure global functions: functions held by variables may have effects.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..ir import GlobalVar, IRModule, Op
from ..runtime.records import dataclass
from .adt import Constructor
from .expr import Call, Expr, Function, RefCreate, RefRead, RefWrite
from .scopes import EvaluationScope, Placement, place


@dataclass(frozen=True)
class ModuleEffects:
    """Effects of a module's functions. `impure` holds names of global functions, and local Function nodes."""

    references: bool
    """True if the module uses references."""
    impure: frozenset[str | Expr]


def effects_in(mod: IRModule) -> ModuleEffects:
    """Return the effects of a module's functions."""
    functions = {g.name_hint: f for g, f in mod.functions.items() if isinstance(f, Function)}
    placements = {name: place(function) for name, function in functions.items()}
    references = any(_has_reference(p.order) for p in placements.values())
    if not references:
        return ModuleEffects(False, frozenset())
    impure: set[str | Expr] = set()
    callers: dict[str, set[str | Expr]] = {}
    for name, placement in placements.items():
        for owner, nodes in _by_function(placement, functions[name]).items():
            who = name if owner is functions[name] else owner
            callees = [node.op for node in nodes if isinstance(node, Call)]
            for callee in callees:
                if isinstance(callee, GlobalVar):
                    callers.setdefault(callee.name_hint, set()).add(who)
            plain = all(isinstance(callee, (GlobalVar, Op, Constructor)) for callee in callees)
            if not plain or _has_reference(nodes):
                impure.add(who)
    pending = [item for item in impure if isinstance(item, str)]
    while pending:
        for caller in callers.get(pending.pop(), ()):
            if caller not in impure:
                impure.add(caller)
                pending += [caller] if isinstance(caller, str) else []
    return ModuleEffects(True, frozenset(impure))


def _has_reference(nodes: Iterable[Expr]) -> bool:
    return any(isinstance(node, (RefCreate, RefRead, RefWrite)) for node in nodes)


def _by_function(placement: Placement, function: Function) -> dict[Expr, list[Expr]]:
    """Nodes evaluated by a call of each function, excluding those of nested functions."""
    owners: dict[EvaluationScope, Expr] = {placement.root: function}
    result: dict[Expr, list[Expr]] = {}
    for node in reversed(placement.order):  # enclosing scopes first
        result.setdefault(_owner(placement.of[node], owners), []).append(node)
    return result


def _owner(scope: EvaluationScope, owners: dict[EvaluationScope, Expr]) -> Expr:
    path: list[EvaluationScope] = []
    while scope not in owners and not isinstance(scope.owner, Function):
        path.append(scope)
        scope = scope.parent
    owner = owners.setdefault(scope, scope.owner) if isinstance(scope.owner, Function) else owners[scope]
    owners.update(dict.fromkeys(path, owner))
    return owner
