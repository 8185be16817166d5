"""Libraries by name: their patterns, code generators and loaders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..ir import IRModule
from ..runtime.modules import Loader, register_loader
from ..runtime.rooms import module_of
from ..transform.fusion.fuse_ops_by_pattern import FuseOpsByPattern, FusionPattern, PatternLike
from ..transform.fusion.merge_composite_functions import MergeCompositeFunctions
from ..transform.run_codegen import GENERATORS, Generator, RunCodegen
from .pattern_registry import get_patterns_with_prefix, register_patterns


def register_codegen(
    name: str,
    *,
    patterns: Sequence[PatternLike],
    codegen: Generator,
    runtime: Loader | None = None,
    override: bool = False,
) -> None:
    """Register a library: what it computes, how functions become modules for it, and how those are loaded.

    Parameters
    ----------
    name
        The name of the library; the names of its patterns begin with it and a dot.
    patterns
        Patterns for `FuseOpsByPattern`. Those that come last are matched first, so larger ones come last.
    codegen
        A function of the functions that are handed over, the options and the names of constants, to modules.
    runtime
        The loader of modules of kind `name`; None if an installed package has it.
    override
        True replaces a library of that name.

    Raises
    ------
    ValueError
        If the name is taken and not `override`, and for a pattern whose name begins otherwise.
    """
    entries = [entry if isinstance(entry, FusionPattern) else FusionPattern(*entry) for entry in patterns]
    for entry in entries:
        if not entry.name.startswith(f"{name}."):
            raise ValueError(f"the name of the pattern {entry.name!r} must begin with {name + '.'!r}")
    if name in GENERATORS and not override:
        raise ValueError(f"there is a code generator {name!r} already; override=True replaces it")
    if runtime is not None:
        register_loader(name, runtime, override=override)
    GENERATORS[name] = codegen
    register_patterns(entries)


def patterns_of(name: str) -> list[FusionPattern]:
    """Return the patterns of a library, a registered one or one of this package.

    Raises ValueError for a library that is not registered.
    """
    if name not in GENERATORS:
        module_of(__package__ or "", name)  # one of this package registers itself
    if name not in GENERATORS:
        known = ", ".join(sorted(GENERATORS)) or "none"
        raise ValueError(f"no library {name!r} is registered; there is: {known}")
    return get_patterns_with_prefix(f"{name}.")


def handed_over(
    mod: IRModule,
    patterns: Mapping[str, Sequence[FusionPattern]],
    options: Mapping[str, Mapping[str, Any]] | None = None,
    bind_constants: bool = True,
) -> IRModule:
    """Return a program that calls the functions of libraries where their patterns match, with their modules."""
    for entries in patterns.values():
        mod = FuseOpsByPattern(entries, bind_constants=bind_constants)(mod)
    return RunCodegen(options)(MergeCompositeFunctions()(mod))
