"""ScheduleError: the violated condition, a hint, and the program with the location underlined.

error[E8003]: fuse: the second loop does not stand directly inside the first
  --> kernel.py:12:5

    @T.prim_func
    def main(A: T.Buffer((8, 8), "float32")):
        for i in range(8):
        ^^^^^^^^^^^^^^^^^^
...
  = help: reorder the loops between them first
"""

from __future__ import annotations

from typing import Final, Literal

from ...ir import Diagnostic, DiagnosticError, Node
from ..stmt import PrimFunc

Level = Literal["detail", "fast", "none"]

EXPIRED: Final = "E8001"
ARGUMENT: Final = "E8002"
STRUCTURE: Final = "E8003"
BINDING: Final = "E8101"
KIND: Final = "E8102"
COVER: Final = "E8103"
ORDER: Final = "E8104"
BUFFER: Final = "E8105"
MATCH: Final = "E8106"
TRACE: Final = "E8107"


class ScheduleError(DiagnosticError):
    """Raised if a primitive cannot be applied. The program is as it was before the primitive.

    `places` are the loops, blocks or other nodes concerned; they are underlined in the printed function, and the first
    span among them is the error's.
    """

    def __init__(self, code: str, message: str, *places: Node, hint: str = "") -> None:
        span = next((node.span for node in places if node.span is not None), None)
        super().__init__(Diagnostic(code, message, span, hint=hint))
        self.places = places
        self.program = ""
        """Text of the function with `places` underlined; set by the caller of the primitive."""

    def located(self, primitive: str, func: PrimFunc | None, level: Level) -> ScheduleError:
        """Return the error with the primitive's name and the function it was applied to."""
        first = self.diagnostics[0]
        message = f"{primitive}: {first.message}"
        error = ScheduleError(first.code, message, *self.places, hint=first.hint)
        if level == "none":
            error.diagnostics = (Diagnostic(first.code, f"{primitive} failed"),)
        elif level == "detail" and func is not None:
            error.program = func.script(obj_to_underline=self.places, underline_heads=True)
        return error

    def __str__(self) -> str:
        if not self.program:
            return super().__str__()
        diagnostic = self.diagnostics[0]
        lines = [f"error[{diagnostic.code}]: {diagnostic.message}"]
        if diagnostic.span is not None:
            lines.append(f"  --> {diagnostic.span.source.name}:{diagnostic.span.line}:{diagnostic.span.column}")
        lines.append("")
        lines += [f"    {line}".rstrip() for line in self.program.splitlines()]
        if diagnostic.hint:
            lines += ["", f"  = help: {diagnostic.hint}"]
        return "\n" + "\n".join(lines)
