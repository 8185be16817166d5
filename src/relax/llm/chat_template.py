"""Chat templates: conversations as texts, by templates in Jinja's syntax that come with a model.

A template is a program of the model's author. It runs in Jinja's sandbox, which denies it attributes that begin with an
underscore and changes of its arguments. Templates are written for the environment that the package ``transformers``
gives them: blocks take no white space, ``break`` and ``continue`` in loops, the filter ``tojson``, the functions
``raise_exception`` and ``strftime_now``, and blocks ``{% generation %}``, which mark the text of answers.
"""

from __future__ import annotations

import datetime
import functools
import json
import traceback
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final

from .packages import needed

_ERRORS: Final = (
    ArithmeticError, AttributeError, LookupError, NameError, RecursionError, TypeError, ValueError,
)  # fmt: skip
"""Errors of Python that expressions of a template raise, as the sum of a text and None."""


def render(template: str, variables: Mapping[str, Any]) -> str:
    """Return the text of a template for the values of its variables.

    Raises ValueError, with the line of the template, if it is no template, uses what it must not, calls
    ``raise_exception``, or computes what is not defined.
    """
    jinja2 = needed("jinja2", "a chat template")
    try:
        text: str = _compiled(template).render(**variables)
    except jinja2.TemplateSyntaxError as error:
        raise ValueError(f"the chat template has an error in line {error.lineno}: {error.message}") from None
    except (jinja2.TemplateError, *_ERRORS) as error:
        line = _line(error.__traceback__)
        place = "" if line is None else f" in line {line}"
        kind = "" if isinstance(error, jinja2.TemplateError) else f"{type(error).__name__}: "
        raise ValueError(f"the chat template failed{place}: {kind}{error}") from None
    return text


def _line(trace: TracebackType | None) -> int | None:
    """Line of the template at which an error was raised; Jinja puts its lines into the trace."""
    lines = [frame.lineno for frame in traceback.extract_tb(trace) if frame.filename == "<template>"]
    return lines[-1] if lines else None


@functools.lru_cache(maxsize=16)
def _compiled(template: str) -> Any:
    """Compile a template."""
    sandbox = needed("jinja2.sandbox", "a chat template")
    environment = sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _generation_blocks()]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment.from_string(template)


@functools.cache
def _generation_blocks() -> Any:
    """Return the extension of Jinja by blocks ``{% generation %}``, whose text is that of their body."""
    nodes, extension = needed("jinja2.nodes", "a chat template"), needed("jinja2.ext", "a chat template")

    def parse(self: Any, parser: Any) -> Any:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)

    return type("GenerationBlocks", (extension.Extension,), {"tags": {"generation"}, "parse": parse})


def _to_json(
    value: Any, ensure_ascii: bool = False, indent: int | None = None, separators: Any = None, sort_keys: bool = False
) -> str:
    """JSON of a value. Jinja's own filter of this name escapes characters of HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> None:
    """Raise the error by which a template refuses a conversation."""
    raise needed("jinja2", "a chat template").TemplateError(message)


def _strftime_now(format: str) -> str:
    """Text of the present local time."""
    return datetime.datetime.now().strftime(format)
