"""Partition of a program among libraries."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ..ir import IRModule
from .codegen import handed_over, patterns_of
from .measurement import Report, chosen, measure

_log = logging.getLogger(__name__)


def partition(
    mod: IRModule,
    libraries: str | Sequence[str],
    *,
    choose: Literal["first", "measure"] | Report = "first",
    sizes: Mapping[str, int] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    bind_constants: bool = True,
) -> IRModule:
    """Hand parts of a program to libraries: what their patterns match in dataflow blocks, merged as far as possible.

    Parameters
    ----------
    mod
        The program.
    libraries
        Names of libraries, registered ones or those of `relax.backend`.
    choose
        "first": the first library that matches an operator gets it. "measure": each region is timed in each library and
        as kernels of ours, and the fastest gets it; the report goes to the log `relax.backend.partition`, level INFO. A
        report of `relax.backend.measure` is followed.
    sizes
        The sizes at which regions are timed, by name; 16 for others.
    options
        The options of each code generator, by name.
    bind_constants
        True if constants become part of the functions handed over, False if they stay arguments.

    Returns
    -------
    IRModule
        A program that calls the libraries' functions, with their modules.

    Raises
    ------
    ValueError
        For a library that is not registered, and for a report of another program.
    DiagnosticError
        E4014 for a function that a code generator cannot be given.
    """
    names = [libraries] if isinstance(libraries, str) else list(libraries)
    patterns = {name: patterns_of(name) for name in names}
    if choose == "measure":
        choose = measure(mod, names, sizes=sizes, options=options)
        _log.info("%s", choose)
    if isinstance(choose, Report):
        if choose.mod is not mod:
            raise ValueError("the report is of another program: measure the one that is partitioned")
        patterns = {name: chosen(choose, name, entries) for name, entries in patterns.items()}
    elif choose != "first":
        raise ValueError(f'choose must be "first", "measure" or a report, found {choose!r}')
    return handed_over(mod, patterns, options, bind_constants)
