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
import types
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

# Compiling within an example makes its time uneven: no deadline. The examples are the same each time, except in the
# nightly run, which looks for new ones.
settings.register_profile("same", deadline=None, derandomize=True, database=None, print_blob=True)
settings.register_profile("new", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("RELAX_EXAMPLES", "same"))


# An exception that a converter of ONNX or torch should not raise is no diagnostic in tests: it fails them.
os.environ["RELAX_RAISE_UNEXPECTED"] = "1"

TESTS = Path(__file__).parent

SLOW_FILES = frozenset(
    {
        "farm/test_cache.py", "farm/test_host.py", "farm/test_objects.py",
        "differential/test_found.py", "differential/test_harness.py", "differential/test_mutations.py",
        "differential/test_programs.py",
        "frontend/onnx/test_attributes.py", "frontend/onnx/test_contrib.py", "frontend/onnx/test_ml.py",
        "frontend/onnx/test_models.py", "frontend/onnx/test_real_models.py",
        "numerics/test_accuracy.py", "numerics/test_conversions.py", "numerics/test_rounding.py",
        "pitfalls/test_alias_kinds.py", "pitfalls/test_growth.py", "pitfalls/test_lowered_text.py",
        "pitfalls/test_memory.py", "pitfalls/test_pipelines.py", "pitfalls/test_shape_uses.py",
        "pitfalls/test_sharing.py", "pitfalls/test_time.py",
        "relay/text/test_hostile.py",
        "schedules/convolutions/test_direct.py", "schedules/test_nests.py",
        "script/test_deep_text.py", "script/test_hostile_input.py", "script/test_without_files.py",
        "test_roundtrip_all.py",
        "transform/fusion/test_results.py", "transform/memory/test_models.py", "transform/test_random_programs.py",
        "tune/test_every_record.py",
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


GLOBAL_GENERATORS = {
    np.random: ("choice", "normal", "permutation", "rand", "randint", "randn", "random", "shuffle", "standard_normal", "uniform"),
    random: ("choice", "choices", "gauss", "getrandbits", "randint", "random", "randrange", "sample", "shuffle", "uniform"),
}  # fmt: skip
"""Functions that draw from a generator whose seed is not known, by their module."""


def seeded(module: types.ModuleType, name: str, allowed: Callable[..., bool]) -> None:
    """Replace a function of a module: tests and documents that call it fail unless the arguments are `allowed`."""
    draw = getattr(module, name)

    def checked(*args: Any, **kwargs: Any) -> Any:
        caller = Path(sys._getframe(1).f_code.co_filename)
        here = caller.is_relative_to(TESTS.parent)
        here = here and not caller.relative_to(TESTS.parent).parts[0].startswith(".venv")
        if here and not caller.is_relative_to(TESTS.parent / "src") and not allowed(*args, **kwargs):
            raise AssertionError(f"{module.__name__}.{name} draws unseeded numbers: use np.random.default_rng(seed)")
        return draw(*args, **kwargs)

    setattr(module, name, checked)


for generator, names in GLOBAL_GENERATORS.items():
    for name in names:
        seeded(generator, name, lambda *args, **kwargs: False)
seeded(np.random, "default_rng", lambda seed=None: seed is not None)


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
    ctypes.memmove(pointer(capsule, b"dltensor") + 20, bytes(DLPACK_CODES[dtype]), 2)  # DLDataType: code, bits
    return tvm_ffi.from_dlpack(capsule)
