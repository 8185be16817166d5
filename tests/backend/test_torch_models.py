"""Whole models handed to torch: equal at several sizes, saved, and run by a process without the compiler."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import relax
from relax.backend.torch import partition_for_torch
from relax.op.base import operator_of
from relax.runtime import Executable
from support import nodes, same, values

pytest.importorskip("torch")

from models import bert, llama, mobilenet

from relax.frontend.onnx import from_onnx

MODELS = {"mobilenet": mobilenet, "bert": bert, "llama": llama}
LEFT = {
    "mobilenet": set(),
    "bert": {"strided_slice"},  # of a constant, by a size of another tensor
    "llama": {"arange", "broadcast_to", "triu"},  # to sizes of other tensors
}
"""Operators that are not handed to torch."""


def inputs(module, model, sizes):
    arrays = module.inputs(np.random.default_rng(1), **sizes)
    return [arrays[item.name] for item in model.graph.input]


@pytest.mark.parametrize("name", MODELS)
def test_a_model(name, tmp_path):
    module = MODELS[name]
    model = module.model(**module.SMALL)
    mod = from_onnx(model)
    split = partition_for_torch(mod)
    calls = [call for call in nodes(split["main"], relax.expr.Call) if operator_of(call) is not None]
    assert {operator_of(call).short_name for call in calls} - {"call_dps_packed"} == LEFT[name]
    executable = relax.build(split)
    executable.save(tmp_path / "model.rxe")
    main = relax.VirtualMachine(Executable.from_bytes(executable.to_bytes()))["main"]
    for at in range(3):
        args = inputs(module, model, {size: every[at] for size, every in module.DIMENSIONS.items()})
        same(values(main(*args)), values(relax.interpret(mod, "main", *args)), 1e-4, 1e-5)
    fresh(tmp_path, args, values(main(*args)))


def fresh(folder: Path, args, expected):
    """Run a saved model in processes of their own, with torch and without."""
    np.savez(folder / "inputs.npz", *args)
    code = f"""
import sys
import numpy as np, relax
folder = {str(folder)!r}
main = relax.VirtualMachine(relax.runtime.load_module(folder + "/model.rxe"))["main"]
inputs = np.load(folder + "/inputs.npz")
results = main(*(inputs[f"arr_{{i}}"] for i in range(len(inputs.files))))
results = results if isinstance(results, tuple) else (results,)
np.savez(folder + "/results.npz", *(result.numpy() for result in results))
assert "relax.ir" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    results = np.load(folder / "results.npz")
    for i, value in enumerate(expected if isinstance(expected, (tuple, list)) else [expected]):
        same(results[f"arr_{i}"], value)
    hidden = "import sys\nsys.modules['torch'] = None\n" + code
    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, check=False)
    assert "ExecutableError: cannot load the module of kind 'torch' with the functions fused_" in done.stderr
    assert "it needs the library torch: pip install torch" in done.stderr
