"""Default pipelines: lists of passes in running order, each with the reason for its place."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable

from ..ir import Diagnostic, DiagnosticError
from ..ir.transform import Pass, Sequential, Step
from ..transform.fusion import AnnotateTIROpPattern, FuseOps, FuseTIR
from ..transform.memory import DataflowUseInplaceCalls
from .channels_last import ChannelsLast
from .fuse_attention import FuseAttention
from .fuse_convolutions import FuseConvolutions
from .steps import GRAPH as GRAPH
from .steps import LOWER as LOWER
from .steps import MACHINE as MACHINE

FUSE: tuple[Step, ...] = (
    Step(AnnotateTIROpPattern, "Classify each kernel as elementwise, broadcast, injective, reduction, … for FuseOps."),
    Step(FuseAttention, "Group the products and the softmax of attention; must run before FuseOps groups parts of it."),
    Step(FuseOps, "Group kernels that read each other's results; needs dataflow blocks, which bound their uses."),
    Step(FuseTIR, "Merge the kernels of each group into one PrimFunc without intermediate tensors."),
    Step(
        FuseConvolutions, "Fuse chains of convolutions row by row (line-buffered), now that they have their epilogues."
    ),
    Step(ChannelsLast, "Keep tensors between convolution kernels in channels-last layout."),
)
"""Kernel fusion; runs right after LegalizeOps."""

UNFUSED: tuple[Step, ...] = tuple(
    step for step in (*GRAPH, *LOWER, *MACHINE) if step.make is not DataflowUseInplaceCalls
)
"""Default pipeline without fusion and in-place writes: each operator keeps its kernel and result, for inspection."""

DEFAULT: tuple[Step, ...] = (*GRAPH, LOWER[0], *FUSE, *LOWER[1:], *MACHINE)


def default_build_pipeline() -> Pass:
    """Return the default pipeline as one pass: from a program as written to the input of the bytecode generator."""
    return as_pass(DEFAULT, "default_build_pipeline")


def as_pass(steps: Iterable[Step], name: str) -> Pass:
    """Return a Sequential of the steps' passes."""
    return Sequential([step.make() for step in steps], name=name)


_PIPELINES: dict[str, Callable[..., Pass]] = {
    "default": default_build_pipeline,
    "default_build": default_build_pipeline,
    "graph": lambda: as_pass(GRAPH, "graph"),
    # TVM's name for the optimisations a program goes through before it is handed to build.
    "zero": lambda: as_pass((*GRAPH, LOWER[0]), "zero"),
    "unfused": lambda: as_pass(UNFUSED, "unfused"),
    "lower": lambda: as_pass(LOWER, "lower"),
}


def register_pipeline(name: str) -> Callable[[Callable[..., Pass]], Callable[..., Pass]]:
    """Give a pipeline a name: ``@register_pipeline("mine") def make(): return Sequential([...])``.

    Parameters
    ----------
    name
        The name, for ``relax.build(pipeline=name)`` and `get_pipeline`.

    Returns
    -------
    Callable
        A decorator of the function that makes the pipeline; its parameters are the options of `get_pipeline`.

    Raises
    ------
    ValueError
        If a pipeline of this name is registered already.
    """

    def register(make: Callable[..., Pass]) -> Callable[..., Pass]:
        if name in _PIPELINES:
            raise ValueError(f"a pipeline named {name!r} is registered already")
        _PIPELINES[name] = make
        return make

    return register


def get_pipeline(name: str = "default", **options: object) -> Pass:
    """The pipeline of this name, as one pass.

    Parameters
    ----------
    name
        A name of `register_pipeline`, or "default", "unfused", "zero", "graph", "lower".
    options
        Options of the function that was registered.

    Returns
    -------
    Pass
        The pipeline: a function from module to module.

    Raises
    ------
    DiagnosticError
        If there is no such pipeline; it names those there are.
    """
    make = _PIPELINES.get(name)
    if make is None:
        names = ", ".join(_PIPELINES)
        near = difflib.get_close_matches(name, _PIPELINES, 1)
        hint = f"did you mean {near[0]!r}?" if near else "register it: @relax.register_pipeline(name)"
        raise DiagnosticError(
            Diagnostic("E4007", f"there is no pipeline {name!r}", notes=(f"known: {names}",), hint=hint)
        )
    return make(**options)
