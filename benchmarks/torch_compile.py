"""Measure torch.compile(backend="relax") beside inductor and eager torch.

    python benchmarks/torch_compile.py [--threads 1 2] [--models mlp resnet ...] [--training] [--warm]

Each row is one model, one number of threads and one backend, in a process of its own that starts with empty caches:
seconds until every size of the model has been called once (imports left out, compilations and recompilations counted
in), and milliseconds of a call after that, and after the full builds that go on behind relax's first calls: the
geometric mean over the sizes of medians. With ``--training``, the same
of a step of training, forward and backward. Sizes change from call to call; torch decides by itself when they become
open. ``--warm`` keeps the caches that earlier rows have filled.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch_networks import NETWORKS

BACKENDS = ("eager", "inductor", "relax")


def show(line: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def seconds(call: Callable[[], Any]) -> float:
    """Return the wall time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measured(name: str, backend: str, threads: int, training: bool, rounds: int) -> dict[str, float]:
    """Return seconds of the first calls at all sizes, and seconds of a call after that."""
    import relax.frontend.torch  # noqa: PLC0415  (which makes the backend known; eager rows do without)

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    module, inputs = NETWORKS[name]()
    module.train(training)
    called: Any = module if backend == "eager" else torch.compile(module, backend=backend)

    def call(arguments: tuple[torch.Tensor, ...]) -> None:
        if training:
            module.zero_grad()
            called(*arguments).square().mean().backward()
        else:
            with torch.no_grad():
                called(*arguments)

    torch.nn.functional.linear(torch.ones(2, 2), torch.ones(2, 2))
    first = sum(seconds(lambda arguments=arguments: call(arguments)) for arguments in inputs)
    if not relax.frontend.torch.wait_full(600):
        raise SystemExit(f"{name}: the full build has not ended")
    times: list[list[float]] = [[] for _ in inputs]
    gc.collect()
    for _ in range(rounds):
        for index, arguments in enumerate(inputs):
            times[index].append(seconds(lambda arguments=arguments: call(arguments)))
    medians = [statistics.median(of_size) for of_size in times]
    return {"first": first, "call": math.exp(statistics.fmean(map(math.log, medians)))}


def in_process(name: str, backend: str, threads: int, given: argparse.Namespace) -> dict[str, float]:
    """Measure in a process of its own; caches are empty unless they are to be kept."""
    with tempfile.TemporaryDirectory() as folder:
        caches = {} if given.warm else {"RELAX_CACHE_DIR": folder, "TORCHINDUCTOR_CACHE_DIR": str(Path(folder) / "t")}
        command = [sys.executable, __file__, "--one", name, backend, "--threads", str(threads)]
        command += ["--rounds", str(given.rounds), *(["--training"] if given.training else [])]
        ran = subprocess.run(command, env=os.environ | caches, capture_output=True, text=True, check=False)
    if ran.returncode:
        sys.stderr.write(ran.stderr)
        raise SystemExit(f"{name} by {backend} failed")
    return json.loads(ran.stdout.splitlines()[-1])


def mean(ratios: list[float]) -> float:
    """Return the geometric mean."""
    return math.exp(statistics.fmean(map(math.log, ratios)))


def main() -> None:
    """Print a table, and the ratios beside inductor."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--models", nargs="+", default=list(NETWORKS), choices=list(NETWORKS))
    parser.add_argument("--backends", nargs="+", default=list(BACKENDS), choices=BACKENDS)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--training", action="store_true")
    parser.add_argument("--warm", action="store_true")
    parser.add_argument("--one", nargs=2, metavar=("MODEL", "BACKEND"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        show(json.dumps(measured(*given.one, given.threads[0], given.training, given.rounds)))
        return
    rows: list[dict[str, dict[str, float]]] = []
    for threads in given.threads:
        show(f"{'model':12} {'threads':>7}" + "".join(f"{backend:>20}" for backend in given.backends))
        for name in given.models:
            rows.append({backend: in_process(name, backend, threads, given) for backend in given.backends})
            cells = (f"{row['first']:9.2f} s {row['call'] * 1e3:6.2f} ms" for row in rows[-1].values())
            show(f"{name:12} {threads:7}" + "".join(f"{cell:>20}" for cell in cells))
    for other in given.backends:
        if "relax" in given.backends and other != "relax":
            call = mean([row[other]["call"] / row["relax"]["call"] for row in rows])
            first = mean([row[other]["first"] / row["relax"]["first"] for row in rows])
            show(f"geometric mean, {other} over relax: first calls {first:.2f}, a call {call:.2f}")


if __name__ == "__main__":
    main()
