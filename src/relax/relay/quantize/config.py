"""Quantisation settings, with TVM's names: `qconfig` creates them, a `with` statement activates them."""

from __future__ import annotations

from collections.abc import Container
from contextvars import ContextVar
from typing import Any, Final, Literal

from ...runtime.records import dataclass

_MODES: Final = ("global_scale", "kl_divergence", "percentile")
_WEIGHTS: Final = ("power2", "max")


@dataclass(frozen=True)
class QConfig:
    """Settings of a quantisation. Raises ValueError for invalid values.

    Parameters
    ----------
    nbit_input, nbit_weight
        Bits of a quantised operand and weight, with the sign: 2 to 8.
    dtype_input, dtype_weight
        The dtype that holds them: "int8", which convolutions and products read.
    dtype_activation
        The dtype in which products are added up: "int32".
    calibrate_mode
        How the range of an operand is found: "global_scale" takes `global_scale` for all; "percentile" the range that
        99.999 % of its elements are in, "kl_divergence" the range that loses the least information, on a dataset.
    global_scale
        The largest absolute value that "global_scale" represents.
    weight_scale
        The range of a weight: "max", its largest absolute value, or "power2", the next power of two.
    skip_dense_layer
        Whether `nn.dense` stays in float32.
    skip_conv_layers
        The convolutions that stay in float32, by their number in the order of evaluation.
    do_simulation
        Whether operands are rounded to the values that int8 has but stay float32: to see what quantisation loses.
    """

    nbit_input: int = 8
    nbit_weight: int = 8
    dtype_input: str = "int8"
    dtype_weight: str = "int8"
    dtype_activation: str = "int32"
    calibrate_mode: Literal["global_scale", "kl_divergence", "percentile"] = "global_scale"
    global_scale: float = 8.0
    weight_scale: Literal["power2", "max"] = "power2"
    skip_dense_layer: bool = True
    skip_conv_layers: tuple[int, ...] = (0,)
    do_simulation: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "skip_conv_layers", tuple(self.skip_conv_layers or ()))
        for name in ("nbit_input", "nbit_weight"):
            _require(name, getattr(self, name), range(2, 9), "a number of bits from 2 to 8")
        for name, dtype in (("dtype_input", "int8"), ("dtype_weight", "int8"), ("dtype_activation", "int32")):
            _require(name, getattr(self, name), (dtype,), f'"{dtype}"')
        _require("calibrate_mode", self.calibrate_mode, _MODES, f"one of {', '.join(_MODES)}")
        _require("weight_scale", self.weight_scale, _WEIGHTS, f"one of {', '.join(_WEIGHTS)}")
        if not 0 < self.global_scale < float("inf"):
            raise ValueError(f"qconfig: global_scale is a positive number; found {self.global_scale!r}")

    def __enter__(self) -> QConfig:
        _entered.set((*_entered.get(), self))
        return self

    def __exit__(self, *error: object) -> None:
        _entered.set(_entered.get()[:-1])


def _require(name: str, value: object, allowed: Container[object], expected: str) -> None:
    if value not in allowed:
        raise ValueError(f"qconfig: {name} is {expected}; found {value!r}")


_entered: ContextVar[tuple[QConfig, ...]] = ContextVar("relay.quantize.qconfig", default=())


def current_qconfig() -> QConfig:
    """Active settings: those of the innermost `with qconfig(...)`, or the defaults."""
    entered = _entered.get()
    return entered[-1] if entered else QConfig()


def qconfig(**settings: Any) -> QConfig:
    """Return settings for a `with` statement; see `QConfig`. Raises ValueError, or TypeError for an unknown setting."""
    return QConfig(**settings)
