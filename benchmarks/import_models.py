"""ONNX models of full size with random weights: time to import and to build them, and to run beside ONNX Runtime.

    python benchmarks/import_models.py [--small] [--no-run] [MODEL ...]

The models are those of tests/frontend/onnx/models (bert, gpt2, llama, …). For each: the nodes of the ONNX graph, the
bindings and match_casts it became, seconds to import it, seconds to build it with an empty kernel cache, and the time
of a run at the first of its sizes, divided by that of ONNX Runtime on one thread. `--small` takes the sizes of the
tests.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnxruntime as ort
from rich.console import Console
from rich.table import Table

import relax
from relax.expr import MatchCast
from relax.frontend.onnx import from_onnx

FOLDER = Path(__file__).parent.parent / "tests" / "frontend" / "onnx"
MODELS = ("bert", "gpt2", "llama", "mobilenet", "resnet", "t5", "tagger", "unet", "vit", "yolo")
IMAGES = {"resnet": 224, "mobilenet": 224, "vit": 224, "unet": 128, "yolo": 320}


def seconds(action: Callable[[], Any]) -> tuple[float, Any]:
    """The time of an action, and its result."""
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


def run_inputs(module: ModuleType, name: str, options: dict[str, Any], small: bool) -> dict[str, Any]:
    """Inputs at the first size of each open dimension, images at the size that is usual for the model."""
    sizes = {dim: values[0] for dim, values in module.DIMENSIONS.items()}
    if not small and name in IMAGES:
        sizes |= {"batch": 1, "height": IMAGES[name], "width": IMAGES[name]}
    code = module.inputs.__code__
    accepted = code.co_varnames[: code.co_argcount]
    extra = {key: value for key, value in options.items() if key in accepted and key not in sizes}
    return module.inputs(np.random.default_rng(0), **sizes, **extra)


def ratio(model: Any, executable: Any, arrays: dict[str, Any]) -> str:
    """The time of a run divided by ONNX Runtime's, after a comparison of the results."""
    vm = relax.VirtualMachine(executable, relax.cpu())
    values = [relax.nd.array(arrays[item.name]) for item in model.graph.input]
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(model.SerializeToString())
        session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    result = vm["main"](*values)
    results = [result] if len(model.graph.output) == 1 else list(result)
    for actual, expected in zip(results, session.run(None, arrays), strict=True):
        np.testing.assert_allclose(actual.numpy(), expected, 1e-3, 1e-3)
    ours = statistics.median(seconds(lambda: vm["main"](*values))[0] for _ in range(3))
    theirs = statistics.median(seconds(lambda: session.run(None, arrays))[0] for _ in range(3))
    return f"{ours / theirs:.1f}"


def row(name: str, small: bool, run: bool) -> list[str]:
    """The line of the table for a model."""
    module = importlib.import_module(f"models.{name}")
    options = module.SMALL if small else module.FULL
    model = module.model(**options)
    import_time, mod = seconds(lambda: from_onnx(model))
    bindings = [binding for block in mod["main"].body.blocks for binding in block.bindings]
    casts = sum(isinstance(binding, MatchCast) for binding in bindings)
    build_time, executable = seconds(lambda: relax.build(mod, "llvm"))
    shown = ratio(model, executable, run_inputs(module, name, options, small)) if run else ""
    counts = [str(len(model.graph.node)), str(len(bindings)), str(casts)]
    return [name, *counts, f"{import_time:.2f}", f"{build_time:.2f}", shown]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("models", nargs="*", default=MODELS, metavar="MODEL", help="default: all of them")
    parser.add_argument("--small", action="store_true", help="the sizes of the tests")
    parser.add_argument("--no-run", action="store_true", help="import and build only")
    options = parser.parse_args()
    sys.path.insert(0, str(FOLDER))
    table = Table("model", "nodes", "bindings", "match_casts", "import (s)", "cold build (s)", "run / ONNX Runtime")
    with tempfile.TemporaryDirectory() as cache:
        os.environ["RELAX_CACHE_DIR"] = cache
        for name in options.models:
            table.add_row(*row(name, options.small, not options.no_run))
    Console().print(table)


if __name__ == "__main__":
    main()
