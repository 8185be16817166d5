"""What all tests share: how hypothesis runs, a kernel cache of their own, and what the garbage collector looks at."""

from __future__ import annotations

import ctypes
import gc
import math
import os
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

# Compiling within an example makes its time uneven: no deadline. In CI the examples are the same each time.
settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


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
    home = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(home) and item.path.relative_to(home).as_posix() in SLOW_FILES:
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
