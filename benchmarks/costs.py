"""What an engine costs beside the time of a run: import, build, first calls, memory, size on disk.

    python benchmarks/costs.py [--threads N] [MODEL ...]

Each engine reads the same ONNX file in a process of its own: this package with an empty cache (``cold``), with what the
first build left there (``warm``), at tier "now" with its kernels, but not the program, in the cache (``now``), and from
a saved executable without the compiler (``saved``); ONNX Runtime; OpenVINO where it is installed. Columns: seconds of
the import and of reading and building the model; for each size of the model the first call and the median of later
ones, in ms, and their ratio; the greatest resident memory of the process, and how much of it is in pages of files at
the end, which processes share. The helper processes of a cold build are not in it. Last, the size of the installed
packages, without those that all of them need.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import importlib.util
import json
import os
import resource
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

MODELS = ("mobilenet", "resnet", "bert", "gpt2", "detector")
ENGINES = ("relax cold", "relax warm", "relax now", "relax saved", "onnxruntime", "openvino")
PACKAGES = {
    "relax": ("relax", "llvmlite", "ml_dtypes", "apache-tvm-ffi"),
    "onnxruntime": ("onnxruntime",),
    "openvino": ("openvino",),
}
"""The packages of an engine. NumPy is of all, and so is ONNX's, or its like inside of the others."""
CALLS = 15


@dataclass
class Cost:
    """What was measured of one engine with one model."""

    model: str
    engine: str
    imports: float
    build: float
    calls: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    """Milliseconds of the first call and the median of later ones, by the size."""
    memory: float = 0.0
    files: float = 0.0
    """Megabytes."""


# ------------------------------------------------------------------------------------- in a process of its own

Inputs = dict[str, Any]
Loaded = Callable[[Inputs], Callable[[], Any]]


def load_relax(path: Path, threads: int, saved: Path, tier: str = "full") -> tuple[float, Loaded]:
    """The import's seconds, and the model, built or found in the cache."""
    start = time.perf_counter()
    relax = importlib.import_module("relax")
    read = importlib.import_module("relax.frontend.onnx").from_onnx
    imported = time.perf_counter() - start
    relax.runtime.set_num_threads(threads)
    return imported, _machine(relax, relax.build(read(path), tier=tier))


def load_saved(path: Path, threads: int, saved: Path) -> tuple[float, Loaded]:
    """The same of an executable that was saved."""
    start = time.perf_counter()
    runtime = importlib.import_module("relax.runtime")
    imported = time.perf_counter() - start
    runtime.set_num_threads(threads)
    return imported, _machine(runtime, runtime.load_module(saved))


def _machine(package: Any, executable: Any) -> Loaded:
    machine = package.VirtualMachine(executable, package.cpu())

    def prepare(inputs: Inputs) -> Callable[[], Any]:
        values = [package.nd.array(value) for value in inputs.values()]  # in the order of the model
        return lambda: machine["main"](*values)

    return prepare


def load_onnxruntime(path: Path, threads: int, saved: Path) -> tuple[float, Loaded]:
    """The same by ONNX Runtime's CPU provider."""
    start = time.perf_counter()
    ort = importlib.import_module("onnxruntime")
    imported = time.perf_counter() - start
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return imported, lambda inputs: lambda: session.run(None, inputs)


def load_openvino(path: Path, threads: int, saved: Path) -> tuple[float, Loaded]:
    """The same by OpenVINO in float32."""
    start = time.perf_counter()
    openvino = importlib.import_module("openvino")
    imported = time.perf_counter() - start
    core = openvino.Core()
    hints = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"}
    compiled = core.compile_model(core.read_model(str(path)), "CPU", hints)
    request = compiled.create_infer_request()
    return imported, lambda inputs: lambda: request.infer(inputs)


def measure(engine: str, folder: Path, threads: int) -> Cost:
    """What an engine costs with the model and the inputs of a folder, in this process."""
    loaders = {
        "relax now": partial(load_relax, tier="now"),
        "relax saved": load_saved,
        "onnxruntime": load_onnxruntime,
        "openvino": load_openvino,
    }
    start = time.perf_counter()
    imported, prepare = loaders.get(engine, load_relax)(folder / "model.onnx", threads, folder / "model.relax")
    cost = Cost(folder.name, engine, imported, time.perf_counter() - start - imported)
    for file in sorted(folder.glob("*.npz")):
        with np.load(file) as inputs:
            run = prepare(dict(inputs))
        times: list[float] = []
        for _ in range(CALLS):
            start = time.perf_counter()
            run()
            times.append((time.perf_counter() - start) * 1e3)
        cost.calls[file.stem] = times[0], statistics.median(times[1:])
    cost.memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    cost.files = int(status["RssFile"].split()[0]) / 1e3
    return cost


# ------------------------------------------------------------------------------------- all of them


def measure_all(model: str, threads: int) -> list[Cost]:
    """What each engine costs with a model."""
    costs: list[Cost] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / model
        folder.mkdir()
        write = [sys.executable, __file__, "--write", str(folder)]
        subprocess.run(write, check=True)  # a process that goes on is not to hold the model
        environment = {
            **os.environ,
            "RELAX_CACHE_DIR": str(Path(temporary) / "cache"),
            "RELAX_NUM_THREADS": str(threads),
            "OMP_NUM_THREADS": str(threads),
        }
        for engine in ENGINES:
            if not engine.startswith("relax") and importlib.util.find_spec(engine) is None:
                continue
            if engine == "relax saved":
                save = [sys.executable, __file__, "--save", str(folder)]
                subprocess.run(save, env=environment, check=True)
            command = [sys.executable, __file__, "--worker", engine, str(folder), "--threads", str(threads)]
            own = environment
            if engine == "relax now":
                own = {**environment, "RELAX_CACHE_PROGRAMS": "0"}
                subprocess.run(command, env=own, stdout=subprocess.DEVNULL, check=True)  # fills the library
            done = subprocess.run(command, env=own, stdout=subprocess.PIPE, text=True, check=True)
            costs.append(Cost(**json.loads(done.stdout.splitlines()[-1])))
    return costs


def write_case(folder: Path) -> None:
    """Write a model, named by the folder, and its inputs for each of the sizes of `bench`."""
    bench = importlib.import_module("bench")
    sys.path.insert(0, str(bench.FOLDER))
    model, inputs_of = bench.load(folder.name, False)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    for number, (case, (name, sizes)) in enumerate(bench.ALL.items()):
        if name == folder.name:
            values = inputs_of(sizes)
            ordered = {item.name: values[item.name] for item in model.graph.input if item.name in values}
            np.savez(folder / f"{number:02} {case}.npz", **ordered)


def installed(packages: Sequence[str]) -> float:
    """Megabytes of the files of packages that are installed."""
    total = 0
    for package in packages:
        try:
            files = importlib.metadata.files(package) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        total += sum(place.stat().st_size for file in files if (place := Path(str(file.locate()))).is_file())
    return total / 1e6


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"some of {', '.join(MODELS)}")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--write", help=argparse.SUPPRESS)
    parser.add_argument("--save", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        write_case(Path(options.write))
        return
    if options.save:
        folder = Path(options.save)
        read = importlib.import_module("relax.frontend.onnx").from_onnx
        importlib.import_module("relax").build(read(folder / "model.onnx")).save(folder / "model.relax")
        return
    if options.worker:
        engine, folder = options.worker
        sys.stdout.write(json.dumps(asdict(measure(engine, Path(folder), options.threads))) + "\n")
        return
    rich = importlib.import_module("rich.console"), importlib.import_module("rich.table")
    console = rich[0].Console(width=140)
    table = rich[1].Table(
        "model", "engine", "import (s)", "build (s)", "first call / later ones (ms)", "memory (MB)", "of files"
    )
    for model in options.models or MODELS:
        for cost in measure_all(model, options.threads):
            calls = [
                f"{name.partition(' ')[2]} {first:.3g} / {later:.3g} = {first / later:.2f}"
                for name, (first, later) in cost.calls.items()
            ]
            numbers = [f"{cost.imports:.2f}", f"{cost.build:.2f}", "\n".join(calls)]
            numbers += [f"{cost.memory:.0f}", f"{cost.files:.0f}"]
            table.add_row(model, cost.engine, *numbers, end_section=cost.engine == ENGINES[-1])
    console.print(table)
    for name, packages in PACKAGES.items():
        console.print(f"{name}: {installed(packages):.0f} MB installed")


if __name__ == "__main__":
    main()
