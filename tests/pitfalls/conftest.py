"""What the tests of pitfalls share: the ways a program runs, and packed functions that mutate, keep and pass on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from relax.runtime import nd, register_func, remove_global_func

sys.path.insert(0, str(Path(__file__).parent))  # pitfall_helpers

from pitfall_helpers import interpreted, machine


def _increment(tensor: nd.NDArray) -> None:
    tensor.copyfrom(tensor.numpy() + np.ones((), tensor.numpy().dtype))


PACKED = {
    "pitfall.increment": _increment,
    "pitfall.identity": lambda value: value,
    "pitfall.make_tuple": lambda *values: tuple(values),
    "pitfall.fill_dps": lambda source, target: target.copyfrom(source.numpy() * 2),
}


@pytest.fixture(autouse=True)
def packed_functions() -> Iterator[None]:
    """The packed functions of these tests, for as long as a test runs."""
    for name, function in PACKED.items():
        register_func(name, function, override=True)
    yield
    for name in PACKED:
        remove_global_func(name)


@pytest.fixture(params=["compiled", "interpreted"])
def run(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    """``run(Module)["main"](x)``, once as a compiled program and once by the definition of the language."""
    return machine if request.param == "compiled" else interpreted
