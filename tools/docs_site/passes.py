"""The list of passes: a section for each of `relax.transform` and `relax.optimize`, from its signature and its module's
docstring.
"""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

from docs_site.operators import signature_text
from relax import optimize, transform
from relax.ir.transform import Pass


def sections() -> str:
    """What docs/reference/transform.md shows."""
    passes = {name: room for room in (transform, optimize) for name in room.__all__ if is_pass(getattr(room, name))}
    return "\n\n".join(_section(passes[name], name) for name in sorted(passes))


def is_pass(value: Any) -> bool:
    """True for what makes a pass of some options: a class or function with a name like FoldConstant."""
    named = getattr(value, "__name__", "").strip("_")[:1].isupper()
    made_here = getattr(value, "__module__", "").startswith(("relax.transform.", "relax.optimize."))
    return named and made_here and (not inspect.isclass(value) or issubclass(value, Pass)) and value not in BASES


BASES = (transform.DataflowBlockPass, transform.FunctionPass, transform.ModulePass)
"""Classes that passes are made of, not passes."""


def _section(room: ModuleType, name: str) -> str:
    make = getattr(room, name)
    described = inspect.cleandoc(getattr(inspect.getmodule(make), "__doc__", None) or "")
    own = inspect.cleandoc(make.__doc__ or "").replace("; see the module's docstring", "")
    parts = [f"## {name}", f"```python no-run\n{signature_text(f'{room.__name__}.{name}', make)}\n```"]
    parts += [own] if own else []
    parts += [f"```text\n{described}\n```"] if described and described != own else []
    return "\n\n".join(parts)
