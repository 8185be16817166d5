"""Activation functions of recurrent layers, by ONNX's names, and their default parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ..prim import PrimExpr, Select, const, intrin
from ..runtime.records import dataclass
from .twofold import let

Scalar = Callable[[PrimExpr], PrimExpr]

DEFAULTS: Final[dict[str, tuple[float | None, float | None]]] = {
    "affine": (1.0, 0.0),
    "elu": (1.0, None),
    "hardsigmoid": (0.2, 0.5),
    "leakyrelu": (0.01, None),
    "relu": (None, None),
    "scaledtanh": (1.0, 1.0),
    "sigmoid": (None, None),
    "softplus": (None, None),
    "softsign": (None, None),
    "tanh": (None, None),
    "thresholdedrelu": (1.0, None),
}
"""Activation functions by lower-case name, with default values of alpha and beta; None if unused."""


@dataclass(frozen=True)
class Activation:
    """An activation function with its parameters."""

    name: str
    alpha: float
    beta: float

    def __call__(self, x: PrimExpr) -> PrimExpr:
        return let(x, self._of)

    def _of(self, x: PrimExpr) -> PrimExpr:
        zero, one = const(0.0, x.dtype), const(1.0, x.dtype)
        alpha, beta = const(self.alpha, x.dtype), const(self.beta, x.dtype)
        match self.name:
            case "affine":
                return x * alpha + beta
            case "elu":
                return Select(x >= zero, x, alpha * (intrin.exp(x) - one))
            case "hardsigmoid":
                return intrin.min(intrin.max(x * alpha + beta, zero), one)
            case "leakyrelu":
                return Select(x >= zero, x, x * alpha)
            case "relu":
                return intrin.max(x, zero)
            case "scaledtanh":
                return alpha * intrin.tanh(beta * x)
            case "sigmoid":
                return intrin.sigmoid(x)
            case "softplus":
                return intrin.max(x, zero) + intrin.log1p(intrin.exp(zero - intrin.abs(x)))
            case "softsign":
                return x / (intrin.abs(x) + one)
            case "tanh":
                return intrin.tanh(x)
            case _:  # thresholdedrelu
                return Select(x >= alpha, x, zero)


def default_activations(kind: str, direction: str) -> tuple[str, ...]:
    """Default activation functions of an rnn, gru or lstm."""
    names = {"rnn": ("Tanh",), "gru": ("Sigmoid", "Tanh"), "lstm": ("Sigmoid", "Tanh", "Tanh")}[kind]
    return names * 2 if direction == "bidirectional" else names


def activations_of(names: Sequence[str], alphas: Sequence[float], betas: Sequence[float]) -> list[Activation]:
    """Activation functions by name; each that uses alpha (beta) takes the next value, or its default."""
    alpha_values, beta_values = iter(alphas), iter(betas)
    result: list[Activation] = []
    for name in names:
        alpha, beta = DEFAULTS[name.lower()]
        alpha = 0.0 if alpha is None else next(alpha_values, alpha)
        beta = 0.0 if beta is None else next(beta_values, beta)
        result.append(Activation(name.lower(), alpha, beta))
    return result
