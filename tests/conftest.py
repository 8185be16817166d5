"""Settings of all tests: hypothesis, a kernel cache of their own, the garbage collector, seeded numbers only."""

from __future__ import annotations

import ctypes
import gc
import math
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

# Compiling within an example makes its time uneven: no deadline. In CI the examples are the same each time.
settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


TESTS = Path(__file__).parent

SLOW_FILES = frozenset(
    {
        "codegen/test_cache.py", "codegen/test_host.py", "codegen/test_objects.py",
        "differential/test_found.py", "differential/test_harness.py", "differential/test_mutations.py",
        "differential/test_programs.py",
        "frontend/onnx/test_contrib.py", "frontend/onnx/test_ml.py", "frontend/onnx/test_models.py",
        "frontend/onnx/test_real_models.py",
        "numerics/test_accuracy.py", "numerics/test_conversions.py", "numerics/test_rounding.py",
        "pitfalls/test_alias_kinds.py", "pitfalls/test_growth.py", "pitfalls/test_lowered_text.py",
        "pitfalls/test_memory.py", "pitfalls/test_pipelines.py", "pitfalls/test_shape_uses.py",
        "pitfalls/test_sharing.py", "pitfalls/test_time.py",
        "relay/text/test_hostile.py",
        "schedules/test_convolution.py", "schedules/test_nests.py",
        "script/test_deep_text.py", "script/test_hostile_input.py", "script/test_without_files.py",
        "test_roundtrip_all.py",
        "transform/fusion/test_results.py", "transform/memory/test_models.py", "transform/test_random_programs.py",
    }
)  # fmt: skip
"""Files that take long, and look for faults that seldom come back: all their tests are marked slow."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of slow files; `make test` leaves them out, `make test-slow` runs them."""
    for item in items:
        if item.path.is_relative_to(TESTS) and item.path.relative_to(TESTS).as_posix() in SLOW_FILES:
            item.add_marker("slow")


def pytest_configure(config: pytest.Config) -> None:
    """Keep the user's kernel cache out of the tests: they share one of the session's, which xdist's workers inherit.

    It keeps kernels, but no whole programs: what a test builds runs through all passes.
    """
    if not hasattr(config, "workerinput"):
        os.environ["RELAX_CACHE_PROGRAMS"] = "0"
        os.environ["RELAX_CACHE_DIR"] = tempfile.mkdtemp(prefix="relax-test-cache-")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """The modules that are loaded here stay: to look for garbage among them took a sixth of the time of loading."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ["RELAX_CACHE_DIR"], ignore_errors=True)


@pytest.fixture(autouse=True)
def seeded_numbers_only(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Generator[None, None, None]:
    """Fail a test that draws unseeded numbers: from the global generators, or from a generator without a seed."""

    def default_rng(seed: object = None, make: Any = np.random.default_rng) -> np.random.Generator:
        caller = Path(sys._getframe(1).f_code.co_filename)
        assert seed is not None or not caller.is_relative_to(TESTS), "give np.random.default_rng a seed"
        return make(seed)

    monkeypatch.setattr(np.random, "default_rng", default_rng)
    before = _global_generators()
    yield
    names = [name for name, state in _global_generators().items() if state != before[name]]
    assert not names, (
        f"{request.node.nodeid} draws from {' and '.join(names)}: use np.random.default_rng(seed)"
    )


def _global_generators() -> dict[str, object]:
    """Return the states of the global generators, which compare equal unless a number was drawn."""
    name, keys, *position = np.random.get_state()
    return {"np.random": (name, keys.tobytes(), *position), "random": random.getstate()}


@pytest.fixture(scope="session")
def packed_tensor():
    """The function below."""
    return _packed_tensor


def _packed_tensor(data, dtype, shape):
    """A tensor of elements of 2 or 4 bits as DLPack packs them: `shape` counts elements, several of them in a byte.

    The memory has an element's byte for each, so that nothing outside of it could be read.
    """
    import tvm_ffi

    from relax.runtime.dtypes import DLPACK_CODES

    room = np.zeros(max(math.prod(shape), len(data)), np.int8)
    room[: len(data)] = np.frombuffer(data, np.int8)
    capsule = room[: math.prod(shape)].reshape(shape).__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    ctypes.memmove(
        pointer(capsule, b"dltensor") + 20, bytes(DLPACK_CODES[dtype]), 2
    )  # DLDataType: code, bits
    return tvm_ffi.from_dlpack(capsule)
