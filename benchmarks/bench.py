"""Whole models beside their peers: time of a run, time of a first run at a new size, time to build.

    python benchmarks/bench.py [--quick] [--threads 1 2] [--pipelines default unfused] [--libraries onnxruntime]
                               [--small] [--bfloat16] [CASE ...]

Each case is a model at one size of its open dimensions, which stay symbolic. Those of tests/frontend/onnx/models, and
a perceptron, have random weights; those of `real_cases` are run where they are named, ``real`` names them all.
Engines: this package, under each pipeline; ONNX Runtime; OpenVINO where it is installed. Every engine runs the same
ONNX model in one process, in turns, and its outputs are compared with ONNX Runtime's first. A row: milliseconds
(median) of each engine, and the time of the fastest peer divided by that of our fastest pipeline: above 1 we are
faster. `--quick` runs few rounds of the small cases. `--libraries` adds this package's program whose parts run in a
library (`relax.backend.partition`). `--plot` draws the ratios. What an engine costs beside the time of a run is
measured by `costs`. `--bfloat16`: this package computes in bfloat16 as `FoldBatchnormToConv2D` and `ToMixedPrecision`
arrange it, OpenVINO as its own hint does, and ONNX Runtime in float32.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import real_cases
from onnx import TensorProto, helper, numpy_helper
from rich.console import Console
from rich.table import Table

import relax
from relax.frontend.onnx import from_onnx

FOLDER = Path(__file__).parent.parent / "tests" / "frontend" / "onnx"
CASES = {
    "mlp-1": ("mlp", {"batch": 1}),
    "mlp-64": ("mlp", {"batch": 64}),
    "mobilenet": ("mobilenet", {"batch": 1, "height": 224, "width": 224}),
    "resnet": ("resnet", {"batch": 1, "height": 224, "width": 224}),
    "bert-16": ("bert", {"batch": 1, "seq": 16}),
    "bert-128": ("bert", {"batch": 1, "seq": 128}),
    "bert-384": ("bert", {"batch": 1, "seq": 384}),
    "gpt2-64": ("gpt2", {"batch": 1, "seq": 1, "past": 64}),
    "gpt2-512": ("gpt2", {"batch": 1, "seq": 1, "past": 511}),
    "detector": ("detector", {"batch": 1, "height": 320, "width": 320}),
}
"""The cases that are run by default: a model and the sizes of its open dimensions."""
ALL = {**CASES, **real_cases.CASES}
REAL_MODELS = {model for model, _ in real_cases.CASES.values()}
QUICK = ("mlp-1", "mlp-64", "mobilenet", "bert-16")

Run = Callable[[], Sequence[np.ndarray]]


@dataclass
class Row:
    """What was measured of one case with one number of threads: milliseconds by engine, seconds of building."""

    case: str
    threads: int
    run: dict[str, float] = field(default_factory=dict[str, float])
    first: dict[str, float] = field(default_factory=dict[str, float])
    build: dict[str, float] = field(default_factory=dict[str, float])


def perceptron() -> onnx.ModelProto:
    """784-128-10, ReLU between."""
    rng = np.random.default_rng(0)
    weights = {
        name: rng.standard_normal(shape).astype("float32") * 0.1
        for name, shape in {"w1": (784, 128), "b1": (128,), "w2": (128, 10), "b2": (10,)}.items()
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"]),
        helper.make_node("Add", ["a", "b1"], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("MatMul", ["c", "w2"], ["d"]),
        helper.make_node("Add", ["d", "b2"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 784])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 10])
    stored = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "mlp", [x], [y], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def load(name: str, small: bool) -> tuple[onnx.ModelProto, Callable[[dict[str, int]], dict[str, Any]]]:
    """A model, and its inputs by the sizes of its open dimensions."""
    if name in REAL_MODELS:
        return real_cases.load(name)
    if name == "mlp":
        rng = np.random.default_rng(1)
        return perceptron(), lambda sizes: {"x": rng.standard_normal((sizes["batch"], 784)).astype("float32")}
    module = importlib.import_module(f"models.{name}")
    options = module.SMALL if small else module.FULL

    def inputs(sizes: dict[str, int]) -> dict[str, Any]:
        code = module.inputs.__code__
        accepted = code.co_varnames[: code.co_argcount]
        extra = {key: value for key, value in options.items() if key in accepted and key not in sizes}
        return module.inputs(np.random.default_rng(0), **sizes, **extra)

    return module.model(**options), inputs


class Relax:
    """This package, under one pipeline."""

    def __init__(
        self, path: Path, names: Sequence[str], pipeline: str, threads: int, bfloat16: bool, library: str = ""
    ) -> None:
        relax.runtime.set_num_threads(threads)
        self.names = names
        module = from_onnx(path)
        if library:
            module = relax.backend.partition(relax.transform.ConvertToDataflow()(module), library)
        if bfloat16:
            folded = relax.transform.FoldBatchnormToConv2D()(relax.transform.ConvertToDataflow()(module))
            module = relax.transform.ToMixedPrecision(mixed_precision_type="bfloat16")(folded)
        self.machine = relax.VirtualMachine(relax.build(module, pipeline=pipeline), relax.cpu())

    def prepare(self, inputs: dict[str, Any]) -> Run:
        values = [relax.nd.array(inputs[name]) for name in self.names]

        def run() -> Sequence[np.ndarray]:
            result = self.machine["main"](*values)  # arrays share the results' memory, as the peers' do
            return [np.from_dlpack(part) for part in (result if isinstance(result, tuple) else (result,))]

        return run


class OnnxRuntime:
    """ONNX Runtime's CPU provider."""

    def __init__(self, path: Path, threads: int) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        self.session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def prepare(self, inputs: dict[str, Any]) -> Run:
        return lambda: self.session.run(None, inputs)


class OpenVino:
    """OpenVINO in float32 or bfloat16, if it is installed."""

    def __init__(self, path: Path, threads: int, bfloat16: bool) -> None:
        openvino = importlib.import_module("openvino")
        core = openvino.Core()
        hints = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "bf16" if bfloat16 else "f32"}
        self.compiled = core.compile_model(core.read_model(str(path)), "CPU", hints)

    def prepare(self, inputs: dict[str, Any]) -> Run:
        request = self.compiled.create_infer_request()
        return lambda: list(request.infer(inputs).values())


def measure(names: Sequence[str], options: argparse.Namespace, threads: int) -> list[Row]:
    """The rows of some cases of one model with one number of threads."""
    model, inputs_of = load(ALL[names[0]][0], options.small)
    parameters = [item.name for item in model.graph.input]
    engines: dict[str, Any] = {}
    build: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(model.SerializeToString())
        makers: dict[str, Callable[[], Any]] = {
            f"relax {name}": lambda name=name: Relax(path, parameters, name, threads, options.bfloat16)
            for name in options.pipelines
        }
        for library in options.libraries:
            maker = partial(Relax, path, parameters, options.pipelines[0], threads, options.bfloat16, library)
            makers[f"{_WITHIN}{library}"] = maker
        makers["onnxruntime"] = lambda: OnnxRuntime(path, threads)
        if importlib.util.find_spec("openvino") is not None:
            makers["openvino"] = lambda: OpenVino(path, threads, options.bfloat16)
        for name, make in makers.items():
            start = time.perf_counter()
            engines[name] = make()
            build[name] = time.perf_counter() - start
    rows: list[Row] = []
    for case in names:
        inputs = inputs_of(ALL[case][1])
        runs = {name: engine.prepare(inputs) for name, engine in engines.items()}
        row = Row(case, threads, build=build)
        outputs: dict[str, Sequence[np.ndarray]] = {}
        for name, run in runs.items():
            start = time.perf_counter()
            outputs[name] = run()
            row.first[name] = (time.perf_counter() - start) * 1e3
        for name, values in outputs.items():
            for actual, expected in zip(values, outputs["onnxruntime"], strict=True):
                compare(actual, expected, options.bfloat16, f"{case}: {name}")
        row.run = alternate(runs, 0.2 if options.quick else 2.0)
        rows.append(row)
    return rows


def compare(actual: np.ndarray, expected: np.ndarray, bfloat16: bool, name: str) -> None:
    """Check an output against ONNX Runtime's in float32: each element, or in bfloat16 the length of the difference."""
    if not bfloat16:
        np.testing.assert_allclose(actual, expected, 2e-3, 2e-3, err_msg=name)
        return
    error = np.linalg.norm(np.asarray(actual, "float64") - expected) / max(float(np.linalg.norm(expected)), 1e-6)
    if not error <= 0.1:
        raise AssertionError(f"{name}: the difference is {error:.1%} of the output's length")


_WITHIN = "ours in "
"""Begins the names of this package's programs whose parts run in a library: they are no peers."""
REST = 0.03
"""Seconds between the runs of one engine and those of the next."""


def alternate(runs: dict[str, Run], budget: float) -> dict[str, float]:
    """The median time of each run in ms; they take turns, each for about `budget` seconds in all.

    Threads of an engine go on looking for work for some milliseconds: the next one waits for that.
    """
    repeats: dict[str, int] = {}
    for name, run in runs.items():
        start = time.perf_counter()
        run()
        once = time.perf_counter() - start
        repeats[name] = max(1, min(1000, math.ceil(budget / 20 / max(once, 1e-7))))
    times: dict[str, list[float]] = {name: [] for name in runs}
    end = time.perf_counter() + budget * len(runs)
    while time.perf_counter() < end or len(next(iter(times.values()))) < 5:
        for name, run in runs.items():
            time.sleep(REST)
            start = time.perf_counter()
            for _ in range(repeats[name]):
                run()
            times[name].append((time.perf_counter() - start) / repeats[name] * 1e3)
    return {name: statistics.median(values) for name, values in times.items()}


def table(rows: Sequence[Row]) -> Table:
    """The rows as a table."""
    engines = list(dict.fromkeys(name for row in rows for name in row.run))
    result = Table("case", "threads", *(f"{name} (ms)" for name in engines), "peer / ours", "first (ms)", "build (s)")
    for row in rows:
        best = min((name for name in row.run if name.startswith("relax")), key=row.run.__getitem__)
        result.add_row(
            row.case,
            str(row.threads),
            *(f"{row.run[name]:.3g}" for name in engines),
            f"{_ratio(row):.2f}",
            f"{row.first[best]:.3g}",
            f"{row.build[best]:.1f}",
        )
    return result


def plot(rows: Sequence[Row], path: Path) -> None:
    """Draw the ratios as bars in an SVG file, each with a mark at 1, where ours is as fast as the fastest peer."""
    ratios = [(f"{row.case}, {row.threads}", _ratio(row)) for row in rows]
    scale = 480 / max(2.0, *(ratio for _, ratio in ratios))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="720" height="{24 * len(ratios) + 40}" '
        'font-family="sans-serif" font-size="13">',
        '<text x="8" y="18">fastest peer / ours, by case and threads: longer is faster</text>',
    ]
    for place, (name, ratio) in enumerate(ratios):
        y, colour = 24 * place + 32, "#2a7" if ratio >= 1 else "#c52"
        parts.append(f'<text x="8" y="{y + 13}">{name}</text>')
        parts.append(f'<rect x="150" y="{y}" width="{ratio * scale:.1f}" height="17" fill="{colour}"/>')
        parts.append(f'<text x="{154 + ratio * scale:.1f}" y="{y + 13}">{ratio:.2f}</text>')
    x = 150 + scale
    parts.append(f'<line x1="{x:.1f}" y1="26" x2="{x:.1f}" y2="{24 * len(ratios) + 32}" stroke="#000"/>')
    path.write_text("\n".join([*parts, "</svg>"]) + "\n")


def _ratio(row: Row) -> float:
    """The time of the fastest peer by that of our fastest pipeline."""
    ours = min(value for name, value in row.run.items() if name.startswith("relax"))
    return min(value for name, value in row.run.items() if not name.startswith(("relax", _WITHIN))) / ours


def in_process(names: Sequence[str], arguments: Sequence[str], threads: int) -> list[Row]:
    """`measure` in a process of its own, which no other case has warmed up."""
    command = [sys.executable, __file__, *names, *arguments, "--threads", str(threads), "--worker"]
    environment = {**os.environ, "RELAX_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        Console(stderr=True).print(f"{', '.join(names)} with {threads} threads failed")
        return []
    return [Row(**row) for row in json.loads(done.stdout.splitlines()[-1])]


def main() -> None:
    """Print the table, and the geometric mean of the ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "cases", nargs="*", choices=[*ALL, "real", []], metavar="CASE", help=f"some of {', '.join(ALL)}, real"
    )
    parser.add_argument("--quick", action="store_true", help="few rounds of small cases")
    parser.add_argument("--small", action="store_true", help="the models' sizes of the tests")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--pipelines", nargs="+", default=["default"])
    parser.add_argument(
        "--libraries", nargs="+", default=[], help="libraries of relax.backend that run parts of it, too"
    )
    parser.add_argument("--bfloat16", action="store_true", help="compute in bfloat16 where precision allows")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw the ratios")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sys.path.insert(0, str(FOLDER))
    chosen = options.cases or (QUICK if options.quick else tuple(CASES))
    names = [case for name in chosen for case in (real_cases.CASES if name == "real" else (name,))]
    if options.worker:
        sys.stdout.write(json.dumps([asdict(r) for r in measure(names, options, options.threads[0])]) + "\n")
        return
    arguments = [*(["--quick"] if options.quick else []), *(["--small"] if options.small else [])]
    arguments += ["--pipelines", *options.pipelines, *(["--bfloat16"] if options.bfloat16 else [])]
    arguments += ["--libraries", *options.libraries] if options.libraries else []
    rows: list[Row] = []
    for model in dict.fromkeys(ALL[name][0] for name in names):
        group = [name for name in names if ALL[name][0] == model]
        for threads in options.threads:
            rows += in_process(group, arguments, threads)
    if not rows:
        sys.exit(1)
    console = Console(width=140)
    console.print(table(rows))
    console.print(f"geometric mean of peer / ours: {statistics.geometric_mean(map(_ratio, rows)):.2f}")
    if options.plot is not None:
        plot(rows, options.plot)


if __name__ == "__main__":
    main()
