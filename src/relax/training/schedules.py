"""Schedules of learning rates: functions from the number of updates done to the learning rate of the next one.

    optimizer = AdamW(cosine(1e-3, steps=1000, warmup=50))      0, 2e-5, …, 1e-3 at update 50, …, 0 at update 1000

An optimizer takes a schedule in the place of a number. Any function of one integer is a schedule.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

Schedule: TypeAlias = Callable[[int], float]
"""Function from the number of updates done so far to the learning rate of the next update."""


def constant(lr: float, *, warmup: int = 0) -> Schedule:
    """Return the schedule of a constant rate `lr`, reached linearly from 0 during the first `warmup` updates.

    Raises ValueError if `lr` or `warmup` is negative.
    """
    return _warmed("constant", lr, warmup, lambda done: lr)


def cosine(lr: float, steps: int, *, warmup: int = 0, final: float = 0.0) -> Schedule:
    """Return the schedule that falls from `lr` to `final` along half a period of a cosine.

    The rate rises linearly from 0 during the first `warmup` updates, falls until update `steps`, and stays `final`
    from there on. Raises ValueError if `lr`, `final` or `warmup` is negative or `steps` is not greater than `warmup`.
    """
    _require("cosine", steps > warmup, f"steps must be greater than warmup, found {steps} and {warmup}")
    _require("cosine", final >= 0, f"final must not be negative, found {final}")

    def rate(done: int) -> float:
        share = min((done - warmup) / (steps - warmup), 1.0)
        return final + (lr - final) * (1 + math.cos(math.pi * share)) / 2

    return _warmed("cosine", lr, warmup, rate)


def linear(lr: float, steps: int, *, warmup: int = 0, final: float = 0.0) -> Schedule:
    """Return the schedule that falls from `lr` to `final` linearly.

    The rate rises linearly from 0 during the first `warmup` updates, falls until update `steps`, and stays `final`
    from there on. Raises ValueError if `lr`, `final` or `warmup` is negative or `steps` is not greater than `warmup`.
    """
    _require("linear", steps > warmup, f"steps must be greater than warmup, found {steps} and {warmup}")
    _require("linear", final >= 0, f"final must not be negative, found {final}")
    return _warmed("linear", lr, warmup, lambda done: lr + (final - lr) * min((done - warmup) / (steps - warmup), 1.0))


def step(lr: float, every: int, factor: float = 0.1, *, warmup: int = 0) -> Schedule:
    """Return the schedule that multiplies the rate by `factor` after each `every` updates.

    Updates are counted from the end of the linear rise, during the first `warmup` updates. Raises ValueError if `lr`,
    `factor` or `warmup` is negative or `every` is less than 1.
    """
    _require("step", every >= 1, f"every must be at least 1, found {every}")
    _require("step", factor >= 0, f"factor must not be negative, found {factor}")
    return _warmed("step", lr, warmup, lambda done: lr * factor ** ((done - warmup) // every))


def _warmed(name: str, lr: float, warmup: int, rate: Schedule) -> Schedule:
    """Return `rate` after a linear rise from 0 to `lr` during the first `warmup` updates."""
    _require(name, lr >= 0, f"lr must not be negative, found {lr}")
    _require(name, warmup >= 0, f"warmup must not be negative, found {warmup}")
    return lambda done: lr * done / warmup if done < warmup else rate(done)


def _require(name: str, holds: bool, message: str) -> None:
    if not holds:
        raise ValueError(f"{name}: {message}")


__all__ = ["Schedule", "constant", "cosine", "linear", "step"]
