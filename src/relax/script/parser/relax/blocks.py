"""Binding blocks under construction in the Relax parser."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import field

from ....expr import Binding, BindingBlock, DataflowBlock, SeqExpr, Var
from ....ir import RelaxExpr, Span
from ....runtime.records import dataclass


@dataclass(eq=False)
class DataflowScope:
    """A dataflow block being read."""

    definitions: dict[str, list[ast.stmt]]
    """Per output name of the block, the statements that may define it last; these create a Var."""
    outputs_seen: bool = False
    variables: set[Var] = field(default_factory=set[Var])


@dataclass(eq=False)
class SeqBuilder:
    """Builder of one SeqExpr from its bindings."""

    blocks: list[BindingBlock] = field(default_factory=list[BindingBlock])
    bindings: list[Binding] = field(default_factory=list[Binding])

    def emit(self, binding: Binding) -> None:
        self.bindings.append(binding)

    def close(self, dataflow: bool = False, span: Span | None = None) -> None:
        """End the current block if it is not empty."""
        if self.bindings:
            kind = DataflowBlock if dataflow else BindingBlock
            self.blocks.append(kind(self.bindings, span=span))
            self.bindings = []

    def finish(self, body: RelaxExpr, span: Span | None) -> SeqExpr:
        self.close()
        return SeqExpr(self.blocks, body, span=span)


def output_definitions(body: Sequence[ast.stmt]) -> dict[str, list[ast.stmt]]:
    """Names in a dataflow block's ``R.output(...)``, each with the statements that may define it last."""
    names: set[str] = set()
    for statement in body:
        match statement:
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="output" | "outputs"), args=args)):
                names.update(arg.id for arg in args if isinstance(arg, ast.Name))
            case _:
                pass
    definitions: dict[str, list[ast.stmt]] = {}
    _find_definitions(body, names, definitions)
    return definitions


def _find_definitions(body: Sequence[ast.stmt], names: set[str], definitions: dict[str, list[ast.stmt]]) -> None:
    for statement in body:
        if isinstance(statement, ast.For):
            _find_definitions(statement.body, names, definitions)
        if isinstance(statement, ast.If):  # decided while parsing: either branch may turn out to be the one read
            for branch in (statement.body, statement.orelse):
                inner: dict[str, list[ast.stmt]] = {}
                _find_definitions(branch, names, inner)
                for name, statements in inner.items():
                    definitions[name] = [*definitions.get(name, ()), *statements]
        for name in defined_names(statement):
            if name in names:
                definitions[name] = [statement]


def defined_names(statement: ast.stmt) -> list[str]:
    """Names defined by an assignment or a local function."""
    match statement:
        case ast.Assign(targets=targets):
            return [name for target in targets for name in target_names(target)]
        case ast.AnnAssign(target=target) | ast.AugAssign(target=target):
            return target_names(target)
        case ast.FunctionDef(name=name):
            return [name]
        case _:
            return []


def target_names(target: ast.expr) -> list[str]:
    """Names of an assignment's target."""
    if isinstance(target, ast.Name):
        return [target.id]
    if isinstance(target, (ast.Tuple, ast.List)):
        return [name for item in target.elts for name in target_names(item)]
    return []


def result_names(body: Sequence[ast.stmt]) -> list[str] | None:
    """Names assigned by a branch's last statement, the results of an ``if``. None if it assigns none."""
    if not body:
        return None
    last = body[-1]
    match last:
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
            return target_names(target)
        case ast.If(body=then, orelse=other):
            names = result_names(then)
            return names if names is not None and names == result_names(other) else None
        case ast.With(body=inner):
            names = list(output_definitions(inner))
            return names if len(names) == 1 else None
        case _:
            return None


def always_returns(body: Sequence[ast.stmt]) -> bool:
    """True if every path through the statements ends in a return."""
    match body[-1] if body else None:
        case ast.Return():
            return True
        case ast.If(body=then, orelse=other):
            return always_returns(then) and always_returns(other)
        case _:
            return False
