"""Attributes, annotations and storage scopes supported by code generation, with their meaning; others are rejected.

An annotation is a request for a pass or schedule. Code generation would silently drop one that no pass has consumed.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Final

from ..prim.cells import DEEPER, OUTPUTS, PARAMETERS, REGISTERS
from ..tir.stmt import OWN_FUNCTION, STAYS_ROLLED
from ..tir.transform import NOT_PARALLEL, NOT_VECTORIZED, PARALLEL_BODY, PARALLEL_RANGE

FUNCTION_ATTRIBUTES: Final[Mapping[str, str]] = {
    "global_symbol": "name of the function outside of the module",
    "tir.noalias": "the memory of a parameter that is written does not overlap that of another parameter",
    "tir.is_host_func": "shape arithmetic of a Relax function: no name in messages, and overflow is an error",
    "relax.schedule": "rule and parameters by which the function is scheduled; code does not depend on it",
    "tir.is_scheduled": "the loops are as they shall be: schedule rules leave the function alone",
    "layout_free_buffers": "numbers of parameters whose layout may be chosen; code does not depend on it",
    "op_pattern": "kind of the kernel for fusion, see relax.tir.op_pattern; code does not depend on it",
    "relax.library": "digest of the general form of a kernel for all sizes; code does not depend on it",
    REGISTERS: "compiled Relax function: number of its registers",
    OUTPUTS: "compiled Relax function: number of results for which a caller may give memory",
    DEEPER: "compiled Relax function: cell of the function that goes on where calls are nested too deeply",
    PARAMETERS: "compiled Relax function: names of its parameters",
    PARALLEL_BODY: "iterations of a parallel loop of the function of this name; called by T.parallel_for only",
}

LOOP_ANNOTATIONS: Final[Mapping[str, str]] = {
    PARALLEL_RANGE: "(start, extent) of the parallel loop of which this loop runs a part",
    NOT_PARALLEL: "the reason why a loop that was to be parallel is serial",
    NOT_VECTORIZED: "the reason why a loop that was to be vectorised is serial",
    OWN_FUNCTION: "the loop is written as a function of its own",
    STAYS_ROLLED: "LLVM does not unroll the loop",
}

SCOPES: Final = frozenset({"global", "local"})
"""Storage scopes in CPU memory; the code is the same for both."""

UNKNOWN: Final = "E5910"
LOWER_FIRST: Final = "lower the module first: relax.tir.lower(mod)"


def unknown_among(names: Iterable[str], known: Mapping[str, str]) -> list[tuple[str, str]]:
    """Unknown names, each with a hint."""
    return [(name, _hint(name, known)) for name in names if name not in known]


def _hint(name: str, known: Mapping[str, str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    there = ", ".join(known) or "none"
    return f"did you mean {near[0]}?" if near else f"remove it, or run the pass that reads it (known here: {there})"
