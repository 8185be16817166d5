"""from_relay: Relay programs as Relax programs.

mod = relax.testing.relay_translator.from_relay(function, "llvm", weights)
relax.build(mod, "llvm")
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import relay
from ..ir import IRModule
from ..target import Target


def from_relay(
    func: relay.Function | IRModule,
    target: str | Target | None = None,
    relay_params: Mapping[str, Any] | None = None,
    *,
    opt_level: int = 3,
    pass_config: Mapping[str, Any] | None = None,
    disabled_pass: list[str] | None = None,
    translate_op_with_tir: Mapping[str, Any] | None = None,
    append_op_attrs: bool = False,
) -> IRModule:
    """The Relax module that computes what a Relay function, or a module's main, does.

    It consists of Relax's operators: which kernels they become is decided when it is built, for the build's target.
    So `target` and the options of TVM's lowering are taken, and change nothing.

    Parameters
    ----------
    func
        A function or a module; see `relay.to_relax` for the translation.
    relay_params
        Values for parameters of main, by name, that become constants.

    Raises DiagnosticError for what is wrong in the program or has no translation; ValueError for
    `translate_op_with_tir`.
    """
    del target, opt_level, pass_config, disabled_pass, append_op_attrs
    if translate_op_with_tir:
        names = ", ".join(translate_op_with_tir)
        raise ValueError(f"from_relay: translate_op_with_tir is not supported, found functions for {names}")
    mod = func if isinstance(func, IRModule) else IRModule.from_expr(func)
    return relay.to_relax(mod, relay_params)
