"""What must hold of a random Relay program: the evaluator's values are kept by text, passes and compilation.

A program that to_relax has no translation for (E9050) is not compiled. Programs with one thing broken are refused, with
a place in the text.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import relax
from relax import relay
from relax.ir import DiagnosticError, IRModule
from relax.ir.transform import Pass
from relax.relay.types import FuncType, TensorType, TupleType
from relax.relay.values import ConstructorValue

from .choices import Choices, Seeded
from .properties import Failure
from .relay_programs import RelayProgram

NOT_TRANSLATED = "E9050"
DECLINED = ("E9070", "E9071")
"""The codes of passes that do not take a program."""


def relay_agrees(
    text: str, cases: list[list[Any]], seed: str = "", compiles: bool = True, seen: Counter[str] | None = None
) -> None:
    """Hold a program, by its text, to all properties. `seen` counts what was compiled. Raises Failure."""
    mod = relay.parse(text)
    prints(mod, "the program")
    expected = results(mod, cases)
    for name, pass_ in passes().items():
        changed = _passed(pass_, relay.parse(text))
        if changed is None:
            continue
        _same(results(changed, cases), expected, f"after {name}")
        prints(changed, f"the program after {name}")
        if name != "PartialEvaluate":  # which finds more in what it has made
            _idempotent(pass_, changed, name)
    refuses(relay.parse(text), Seeded(f"{seed}:{text}"))
    if compiles:
        compiled = translates(relay.parse(text), cases, expected)
        if seen is not None:
            seen["relay:compiled" if compiled else "relay:only evaluated"] += 1


def _passed(pass_: Pass, mod: IRModule) -> IRModule | None:
    """The module after a pass; None if the pass says that the program is not for it."""
    try:
        return pass_(mod)
    except DiagnosticError as error:
        if all(diagnostic.code in DECLINED for diagnostic in error.diagnostics):
            return None
        raise


def passes() -> dict[str, Pass]:
    """The passes of `relay.transform` that need no arguments, and leave main's parameters."""
    made: dict[str, Pass] = {}
    for name in relay.transform.__all__:
        if name == "ToCPS":  # main takes a continuation
            continue
        item: Any = getattr(relay.transform, name)
        if isinstance(item, Pass) and not hasattr(item, "__signature__"):
            made[name] = item
        elif name[0].isupper() and not _required(item):
            item = item()
            if isinstance(item, Pass):
                made[name] = item
    return made


def _required(item: Callable[..., Any]) -> bool:
    empty = inspect.Parameter.empty
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(item).parameters.values()
    return any(p.default is empty and p.kind not in kinds for p in parameters)


def results(mod: IRModule, cases: list[list[Any]]) -> list[Any]:
    """The values of main by the evaluator, as Python values."""
    main = relay.create_executor("debug", mod).evaluate()
    return [plain(main(*case)) for case in cases]


def plain(value: Any) -> Any:
    """A value as Python values, which are equal where the values are."""
    if isinstance(value, (tuple, list)):
        return tuple(map(plain, value))
    if isinstance(value, ConstructorValue):
        return (value.constructor.name_hint, *map(plain, value.fields))
    array = value.numpy()
    return array.dtype.name, array.shape, tuple(array.ravel().tolist())


def _same(found: list[Any], expected: list[Any], where: str) -> None:
    for one, other in zip(found, expected, strict=True):
        if one != other:
            raise Failure(f"another value {where.split(' ')[0]}", f"{where}: expected {other}, found {one}")


def prints(mod: IRModule, what: str) -> None:
    """Printing and parsing is the identity, up to alpha-equality."""
    text = relay.astext(mod)
    again = relay.parse(text)
    for name, function in mod.functions.items():
        if isinstance(function, relay.Function) and not relay.alpha_equal(again[name.name_hint], function):
            raise Failure("print", f"@{name.name_hint} of {what} is read as another function:\n{text}")


def _idempotent(pass_: Pass, mod: IRModule, name: str) -> None:
    again = pass_(mod)
    for key, function in mod.functions.items():
        other = again[key.name_hint]
        if isinstance(function, relay.Function) and not relay.alpha_equal(other, function):  # type: ignore[arg-type]
            raise Failure(f"twice {name}", f"{name} done twice changes @{key.name_hint} again")


def translates(mod: IRModule, cases: list[list[Any]], expected: list[Any]) -> bool:
    """The program as Relax, interpreted and compiled, gives the same values; False if it has no translation."""
    try:
        translated = relay.to_relax(mod)
    except DiagnosticError as error:
        if all(diagnostic.code == NOT_TRANSLATED for diagnostic in error.diagnostics):
            return False
        raise
    found = [plain(relax.interpret(translated, "main", *case)) for case in cases]
    _same(found, expected, "interpreted as Relax")
    main = relax.VirtualMachine(relax.build(translated))["main"]
    _same([plain(main(*case)) for case in cases], expected, "compiled")
    return True


# -- broken programs


def refuses(mod: IRModule, choices: Choices) -> None:
    """A program with one thing broken is refused, and each complaint has a place in the text."""
    broken = broken_text(mod, choices)
    if broken is None:
        return
    name, text = broken
    try:
        relay.transform.InferType()(relay.parse(text))
    except DiagnosticError as error:
        missing = [str(diagnostic) for diagnostic in error.diagnostics if diagnostic.span is None]
        if missing:
            raise Failure(f"no place {name}", f"{name}: {missing[0]}\n{text}") from None
        return
    raise Failure(f"accepted {name}", f"a program is accepted though it has {name}:\n{text}")


def broken_text(mod: IRModule, choices: Choices) -> tuple[str, str] | None:
    """The text of a program with one node of main replaced by what cannot stand there, and the name of the mistake."""
    relay.transform.InferType()(mod)
    main: Any = mod["main"]
    if choices.chance(20):
        return _broken_name(relay.astext(mod), choices)
    options: list[tuple[str, Any, Any]] = []
    relay.analysis.post_order_visit(
        main, lambda node: options.extend((name, node, bad) for name, bad in _mistakes(node))
    )
    if not options:
        return None
    name, place, bad = choices.pick(options)

    class Replace(relay.MixedModeMutator):
        def visit(self, expr: Any) -> Any:
            self.memo_map.setdefault(place, bad)
            return super().visit(expr)

    changed = mod.clone()
    changed.update({mod.get_global_var("main"): Replace().visit(main)})
    return name, relay.astext(changed)


_OPERATION = re.compile(r"\b(?P<name>add|subtract|multiply|maximum|minimum|equal|less)\((?P<operand>%[\w.]+)")


def _broken_name(text: str, choices: Choices) -> tuple[str, str] | None:
    """The text with the name of an operator, or of a variable, that there is not."""
    calls = list(_OPERATION.finditer(text))
    if not calls:
        return None
    call, group = choices.pick(calls), choices.pick(("name", "operand"))
    other = {"name": "frobnicate", "operand": "%nowhere"}[group]
    return f"an unknown {group}", text[: call.start(group)] + other + text[call.end(group) :]


def _mistakes(node: Any) -> list[tuple[str, Any]]:
    """Ways to break a node of a well-typed program."""
    unit = relay.Tuple(())
    match node:
        case relay.Call(relay.Op() as op, args) if len(args) == 2 and op.name != "take":
            return [
                ("an operand too few", node.replace(args=args[:1])),
                ("a tuple as operand", node.replace(args=(unit, args[1]))),
            ]
        case relay.Call(_, args):
            return [("an argument too many", node.replace(args=(*args, unit)))]
        case relay.If():
            return [("a condition that is no bool", node.replace(cond=relay.const(1.5)))]
        case relay.TupleGetItem():
            return [("a field that is not there", node.replace(index=node.index + 9))]
        case relay.RefRead() | relay.RefWrite():
            return [("a reference that is none", node.replace(ref=relay.const(1)))]
        case relay.Match() if len(node.clauses) > 1 and not _has_wildcard(node):
            return [("a match that leaves out a case", node.replace(clauses=node.clauses[:1]))]
        case relay.Function() if node.ret_type is not None and isinstance(node.ret_type, TensorType | TupleType):
            return [("another result type", node.replace(ret_type=FuncType((), TupleType(()))))]
        case _:
            return []


def _has_wildcard(node: Any) -> bool:
    patterns = [clause.lhs for clause in node.clauses]
    return any(isinstance(pattern, relay.PatternWildcard | relay.PatternTuple) for pattern in patterns)


def check_program(program: RelayProgram, seed: str, compiles: bool = True) -> None:
    """Hold a program to all properties, that its text is the program among them."""
    for name, function in relay.parse(program.text).functions.items():
        if not relay.alpha_equal(function, program.mod[name.name_hint]):  # type: ignore[arg-type]
            raise Failure("print", f"@{name.name_hint} is printed as another function")
    relay_agrees(program.text, program.cases, seed, compiles, program.features)
