"""Call sites in errors: the active Relax functions and their source locations.

Messages of the machine and of kernels begin with the name of the function that ran; to those of packed functions, which
are their own, the place is added as a note. The functions that waited for it follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from .values import RESULT

SHOWN_FRAMES: Final = 8
_LOCATED: Final = "__relax_located__"
_HIDDEN: Final = "__relax_hidden__"
"""Attribute of an error: the number of calls that its notes count and do not show."""


class CallSite(NamedTuple):
    """A call in a Relax function."""

    function: str
    location: str
    """Source location, "" if unknown."""
    callee: str = ""
    """Name of the callee if it is shown, else ""."""
    foreign: bool = False
    """True if the callee's messages are its own."""


def annotate(error: Exception, call_sites: Sequence[CallSite]) -> None:
    """Add the active calls (`call_sites`, innermost first) to an error as notes.

    An error that passed another machine, or a function of this one in another mode, knows the inner ones already.
    """
    if not call_sites:
        return
    inside = call_sites[0]
    located = getattr(error, _LOCATED, False)
    message = error.args[0] if len(error.args) == 1 and isinstance(error.args[0], str) else None
    own = not located and (not inside.foreign or (message is not None and message.startswith(RESULT)))
    if message is not None and own and not message.startswith(f"{inside.function}: "):
        message = f"{inside.function}: {message}"
        error.args = (message,)
        error.__dict__.pop("__tvm_ffi_error__", None)  # it carries the old message across the C ABI
    waiting = call_sites if located else call_sites[1:]
    lines: list[str] = []
    if not located and (inside.foreign or waiting or inside.location):
        doing = f", calling {inside.callee}" if inside.callee else ""
        lines.append(_line(inside, doing))
    hidden = getattr(error, _HIDDEN, 0)
    shown = 0 if hidden else SHOWN_FRAMES
    lines += [_line(call_site, "") for call_site in waiting[:shown]]
    if len(waiting) > shown:
        _drop_count(error, hidden)
        hidden += len(waiting) - shown
        setattr(error, _HIDDEN, hidden)
        lines.append(_count(hidden))
    if lines:
        _add_note(error, "\n".join(lines), message if inside.foreign else None)
    setattr(error, _LOCATED, True)


def _count(hidden: int) -> str:
    return f"… and {hidden} more calls"


def _drop_count(error: Exception, hidden: int) -> None:
    """Take the number of hidden calls out of the last note of an error."""
    notes: list[str] = getattr(error, "__notes__", [])
    if hidden and notes:
        notes[-1] = notes[-1].removesuffix(f"\n{_count(hidden)}")


def _add_note(error: Exception, note: str, message: str | None) -> None:
    notes: list[str] = getattr(error, "__notes__", [])
    add_note = getattr(error, "add_note", None)
    if getattr(error, _LOCATED, False) and notes:
        notes[-1] += f"\n{note}"
    elif add_note is not None:
        add_note(note)
    elif message is not None:  # Python 3.10 has no notes
        error.args = (f"{message}\n{note}",)


def _line(call_site: CallSite, doing: str) -> str:
    at = f" ({call_site.location})" if call_site.location else ""
    return f"  in Relax function {call_site.function}{at}{doing}"
