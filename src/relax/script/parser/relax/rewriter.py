"""``@R.rewriter``: a class of two functions becomes a rewriter by patterns."""

from __future__ import annotations

import sys
from typing import Any, cast

from ....ir import Span
from ....ir.provided import provided
from ....ir.python_source import caller_span
from ..core import Evaluator
from ..core.diagnostics import DECLARATION, error
from ..module import parsed_class


def rewriter(cls: type) -> Any:
    """Parse a class with the functions `pattern` and `replacement`, and return its PatternMatchingRewriter.

    See `relax.dpl.PatternMatchingRewriter.from_module`.
    """
    frame = cast(Any, sys)._getframe(1)
    if not isinstance(cls, type):  # pyright: ignore[reportUnnecessaryIsInstance]
        span: Span | None = caller_span(frame) if Evaluator.current() is None else None
        raise error(DECLARATION, f"rewriter decorates classes, found a value of type {type(cls).__name__}", span)
    return provided("rewriter")(parsed_class(cls, frame))
