"""Rules 7, 8 and 9: contents of dataflow blocks, recursion, and operators."""

from __future__ import annotations

from collections.abc import Iterator

from ...expr import Call
from ...ir import GlobalVar
from ..program import ProgramFacts
from .violation import Violation


def rule_7(program: ProgramFacts) -> Iterator[Violation]:
    """Inside a DataflowBlock: no If, no recursive call, no call to a mutually recursive global."""
    hint = "end the dataflow block before it"
    for item in program.ifs_in_dataflow:
        yield Violation(7, "a dataflow block has no control flow, so no if", item.place, hint)
    for item in program.calls_in_dataflow:
        call: Call = item.node
        caller = item.place.scope.function
        if not isinstance(call.op, GlobalVar) or call.op.name_hint not in program.recursive:
            continue
        callee = call.op.name_hint
        if program.recursive[callee] == program.recursive.get(caller):
            kind = "recursive" if callee == caller else "mutually recursive"
            yield Violation(7, f"a dataflow block has no {kind} calls, found one of {callee}", item.place, hint)
    for item in program.recursive_calls:
        name = item.node.name_hint
        yield Violation(7, f"a dataflow block has no recursive calls, found one of {name}", item.place, hint)


def rule_8(program: ProgramFacts) -> Iterator[Violation]:
    """A recursive or mutually recursive function has a return annotation."""
    hint = "write -> <struct info> after its parameters"
    for literal in program.functions:
        name = literal.place.scope.function
        if literal.function.ret_struct_info is not None:
            continue
        if literal.var is not None:
            if literal.calls_itself and literal.var.annotation is None:
                name = literal.var.name_hint
                message = f"the recursive function {name} has no return annotation"
                yield Violation(8, message, literal.place, hint)
        elif name in program.recursive and literal.place.scope.parent is None:
            message = f"the recursive function {name} has no return annotation"
            yield Violation(8, message, literal.place, hint)


def rule_9(program: ProgramFacts) -> Iterator[Violation]:
    """Op occurs only as a Call's op."""
    for item in program.ops_as_values:
        yield Violation(
            9, f"the operator {item.node.name} is used as a value", item.place, "call it, or wrap it into a function"
        )
