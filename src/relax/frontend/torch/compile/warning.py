"""FallbackWarning: what of a graph runs in eager torch, and why."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from ..emitter import origin

_SHOWN = 5
"""Number of operators that are listed in one warning, at most."""


class FallbackWarning(UserWarning):
    """Operators of a graph that torch.compile(backend="relax") leaves to eager torch."""


def warn_of(reasons: Mapping[Any, str]) -> None:
    """Warn once of the nodes of a graph that run in eager torch; `reasons` says why, by node."""
    by_target: dict[str, tuple[Any, str, int]] = {}
    for node, reason in reasons.items():
        first, why, count = by_target.get(str(node.target), (node, reason, 0))
        by_target[str(node.target)] = first, why, count + 1
    if not by_target:
        return
    lines = [
        f"{target}{f' ({count} times)' if count > 1 else ''}: {why}{_place(node)}"
        for target, (node, why, count) in list(by_target.items())[:_SHOWN]
    ]
    if len(by_target) > _SHOWN:
        lines.append(f"and {len(by_target) - _SHOWN} operators more")
    warn("runs in eager torch:\n  " + "\n  ".join(lines))


def warn(message: str) -> None:
    """Warn of something that runs in eager torch."""
    warnings.warn(f'torch.compile(backend="relax"): {message}', FallbackWarning, stacklevel=2)


def _place(node: Any) -> str:
    lines = origin(node)
    return f", at {lines[0]}" if lines else ""
