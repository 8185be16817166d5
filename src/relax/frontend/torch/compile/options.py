"""BackendOptions: `mode` and `options` of torch.compile, read and checked."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Final

from ....runtime.records import dataclass

MODES: Final = {
    "default": "auto",
    "reduce-overhead": "full",
    "max-autotune": "full",
    "max-autotune-no-cudagraphs": "full",
}
"""Tiers of `relax.build` by the modes of torch.compile."""

_TIERS = ("full", "now", "auto")


@dataclass(frozen=True)
class BackendOptions:
    """Options of the backend: ``torch.compile(m, backend="relax", options={"tier": "full"})``.

    `tier` is that of `relax.build`, `target` the machine to build for, and `fallback` False makes an error of what
    would run in eager torch with a warning.
    """

    tier: str = "auto"
    target: Any = "llvm"
    fallback: bool = True


def read_options(mode: str | None, options: Mapping[str, Any] | None) -> BackendOptions:
    """Return the options that torch.compile was given.

    Raises ValueError for a mode or an option that there is not, and for a value that an option does not take.
    """
    if mode is not None and mode not in MODES:
        raise ValueError(f'torch.compile(backend="relax"): there is no mode {mode!r}; modes are {", ".join(MODES)}')
    known = ("tier", "target", "fallback")
    for name in options or {}:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; options are {', '.join(known)}"
            raise ValueError(f'torch.compile(backend="relax"): there is no option {name!r}{hint}')
    chosen: dict[str, Any] = {"tier": MODES[mode or "default"], **(options or {})}
    if chosen["tier"] not in _TIERS:
        raise ValueError(
            f'torch.compile(backend="relax"): there is no tier {chosen["tier"]!r}; tiers are {", ".join(_TIERS)}'
        )
    if not isinstance(chosen.get("fallback", True), bool):
        raise ValueError(
            f'torch.compile(backend="relax"): the option fallback is True or False, found {chosen["fallback"]!r}'
        )
    return BackendOptions(**chosen)
