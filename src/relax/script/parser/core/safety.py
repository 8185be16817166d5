"""Safety: the objects and attributes accessible to the evaluator.

A program decorated in Python is the user's own code: its expressions may use any visible Python object. A text given to
`from_source` is untrusted. It sees the script namespaces, a few harmless builtins and the variables passed explicitly;
of an object it sees only the attributes listed here, never one that leads out of the IR (no underscores, no arrays, no
modules), and the size of its numbers is limited.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from ....ir import DataType, Node, Span
from ....ir.tvm_names import reason
from .diagnostics import ATTRIBUTE, FORBIDDEN, close, fail
from .scope import MISSING

MAX_ITERATIONS: Final = 100_000
LAMBDA_STEPS: Final = 10
"""Number of iterations that a lambda call counts as, since its body is interpreted anew."""
MAX_BITS: Final = 4096
_TVM_MODULES: Final[Mapping[str, Sequence[str]]] = {
    "R": ("relax.op", "relax"),
    "R.image": ("relax.op.image",),
    "R.vision": ("relax.op.vision",),
    "R.memory": ("relax.op.memory",),
    "R.distributed": ("relax.op.distributed",),
    "T": ("relax.tir",),
}
"""Modules of namespaces in which TVM has further names that are not implemented."""


def _bounded(values: Iterable[Any]) -> Iterator[Any]:
    for count, value in enumerate(values):
        if count >= MAX_ITERATIONS:
            fail(FORBIDDEN, f"more than {MAX_ITERATIONS} items in a program given as text", None)
        yield value


def _list(values: Iterable[Any] = ()) -> list[Any]:
    return list(_bounded(values))


def _tuple(values: Iterable[Any] = ()) -> tuple[Any, ...]:
    return tuple(_bounded(values))


def _sum(values: Iterable[Any], start: Any = 0) -> Any:
    return sum(_bounded(values), start)


def _max(*values: Any) -> Any:
    return max(_bounded(values[0] if len(values) == 1 else values))


def _min(*values: Any) -> Any:
    return min(_bounded(values[0] if len(values) == 1 else values))


BUILTINS: Final[dict[str, Any]] = {
    "abs": abs, "bool": bool, "enumerate": enumerate, "float": float, "int": int, "len": len, "list": _list,
    "max": _max, "min": _min, "range": range, "reversed": reversed, "str": str, "sum": _sum, "tuple": _tuple,
    "zip": zip,
}  # fmt: skip
"""Python builtins that text may call; those that iterate over their argument stop at a limit."""

METHODS: Final = frozenset({
    "access_ptr", "asobject", "astype", "dims", "dtype", "equal", "ndim", "shape", "struct_info", "vload",
    "vstore", "name_hint", "name", "offset_of", "store", "scope", "get_flattened_buffer",
})  # fmt: skip
"""Attributes and methods of nodes that text may use, beyond declared fields."""

_DTYPE_FACTS: Final = frozenset({"bits", "lanes", "code", "itemsize", "min_value", "max_value", "element_of"})


class Namespace:
    """A group of names that a script accesses with a dot. Every public attribute of a subclass's object is reachable.

    For members computed on demand, override `__getattr__` (raise AttributeError for missing names).
    """


_MODULES: set[types.ModuleType] = set()


def register_namespace(module: types.ModuleType) -> None:
    """Let scripts use a module's public names: ``__all__``, and names resolved by its ``__getattr__``."""
    _MODULES.add(module)


def is_namespace(value: Any) -> bool:
    """True if scripts may use the members of a value."""
    return isinstance(value, Namespace) or (isinstance(value, types.ModuleType) and value in _MODULES)


def is_script_function(value: Any) -> bool:
    """True if scripts may call a function: one of a namespace, or an allowed builtin."""
    name: Any = getattr(value, "__name__", "")
    if not callable(value) or not isinstance(name, str):
        return False
    return any(value is builtin for builtin in BUILTINS.values()) or any(
        member(module, name.rstrip("_")) is value or member(module, name) is value for module in _MODULES
    )


def attribute(value: Any, name: str, span: Span, trusted: bool) -> Any:
    """``value.name`` in a script. Raises DiagnosticError for a missing or forbidden attribute."""
    if is_namespace(value):
        return _member(value, name, span)
    if not trusted:
        _check_allowed(value, name, span)
    try:
        return getattr(value, name)
    except AttributeError:
        fail(
            ATTRIBUTE,
            f"{_describe(value)} has no attribute `{name}`",
            span,
            hint=close(name, (n for n in dir(value) if not n.startswith("_"))),
        )
    except (ValueError, TypeError, KeyError, RuntimeError) as problem:  # a property that refuses
        fail(ATTRIBUTE, f"`{name}` of {_describe(value)}: {problem}", span)


def member(value: Any, name: str) -> Any:
    """Public member of a namespace, MISSING if there is none (or `value` is not a namespace)."""
    if name.startswith("_") or not is_namespace(value):
        return MISSING
    exported: Sequence[str] | None = getattr(value, "__all__", None)
    try:
        if exported is None or name in exported or not isinstance(value, types.ModuleType):
            return getattr(value, name)
        lookup: Callable[[str], Any] | None = value.__dict__.get("__getattr__")
        return MISSING if lookup is None else lookup(name)
    except AttributeError:
        return MISSING


def _member(value: Any, name: str, span: Span) -> Any:
    member_value = member(value, name)
    if member_value is not MISSING:
        return member_value
    listing: Callable[[], Sequence[str]] | None = getattr(value, "__dict__", {}).get("__dir__")
    names = listing() if listing is not None else (getattr(value, "__all__", None) or dir(value))
    label = getattr(value, "__script_name__", None) or _describe(value)
    why = next(filter(None, (reason(module, name) for module in _TVM_MODULES.get(label, ()))), "")
    fail(ATTRIBUTE, f"`{label}` has no member `{name}`", span, hint=why or close(name, names))


def _check_allowed(value: Any, name: str, span: Span) -> None:
    allowed = False
    if not name.startswith("_"):
        if isinstance(value, Node):
            fields = {spec.name for spec in value.__node_fields__}
            allowed = (name in fields and _harmless(getattr(value, name))) or name in METHODS
        elif isinstance(value, DataType):
            allowed = name in _DTYPE_FACTS
        elif isinstance(value, types.SimpleNamespace):
            allowed = True
        else:
            allowed = name in getattr(value, "__script_attributes__", ())
    if not allowed:
        fail(
            FORBIDDEN,
            f"text given to from_source may not use the attribute `{name}` of {_describe(value)}",
            span,
            hint="compute the value in Python and pass it in extra_vars",
        )


def _harmless(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(_harmless(item) for item in cast("Sequence[Any]", value))
    if isinstance(value, Mapping):
        return all(_harmless(item) for item in cast("Mapping[Any, Any]", value).values())
    return value is None or isinstance(value, (Node, str, int, float))


def check_arithmetic(operator: str, a: Any, b: Any, span: Span) -> None:
    """Raise DiagnosticError for Python arithmetic whose result would be huge."""
    if isinstance(a, float) or isinstance(b, float):
        return
    size = 0
    if operator == "Add" and isinstance(a, (str, list, tuple)) and isinstance(b, (str, list, tuple)):
        size = (len(cast("Sequence[Any]", a)) + len(cast("Sequence[Any]", b))) // 256
    if isinstance(b, int):
        if operator == "Pow" and isinstance(a, int):
            size = a.bit_length() * max(b, 0)
        elif operator == "LShift":
            size = b
        elif operator == "Mult" and isinstance(a, int):
            size = (a.bit_length() + b.bit_length()) // 16
        elif operator == "Mult" and isinstance(a, (str, list, tuple)):
            size = len(cast("Sequence[Any]", a)) * max(b, 0) // 256
        elif operator == "Mod" and isinstance(a, str):
            size = MAX_BITS + 1  # "%99999999d" % 1
    elif operator == "Mult" and isinstance(a, int):
        check_arithmetic(operator, b, a, span)
    elif operator == "Mod" and isinstance(a, str):
        size = MAX_BITS + 1
    if size > MAX_BITS:
        fail(FORBIDDEN, "this computes a value too large for a program given as text", span)


def check_size(value: Any, span: Span) -> None:
    """Raise DiagnosticError for a collection with too many items, counted recursively.

    Twenty lines of ``a = (a, a)`` make a small object whose text, hash and comparison are huge.
    """
    pending, count = [value], 0
    while pending:
        item = pending.pop()
        if isinstance(item, Mapping):
            mapping = cast("Mapping[Any, Any]", item)
            inner = [*mapping.keys(), *mapping.values()]
        elif isinstance(item, (tuple, list)):
            inner = list(cast("Sequence[Any]", item))
        else:
            continue
        count += len(inner)
        if count > MAX_ITERATIONS:
            fail(FORBIDDEN, f"more than {MAX_ITERATIONS} items in a program given as text", span)
        pending += inner


def _describe(value: Any) -> str:
    if isinstance(value, types.ModuleType):
        return f"module `{value.__name__}`"
    return f"a value of type {type(value).__name__}"
