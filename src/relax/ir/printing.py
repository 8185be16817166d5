"""Access to the printer of nodes, which a higher package provides.

The printer registers itself in `provided` when it is loaded. Printing a node loads it on first use. If it is missing or
fails (broken IR must still print), a node is shown as its class and fields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, cast

from .deep import run_deep
from .diagnostics import DiagnosticError
from .provided import provide, provided

Annotate: TypeAlias = "Callable[[Any], str]"
"""Return the comment for an expression; an empty text for none."""


class Printer(Protocol):
    """Interface of the printer in `relax.script`."""

    def script(self, node: Any, **options: Any) -> str: ...

    def astext(self, node: Any, show_meta_data: bool, annotate: Annotate | None) -> str: ...

    def show(self, node: Any, **options: Any) -> None: ...

    def show_text(self, text: str, style: str | None) -> None: ...


def _loaded_printer() -> Printer | None:
    """The printer; None if its package is not installed."""
    try:
        return cast(Printer, provided("printer"))
    except ImportError:
        return None


_dialects: list[tuple[Callable[[Any], bool], Printer]] = []


def register_dialect(is_own: Callable[[Any], bool], printer: Printer) -> None:
    """Use `printer` for the nodes accepted by `is_own`, which belong to another language than TVMScript."""
    _dialects.append((is_own, printer))


def _printer_of(node: Any) -> Printer | None:
    return next((printer for is_own, printer in _dialects if is_own(node)), None) or _loaded_printer()


def register_printer(printer: Printer) -> None:
    """Set the printer behind `.script()`, `.show()` and `repr`."""
    provide("printer", printer)


def script(node: Any, **options: Any) -> str:
    """Text of a node as TVMScript; its class and fields without a printer."""
    return _printed(node, lambda printer: printer.script(node, **options))


def astext(node: Any, show_meta_data: bool, annotate: Annotate | None) -> str:
    """Complete text of a node in its language; its class and fields without a printer."""
    return _printed(node, lambda printer: printer.astext(node, show_meta_data, annotate))


def _printed(node: Any, text: Callable[[Printer], str]) -> str:
    printer = _printer_of(node)
    if printer is None:
        return plain(node)
    try:
        return run_deep("the program", "printed", lambda: text(printer))
    except DiagnosticError:
        return f"<broken {type(node).__name__}: it nests too deeply to be printed, or contains itself>"


def show(node: Any, **options: Any) -> None:
    """Print a node as TVMScript."""
    printer = _printer_of(node)
    if printer is None:
        print(plain(node))  # noqa: T201
    else:
        printer.show(node, **options)


def show_text(text: str, style: str | None = None) -> None:
    """Print Python text, highlighted on a terminal."""
    printer = _loaded_printer()
    if printer is None:
        print(text)  # noqa: T201
    else:
        printer.show_text(text, style)


def represent(node: Any) -> str:
    """`repr` of a node: its script, or its class and fields if printing fails."""
    try:
        printer = _printer_of(node)
        return plain(node) if printer is None else printer.script(node)
    except Exception:  # noqa: BLE001  repr must never fail: it is what a debugger calls on broken IR
        return plain(node)


def plain(node: Any, depth: int = 3) -> str:
    """Class and fields of a node, `depth` levels deep."""
    fields: tuple[Any, ...] | None = getattr(cast(Any, type(node)), "__node_fields__", None)
    if fields is None:
        return repr(node)
    if depth == 0:
        return f"{type(node).__name__}(…)"
    inner = ", ".join(f"{f.name}={_plain_value(getattr(node, f.name, '?'), depth - 1)}" for f in fields)
    return f"{type(node).__name__}({inner})"


def _plain_value(value: Any, depth: int) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(_plain_value(item, depth) for item in cast('tuple[Any, ...]', value))})"
    if isinstance(value, dict):
        table = cast("dict[Any, Any]", value)
        pairs = (f"{_plain_value(k, depth)}: {_plain_value(v, depth)}" for k, v in table.items())
        return "{" + ", ".join(pairs) + "}"
    return plain(value, depth)
