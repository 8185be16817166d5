"""Check that every field of every node has its declared type and that no node contains itself.

Constructors take what they are given, so a program can hold None where an expression belongs. All that looks at a
program (rules, derivation, printing) may rely on declared types; here they are checked, from the declarations
themselves. Loops (PrimFunc) and the attributes of operators have checks of their own.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from ..ir import BaseFunc, Diagnostic, IRModule, Node, RelaxExpr, Span, StoredArray, StructInfo
from ..ir.node import NODE_CLASSES, node_key
from ..tir.stmt import PrimFunc

BROKEN_NODE = "E2100"
_HINT = "build nodes from nodes; `replace` copies one with some fields changed"

Problem = tuple[str, Any, str]
"""The path to a value inside a field, the value, and what was expected."""
Check = Callable[[Any, str], Iterator[Problem]]


def check_nodes(obj: IRModule | BaseFunc | RelaxExpr) -> list[Diagnostic]:
    """Return a diagnostic for each field of a wrong type and each node that contains itself."""
    diagnostics: list[Diagnostic] = []
    finished: set[int] = set()  # by identity: struct infos are equal by structure, which a broken one may not have
    path: set[int] = set()
    work: list[tuple[Node, Span | None, bool]] = [(obj, None, False)]
    while work:
        node, span, is_left = work.pop()
        if is_left:
            path.remove(id(node))
            finished.add(id(node))
        elif id(node) in path:
            diagnostics.append(_broken(f"this {type(node).__name__} contains itself", span))
        elif id(node) not in finished:
            path.add(id(node))
            own: object = getattr(node, "span", None)
            here = own if isinstance(own, Span) else span
            if node_key(type(node)) not in NODE_CLASSES:
                diagnostics.append(
                    _broken(f"{type(node).__name__} is no kind of node, only what kinds have in common", here)
                )
            if not all(fits(getattr(node, name, None)) for name, fits in _quick_checks(type(node))):
                diagnostics += [_broken(f"{_owner(node)}{text}", here) for text in _problems(node)]
            work.append((node, span, True))
            below = [(item, here, False) for item in _below(node)]
            work += reversed(below)
    return diagnostics


def _broken(message: str, span: Span | None) -> Diagnostic:
    return Diagnostic(BROKEN_NODE, f"broken node: {message}", span, hint=_HINT)


def _owner(node: Node) -> str:
    for label in ("name_hint", "name"):
        name: object = getattr(node, label, None)
        if isinstance(name, str):
            return f"{type(node).__name__} {name}: "
    return f"{type(node).__name__}: "


def _problems(node: Node) -> Iterator[str]:
    for name, check in _checks(type(node)):
        if _is_stored(node, name):
            continue
        value: Any = getattr(node, name, None)
        for path, item, expected in check(value, name.removeprefix("_")):
            yield f"{path} is {_shown(item)}, expected {expected}"


def _shown(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _is_stored(node: Node, field: str) -> bool:
    """True for constants stored in a file, whose elements were checked when the file was written."""
    return field == "data" and isinstance(getattr(node, "content", None), StoredArray)


def _below(node: Node) -> list[Node]:
    children: list[Node] = []
    for name, _ in _checks(type(node)):
        if not _is_stored(node, name):
            value: Any = getattr(node, name, None)
            if isinstance(value, Node):
                if name != "attrs":
                    children.append(value)
            elif isinstance(value, (tuple, dict)):
                children.extend(_nodes_in(value, name == "attrs"))
    return children


def _nodes_in(value: Any, is_attrs: bool) -> Iterator[Node]:
    match value:
        case Node() if not is_attrs:
            yield value
        case tuple():
            for item in cast("tuple[Any, ...]", value):
                yield from _nodes_in(item, is_attrs)
        case dict():
            for key, item in cast("dict[Any, Any]", value).items():
                yield from _nodes_in(key, is_attrs)
                yield from _nodes_in(item, is_attrs)
        case _:
            pass


# ------------------------------------------------------------------------------------ declarations


@functools.cache
def _hints(cls: type[Node]) -> dict[str, Any]:
    """The declared types of fields."""
    try:
        return get_type_hints(cls)
    except NameError:  # a class from elsewhere, whose annotations are not to be read from here
        return {}


@functools.cache
def _checks(cls: type[Node]) -> tuple[tuple[str, Check], ...]:
    """A check for each field of a node class, and for the struct info that derivation writes."""
    if issubclass(cls, PrimFunc):
        return ()
    hints = _hints(cls)
    checks = [(spec.name, _check(hints.get(spec.name, Any))) for spec in cls.__node_fields__]
    if issubclass(cls, RelaxExpr):
        checks.append(("_struct_info", _check(StructInfo | None)))
    return tuple(checks)


def _check(declared: Any) -> Check:
    """The check of a declared type: a class, a union, a tuple, a dict, or Any."""
    origin, args = get_origin(declared), get_args(declared)
    if declared is Any:
        return _anything
    if origin in (Union, types.UnionType):
        return _union(args)
    if origin is tuple:
        return _tuple(_check(args[0]))
    if origin is dict:
        return _dict(_check(args[0]), _check(args[1]))
    return _instance((declared,), declared.__name__) if isinstance(declared, type) else _anything


@functools.cache
def _quick_checks(cls: type[Node]) -> tuple[tuple[str, Callable[[Any], bool]], ...]:
    """Fast accept tests per field; values they do not accept go through the full checks above."""
    checks = _checks(cls)
    if any(name == "data" for name, _ in checks):  # the elements of a constant may be in a file
        return (("span", _nothing),)
    hints = _hints(cls)
    return tuple(
        (name, _fits(StructInfo | None if name == "_struct_info" else hints.get(name, Any))) for name, _ in checks
    )


def _fits(declared: Any) -> Callable[[Any], bool]:
    """Return a fast accept test for a declared type; False may also mean that a full check is needed."""
    origin, args = get_origin(declared), get_args(declared)
    if declared is Any:
        return lambda value: True
    if origin in (Union, types.UnionType):
        rest = [option for option in args if option is not types.NoneType]
        if len(rest) > 1:
            classes = tuple(option for option in rest if isinstance(option, type))
            return lambda value: isinstance(value, classes)
        inner = _fits(rest[0])
        return lambda value: value is None or inner(value)
    if origin is tuple:
        items = _fits(args[0])
        return lambda value: isinstance(value, tuple) and all(map(items, cast("tuple[Any, ...]", value)))
    if origin is dict:
        return lambda value: isinstance(value, dict) and not value
    return (lambda value: isinstance(value, declared)) if isinstance(declared, type) else _nothing


def _nothing(value: Any) -> bool:
    return False


def _anything(value: Any, path: str) -> Iterator[Problem]:
    return iter(())


def _instance(classes: tuple[type, ...], expected: str) -> Check:
    def check(value: Any, path: str) -> Iterator[Problem]:
        if not isinstance(value, classes):
            yield path, value, expected

    return check


def _union(options: tuple[Any, ...]) -> Check:
    """None, or one other type; or classes."""
    rest = [option for option in options if option is not types.NoneType]
    if len(rest) > 1:
        return _instance(tuple(rest), " or ".join(option.__name__ for option in rest))
    inner = _check(rest[0])

    def check(value: Any, path: str) -> Iterator[Problem]:
        if value is not None:
            yield from inner(value, path)

    return check


def _tuple(inner: Check) -> Check:
    def check(value: Any, path: str) -> Iterator[Problem]:
        if not isinstance(value, tuple):
            yield path, value, "tuple"
            return
        for i, item in enumerate(cast("tuple[Any, ...]", value)):
            yield from inner(item, f"{path}[{i}]")

    return check


def _dict(keys: Check, values: Check) -> Check:
    def check(value: Any, path: str) -> Iterator[Problem]:
        if not isinstance(value, dict):
            yield path, value, "dict"
            return
        for key, item in cast("dict[Any, Any]", value).items():
            yield from keys(key, f"a key of {path}")
            yield from values(item, f"{path}[{getattr(key, 'name_hint', key)!r}]")

    return check
