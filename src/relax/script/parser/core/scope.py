"""Name resolution: a stack of scopes over the Python variables around the program."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final


class _Missing:
    def __repr__(self) -> str:
        return "<missing>"

    def __bool__(self) -> bool:
        return False


MISSING: Final = _Missing()


class Scopes:
    """A stack of scopes, innermost last, over a read-only environment.

    The environment is a sequence of mappings, searched in order: the functions of the module being parsed, then (for
    decorated objects) the Python variables around, or (for text) the variables passed to `from_source`.
    """

    def __init__(self, environment: Sequence[Mapping[str, Any]] = ()) -> None:
        self.environment = tuple(environment)
        self.frames: list[dict[str, Any]] = [{}]

    def child(self, *environment: Mapping[str, Any]) -> Scopes:
        """New stack whose environment is everything visible here, then `environment`."""
        return Scopes((*environment, *reversed(self.frames), *self.environment))

    def lookup(self, name: str) -> Any:
        """Value of a name, MISSING if undefined."""
        for frame in reversed(self.frames):
            if name in frame:
                return frame[name]
        for layer in self.environment:
            if name in layer:
                return layer[name]
        return MISSING

    def local(self, name: str) -> Any:
        """Value of a name defined by the program itself (not by the environment), MISSING if none."""
        for frame in reversed(self.frames):
            if name in frame:
                return frame[name]
        return MISSING

    def define(self, name: str, value: Any) -> None:
        """Define a name in the innermost scope, shadowing outer definitions."""
        self.frames[-1][name] = value

    @contextmanager
    def frame(self) -> Generator[dict[str, Any]]:
        """Context manager: push an innermost scope."""
        scope: dict[str, Any] = {}
        self.frames.append(scope)
        try:
            yield scope
        finally:
            self.frames.pop()

    def names(self) -> set[str]:
        """All visible names, for hints."""
        visible: set[str] = set()
        for frame in self.frames:
            visible.update(frame)
        for layer in self.environment:
            visible.update(layer)
        return visible
