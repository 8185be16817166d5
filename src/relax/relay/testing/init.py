"""Parameter initialisers, and `create_workload`, which creates random weights for a network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from ... import runtime
from ...ir import DataType, IRModule
from ...prim import IntImm
from ...runtime import NDArray
from ..expr import Function
from ..infer import infer_module
from ..types import TensorType

Array = npt.NDArray[Any]


class Initializer:
    """Fills an array according to the parameter's name: ``initializer("conv0_weight", array)``.

    A name ends in weight, bias, gamma, beta, mean or var. Subclasses define weights.
    """

    def __call__(self, desc: str, arr: Array) -> None:
        """Fill `arr` in place. Raises ValueError for an unknown suffix of the name."""
        role = next((role for role in _ROLES if desc.endswith(role)), None)
        if role is None:
            raise ValueError(f"{desc!r}: the name of a parameter ends in {', '.join(_ROLES)}")
        getattr(self, f"_init_{role}")(desc, arr)

    def _init_weight(self, name: str, arr: Array) -> None:
        raise NotImplementedError(f"{type(self).__name__} says nothing about weights")

    def _init_bias(self, name: str, arr: Array) -> None:
        arr[...] = 0

    def _init_gamma(self, name: str, arr: Array) -> None:
        arr[...] = 1

    def _init_beta(self, name: str, arr: Array) -> None:
        arr[...] = 0

    def _init_mean(self, name: str, arr: Array) -> None:
        arr[...] = 0

    def _init_var(self, name: str, arr: Array) -> None:
        arr[...] = 1


_ROLES = ("weight", "bias", "gamma", "beta", "mean", "var")


class Xavier(Initializer):
    """Random weights that preserve the variance of activations (X. Glorot and Y. Bengio, 2010).

    The scale is ``sqrt(magnitude / f)``, where f is the number of inputs of a unit ("in"), of outputs ("out"), or their
    mean ("avg"). Raises ValueError for other types.
    """

    def __init__(
        self,
        rnd_type: Literal["uniform", "gaussian"] = "uniform",
        factor_type: Literal["in", "out", "avg"] = "avg",
        magnitude: float = 3,
        rng: np.random.Generator | None = None,
    ) -> None:
        if rnd_type not in ("uniform", "gaussian") or factor_type not in ("in", "out", "avg"):
            raise ValueError(f"Xavier: no {rnd_type!r} values by {factor_type!r}")
        self.rnd_type = rnd_type
        self.factor_type = factor_type
        self.magnitude = magnitude
        self.rng = np.random.default_rng(0) if rng is None else rng

    def _init_weight(self, name: str, arr: Array) -> None:
        if arr.ndim < 2:
            raise ValueError(f"Xavier: the weight {name!r} has two dimensions or more, found {arr.ndim}")
        window = float(np.prod(arr.shape[2:]))
        inputs, outputs = arr.shape[1] * window, arr.shape[0] * window
        factor = {"in": inputs, "out": outputs, "avg": (inputs + outputs) / 2}[self.factor_type]
        scale = np.sqrt(self.magnitude / factor)
        if self.rnd_type == "uniform":
            arr[...] = self.rng.uniform(-scale, scale, arr.shape)
        else:
            arr[...] = self.rng.normal(0, scale, arr.shape)


class Constant(Initializer):
    """Constant weights."""

    def __init__(self, value: float) -> None:
        self.value = value

    def _init_weight(self, name: str, arr: Array) -> None:
        arr[...] = self.value


def create_workload(
    net: Function, initializer: Callable[[str, Array], None] | None = None, seed: int = 0
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return a module with the network as main, with inferred types, and parameter values by name.

    Parameters named ``data`` are inputs and get no value. The default initializer is Xavier. Raises DiagnosticError,
    and ValueError for a parameter of dynamic shape.
    """
    mod = infer_module(IRModule.from_expr(net))
    fill = Xavier(rng=np.random.default_rng(seed)) if initializer is None else initializer
    params: dict[str, NDArray] = {}
    for var in cast(Function, mod["main"]).params:
        if var.name_hint == "data":
            continue
        arr = np.zeros(*static_type(var.name_hint, var.checked_type))
        fill(var.name_hint, arr)
        params[var.name_hint] = runtime.nd.array(arr)
    return mod, params


def static_type(name: str, type_: Any) -> tuple[tuple[int, ...], str]:
    """Static shape and dtype of a tensor type. Raises ValueError if they are not static."""
    if isinstance(type_, TensorType) and isinstance(type_.dtype, DataType):
        dims: Any = type_.shape
        if isinstance(dims, tuple) and all(isinstance(dim, IntImm) for dim in dims):  # pyright: ignore[reportUnknownVariableType]
            return tuple(int(dim.value) for dim in dims), str(type_.dtype)  # pyright: ignore[reportUnknownVariableType,reportUnknownMemberType,reportUnknownArgumentType]
    raise ValueError(f"the parameter {name!r} has no static shape: {type_}")
