"""Every distinct convolution of ResNet-50 and MobileNet-V2 for one image, against ONNX Runtime.

    python benchmarks/kernels_convolutions.py [--threads N] [--seconds S] [NAME ...]

Both run in one process, in turn; times are minima. `ratio` is ONNX Runtime's time over ours, `peak` the share of
the fastest that the threads multiply and add (a loop whose operands stay in registers), by the multiplications of the
direct form: Winograd's may exceed it. The last lines are sums over the convolutions of a network, each as often as the
network has it. NAME is a part of the name of what is to run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from kernels import Run, fastest, onnx_runtime, race
from onnx import TensorProto, helper, numpy_helper
from rich.console import Console
from rich.table import Table

from relax import te, topi
from relax.codegen import build_module, resolve
from relax.runtime import set_num_threads
from relax.schedules import PackedFunction, schedule
from relax.schedules.cpu import RULES
from relax.target import Target
from relax.tir import PrimFunc

Array: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(frozen=True)
class Case:
    """A convolution of square images and kernels, with its number in the network."""

    network: str
    count: int
    ci: int
    co: int
    size: int
    kernel: int = 1
    stride: int = 1
    groups: int = 1

    @property
    def name(self) -> str:
        """The channels, the size of the data, the kernel and the stride."""
        kind = " depthwise" if self.groups > 1 else ""
        return f"{self.network} {self.ci}-{self.co} {self.size}² {self.kernel}×{self.kernel}/{self.stride}{kind}"

    @property
    def pad(self) -> int:
        return self.kernel // 2

    @property
    def out(self) -> int:
        """The size of the result."""
        return (self.size + 2 * self.pad - self.kernel) // self.stride + 1

    @property
    def flops(self) -> int:
        return 2 * self.out**2 * self.co * self.ci // self.groups * self.kernel**2


def resnet50() -> Iterator[Case]:
    """The convolutions of ResNet-50, version 1.5."""
    name = "ResNet-50"
    yield Case(name, 1, 3, 64, 224, 7, 2)
    yield Case(name, 1, 64, 64, 56)
    yield Case(name, 3, 64, 64, 56, 3)
    yield Case(name, 4, 64, 256, 56)
    yield Case(name, 2, 256, 64, 56)
    size, wide = 56, 256
    for middle, blocks in ((128, 4), (256, 6), (512, 3)):
        half = size // 2
        yield Case(name, 1, wide, middle, size)
        yield Case(name, 1, middle, middle, size, 3, 2)
        yield Case(name, 1, wide, middle * 4, size, 1, 2)
        yield Case(name, blocks, middle, middle * 4, half)
        yield Case(name, blocks - 1, middle * 4, middle, half)
        yield Case(name, blocks - 1, middle, middle, half, 3)
        size, wide = half, middle * 4


def mobilenet_v2() -> Iterator[Case]:
    """The convolutions of MobileNet-V2."""
    name = "MobileNet-V2"
    cases: dict[Case, int] = {}

    def add(*case: int) -> None:
        key = Case(name, 0, *case)
        cases[key] = cases.get(key, 0) + 1

    add(3, 32, 224, 3, 2)
    ci, size = 32, 112
    for factor, co, blocks, first in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ):  # fmt: skip
        for block in range(blocks):
            stride, middle = (first if block == 0 else 1), ci * factor
            if factor > 1:
                add(ci, middle, size)
            add(middle, middle, size, 3, stride, middle)
            size //= stride
            add(middle, co, size)
            ci = co
    add(320, 1280, size)
    for case, count in cases.items():
        yield Case(name, count, case.ci, case.co, case.size, case.kernel, case.stride, case.groups)


def prim_func(case: Case) -> PrimFunc:
    """The convolution as an operator makes it."""
    x = te.placeholder((1, case.ci, case.size, case.size), name="X")
    w = te.placeholder((case.co, case.ci // case.groups, case.kernel, case.kernel), name="W")
    return te.create_prim_func([x, w, topi.nn.conv(x, w, case.stride, case.pad, 1, case.groups)])


def model(case: Case, w: Array) -> bytes:
    """The convolution as an ONNX model."""
    node = helper.make_node(
        "Conv", ["x", "w"], ["y"], strides=[case.stride] * 2, pads=[case.pad] * 4, group=case.groups
    )
    given = (1, case.ci, case.size, case.size)
    shape = (1, case.co, case.out, case.out)
    graph = helper.make_graph(
        [node], "conv", [helper.make_tensor_value_info("x", TensorProto.FLOAT, given)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)], [numpy_helper.from_array(w, "w")],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return made.SerializeToString()


def ours(case: Case, target: Target, x: Array, w: Array, y: Array) -> Run:
    """A run of our kernel, with weights as they are when they are known while a program is built."""
    func = prim_func(case)
    variants = (rule.pack(func, target, [1]) for rule in RULES)
    packed = next((variant for variant in variants if isinstance(variant, PackedFunction)), None)
    if packed is None:
        arranged = schedule(func, target, RULES)
    else:
        arranged, w = packed.func, np.ascontiguousarray(packed.packings[1](w))
    kernel = build_module(arranged)["main"]
    return lambda: kernel(x, w, y)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0)
    args = parser.parse_args()
    set_num_threads(args.threads)
    target, generator = resolve("llvm"), np.random.default_rng(0)
    most = fastest() * args.threads
    table = Table(*("convolution", "ours µs", "ONNX Runtime µs", "ratio", "peak", "build ms"))
    sums: dict[str, list[float]] = {}
    for case in (*resnet50(), *mobilenet_v2()):
        if args.names and not any(name in case.name for name in args.names):
            continue
        shapes = (
            (1, case.ci, case.size, case.size),
            (case.co, case.ci // case.groups, case.kernel, case.kernel),
            (1, case.co, case.out, case.out),
        )
        x, w, y = (generator.standard_normal(shape).astype("float32") for shape in shapes)
        start = time.process_time()
        runs = {"ours": ours(case, target, x, w, y)}
        built = time.process_time() - start
        peer_run = onnx_runtime(model(case, w), {"x": x}, args.threads)
        if peer_run is not None:
            runs["peer"] = peer_run
        best = race(runs, args.seconds)
        mine, peer = best["ours"], best.get("peer", float("nan"))
        table.add_row(
            case.name, f"{mine * 1e6:.0f}", f"{peer * 1e6:.0f}", f"{peer / mine:.2f}",
            f"{case.flops / mine / most / 1e9:.0%}", f"{built * 1e3:.0f}",
        )  # fmt: skip
        total = sums.setdefault(case.network, [0.0, 0.0])
        total[0] += case.count * mine
        total[1] += case.count * peer
    for network, (mine, peer) in sums.items():
        table.add_row(f"{network}, summed", f"{mine * 1e6:.0f}", f"{peer * 1e6:.0f}", f"{peer / mine:.2f}", "", "")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
