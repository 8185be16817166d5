"""Calls of functions in text that comes in pieces: JSON objects with a name and arguments, scanned by characters.

    {"name": "weather", "arguments": {"city": "Rome"}}          one after another, or in an array
    {"type": "function", "function": {"name": …, "arguments": …}}
    weather[ARGS]{"city": "Rome"}                               newer models of Mistral

Arguments are passed on as they come, once the name is known.
"""

from __future__ import annotations

import json
import secrets
import string
from collections.abc import Callable, Collection, Generator
from typing import Final, TypeAlias, final

from ..runtime.records import dataclass

Scan: TypeAlias = Generator[None, str, str]
"""Coroutine that takes characters, "" at the end of the text; its result is the first one that it does not use."""

_SPACE: Final = frozenset(" \t\r\n")
_CLOSING: Final = {"{": "}", "[": "]"}
_ARGUMENTS: Final = ("arguments", "parameters")
_LONGEST_NAME: Final = 256


@dataclass(frozen=True, slots=True)
class CallPart:
    """Next part of a call. The first part has the id and the name; the arguments of all parts are one JSON text."""

    index: int
    """Number of the call within its answer, from 0 on."""
    arguments: str
    id: str = ""
    name: str = ""


class BrokenCallError(ValueError):
    """Text that is no call: broken JSON, or a name of no function."""


def new_id(short: bool) -> str:
    """Return an id of a call; `short`: of nine letters and digits, as templates of Mistral want it."""
    letters = string.ascii_letters + string.digits
    return "".join(secrets.choice(letters) for _ in range(9)) if short else f"call_{secrets.token_hex(12)}"


@final
class CallScanner:
    """Scanner of calls; feed it characters by `step` until that returns True.

    `named`: calls may be a name, "[ARGS]" and an object, as newer models of Mistral write them.
    """

    def __init__(self, names: Collection[str], first: int = 0, *, short_ids: bool = False, named: bool = False) -> None:
        """Make a scanner for calls of functions of these names, the first of which has the number `first`."""
        self.count = 0
        """Calls whose names have come."""
        self.unused = ""
        """Text behind the last call, all text if there is none: no part of a call once `step` returned True."""
        self._names, self._first, self._short, self._named = names, first, short_ids, named
        self._parts: list[CallPart] = []
        self._name: str | None = None
        self._held: list[str] = []
        """Characters of arguments that came before the name, or since the last part."""
        self._has_arguments = False
        self._scan = self._calls()
        next(self._scan)

    def step(self, character: str) -> bool:
        """Take a character, "" for the end of the text; True if the calls are over, or if there is none."""
        if self._name is None:  # text behind a name is part of the call: long arguments are not copied again and again
            self.unused += character
        try:
            self._scan.send(character)
        except StopIteration:
            return True
        except BrokenCallError:
            if self._name is not None:  # the client has the beginning of the call
                self.unused = ""
            return True
        return False

    def taken(self) -> list[CallPart]:
        """Return the parts that have come since the last time."""
        self._flush()
        parts, self._parts = self._parts, []
        return parts

    # ------------------------------------------------------------------------------------ grammar

    def _calls(self) -> Scan:
        character = yield from self._next()
        while True:
            if self.count:
                self.unused = character
            self._name, self._has_arguments = None, False
            self._held.clear()
            if character == "{":
                character = yield from self._object(nested=False)
                self._end()
            elif self._named and (character.isalpha() or character == "_"):
                character = yield from self._named_call(character)
                self._end()
            elif character and character in ("],;" if self.count else "[],;"):
                character = yield from self._next()
            else:
                return character

    def _object(self, nested: bool) -> Scan:
        """Scan the members of a call, behind its opening brace."""
        character = yield from self._next()
        while character != "}":
            if character != '"':
                raise BrokenCallError
            key = yield from self._text()
            character = yield from self._next()
            if character != ":":
                raise BrokenCallError
            character = yield from self._next()
            character = yield from self._member(key, character, nested)
            if character == ",":
                character = yield from self._next()
            elif character != "}":
                raise BrokenCallError
        return (yield from self._next())

    def _member(self, key: str, character: str, nested: bool) -> Scan:
        """Scan the value of a member, which begins with `character`."""
        if key in _ARGUMENTS and not self._has_arguments and character in ("{", '"'):
            self._has_arguments = True
            if character == '"':  # JSON within a string
                self._held.append((yield from self._text()))
                return (yield from self._next())
            return (yield from self._value(character, self._held.append))
        if key in ("name", "function") and character == '"' and self._name is None:
            self._found((yield from self._text()))
            return (yield from self._next())
        if key == "function" and character == "{" and not nested:
            return (yield from self._object(nested=True))
        return (yield from self._value(character, _drop))

    def _named_call(self, character: str) -> Scan:
        """Scan a name, and arguments that follow it without a key."""
        text = ""
        while character != "{":
            text += character
            if not character or len(text) > _LONGEST_NAME:
                raise BrokenCallError
            character = yield
        self._found(text.partition("[")[0].strip())
        self._has_arguments = True
        return (yield from self._value(character, self._held.append))

    def _value(self, character: str, keep: Callable[[str], None]) -> Scan:
        """Scan a JSON value, whose first character is given, and pass all of its characters to `keep`."""
        pending: list[str] = []
        while True:
            if not character:
                raise BrokenCallError
            if character in ("}", "]") and (not pending or pending.pop() != character):
                raise BrokenCallError
            keep(character)
            if character in _CLOSING:
                pending.append(_CLOSING[character])
            elif character == '"':
                yield from self._string(keep)
            is_word = not pending and character not in ("}", "]", '"')
            character = yield
            if not pending and (not is_word or not character or character in ",}]" or character in _SPACE):
                return (yield from self._after(character))

    def _string(self, keep: Callable[[str], None]) -> Generator[None, str, None]:
        """Pass a string behind its opening quote to `keep`; line breaks in it are escaped."""
        is_escaped = False
        while True:
            character = yield
            if not character:
                raise BrokenCallError
            keep(json.dumps(character)[1:-1] if character < " " else character)
            if character == '"' and not is_escaped:
                return
            is_escaped = character == "\\" and not is_escaped

    def _text(self) -> Scan:
        """Scan a string behind its opening quote; return its text."""
        raw = ['"']
        yield from self._string(raw.append)
        try:
            text: str = json.loads("".join(raw))
        except ValueError:
            raise BrokenCallError from None
        return text

    def _next(self) -> Scan:
        """Return the next character that is no space."""
        character = yield
        return (yield from self._after(character))

    def _after(self, character: str) -> Scan:
        while character in _SPACE:
            character = yield
        return character

    # ------------------------------------------------------------------------------------ parts

    def _found(self, name: str) -> None:
        if name not in self._names:
            raise BrokenCallError
        self._name = name
        self._parts.append(CallPart(self._first + self.count, "", new_id(self._short), name))
        self.count += 1

    def _end(self) -> None:
        if self._name is None:
            raise BrokenCallError
        if not self._has_arguments:
            self._held.append("{}")
        self._flush()

    def _flush(self) -> None:
        """Make a part of the arguments that are held, once it is known of which call."""
        if self._name is None or not self._held:
            return
        text = "".join(self._held)
        self._held.clear()
        index = self._first + self.count - 1
        last = self._parts[-1] if self._parts else None
        if last is not None and last.index == index:
            self._parts[-1] = CallPart(index, last.arguments + text, last.id, last.name)
        else:
            self._parts.append(CallPart(index, text))


def _drop(character: str) -> None:
    """Keep nothing of a member that is no part of a call."""


__all__ = ["BrokenCallError", "CallPart", "CallScanner", "new_id"]
