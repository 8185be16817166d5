"""open_lengths: export and compile recurrent layers for sequences of any length.

    with open_lengths():
        program = torch.export.export(torch.nn.LSTM(4, 8), (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))

Torch derives the results of LSTM, GRU and RNN layers by running through the sequence step by step, which makes a
constant of its length. Inside of the context, these layers call operators ``relax::lstm`` and so on, which compute the
same and know the shapes of their results. They have no gradients: layers that are trained call torch's functions. The
package ``torch`` is used but not imported here.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

from .registry import find, register

_LAYERS: Final = ("lstm", "gru", "rnn_tanh", "rnn_relu")
_OPTIONS: Final = "bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first"
_SCHEMAS: Final = {
    name: f"(Tensor input, {states} hx, Tensor[] params, {_OPTIONS}) -> {results}"
    for name, states, results in (
        ("lstm", "Tensor[]", "(Tensor, Tensor, Tensor)"),
        *((name, "Tensor", "(Tensor, Tensor)") for name in _LAYERS[1:]),
    )
}
_lock = threading.Lock()
_contexts = 0
"""Contexts of `open_lengths` that are entered now, in all threads."""
_defined: dict[str, Any] = {}
"""Functions that stand for those of layers, by their names, once torch has the operators; always the same objects."""

for _name in _LAYERS:
    _converter = find(f"aten.{_name}.input")
    assert _converter is not None, _name
    register(f"relax.{_name}.default", _converter)


def define_operators() -> None:
    """Make the operators known to torch, so that programs with them can be exported and loaded."""
    torch = sys.modules["torch"]
    with _lock:
        for name in _LAYERS if not _defined else ():
            run: Callable[..., Any] = getattr(torch, name)
            operator = torch.library.custom_op(
                f"relax::{name}", _computing(run), mutates_args=(), schema=_SCHEMAS[name]
            )
            operator.register_fake(_shapes)
            _defined[name] = _calling(run, operator)


def _computing(run: Callable[..., Any]) -> Callable[..., Any]:
    def compute(input: Any, hx: Any, params: Sequence[Any], *options: Any) -> Any:
        return run(input, hx, params, *options)

    return compute


def _shapes(
    input: Any,
    hx: Any,
    params: Sequence[Any],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Any, ...]:
    """Results without data: the outputs of all steps, and states of the shapes of the first ones."""
    states = list(cast("Sequence[Any]", hx)) if isinstance(hx, (list, tuple)) else [hx]
    width = states[0].shape[-1] * (2 if bidirectional else 1)
    return input.new_empty((*input.shape[:-1], width)), *(state.new_empty(state.shape) for state in states)


def _calling(function: Callable[..., Any], operator: Any) -> Callable[..., Any]:
    """Return the function of a layer that calls the operator where it may, and torch's function elsewhere."""
    torch = sys.modules["torch"]
    eager: Callable[..., Any] = torch.compiler.disable(function)

    def call(*args: Any) -> Any:
        if isinstance(args[3], (list, tuple)):  # a packed sequence, whose batch sizes come second
            return function(*args)
        trains = args[0].requires_grad or any(param.requires_grad for param in args[2])
        if trains and torch.is_grad_enabled() and not torch.compiler.is_exporting():
            return eager(*args)
        return operator(*args)

    return call


class _Functions:
    """Torch's functions of recurrent layers, of which those in `_defined` are replaced."""

    def __getattr__(self, name: str) -> Any:
        return _defined[name] if name in _defined else getattr(sys.modules["torch"]._VF, name)


_FUNCTIONS: Final = _Functions()


@contextmanager
def open_lengths() -> Generator[None]:
    """Context manager: LSTM, GRU and RNN layers keep the lengths of sequences open.

    ``torch.export.export`` is called inside of it, and so are functions of ``torch.compile``, which otherwise leave
    these layers to eager torch. Packed sequences and layers that are trained are as without it. A program that was
    exported so is loaded by `build_exported`, or by torch where `open_lengths` was called before.
    """
    define_operators()
    dynamo: Any = importlib.import_module("torch._dynamo.config")
    _replace(1)
    try:
        with dynamo.patch(allow_rnn=True):
            yield
    finally:
        _replace(-1)


def _replace(change: int) -> None:
    """Count contexts in, or out; layers have torch's functions again once no thread is in one."""
    global _contexts
    layers: Any = importlib.import_module("torch.nn.modules.rnn")
    with _lock:
        _contexts += change
        layers._VF = _FUNCTIONS if _contexts else sys.modules["torch"]._VF
