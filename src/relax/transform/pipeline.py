"""Which passes run when, and why: the default pipeline as a list that reads from top to bottom."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..ir import Diagnostic, DiagnosticError
from ..ir.transform import Pass, Sequential
from .call_tir_rewrite import CallTIRRewrite
from .canonicalize_bindings import CanonicalizeBindings
from .dead_code_elimination import DeadCodeElimination
from .legalize_ops import LegalizeOps
from .normalize import Normalize
from .remove_unused_functions import RemoveUnusedFunctions
from .to_non_dataflow import ToNonDataflow


class Step(NamedTuple):
    """One step of a pipeline: the pass, and why it stands where it stands."""

    make: Callable[[], Pass]
    reason: str


DEFAULT: tuple[Step, ...] = (
    Step(Normalize, "everything after it reads normal form and struct info"),
    Step(CanonicalizeBindings, "one name per value, so that the next passes see through aliases"),
    Step(DeadCodeElimination, "nothing is compiled that nobody uses"),
    Step(LegalizeOps, "operators become kernels"),
    Step(ToNonDataflow, "from here on the order of effects is the order of bindings"),
    Step(CallTIRRewrite, "outputs are allocated, kernels called with them"),
    Step(RemoveUnusedFunctions, "only what an entry point reaches is compiled"),
)


def default_build_pipeline() -> Pass:
    """The default pipeline as one pass."""
    return Sequential([step.make() for step in DEFAULT], name="default_build_pipeline")


_PIPELINES: dict[str, Callable[[], Pass]] = {
    "default": default_build_pipeline,
    "default_build": default_build_pipeline,
}


def register_pipeline(name: str) -> Callable[[Callable[..., Pass]], Callable[..., Pass]]:
    """Give a pipeline a name: ``@register_pipeline("mine") def make(): return Sequential([...])``."""

    def register(make: Callable[..., Pass]) -> Callable[..., Pass]:
        if name in _PIPELINES:
            raise ValueError(f"a pipeline named {name!r} is registered already")
        _PIPELINES[name] = make
        return make

    return register


def get_pipeline(name: str = "default", **options: object) -> Pass:
    """The pipeline of this name. Raises DiagnosticError, naming those there are."""
    make = _PIPELINES.get(name)
    if make is None:
        known = ", ".join(_PIPELINES)
        raise DiagnosticError(
            Diagnostic("E4007", f"there is no pipeline {name!r}", notes=(f"known: {known}",))
        )
    return make(**options)
