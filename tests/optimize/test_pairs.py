"""What a pass relies on is what the rule accepts: each pass's result is given to the rule that it asked."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.codegen import resolve
from relax.optimize import ChannelsLast, FuseAttention, FuseConvolutions
from relax.schedules.cpu import ByRows, BytePixels, StreamedAttention
from relax.schedules.rule import Refusal
from relax.script import relax as R
from relax.tir import PrimFunc
from relax.tir.inline_blocks import inline_blocks
from relax.transform import AnnotateTIROpPattern, FuseOps, FuseTIR, LegalizeOps, Sequential

DOTS = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=cooperlake"
TARGETS = ["llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell", DOTS, "llvm -mtriple=aarch64-linux-gnu"]
KERNELS = Sequential([LegalizeOps(), AnnotateTIROpPattern(), FuseAttention(), FuseOps(), FuseTIR(), FuseConvolutions()])


def constant(rng, shape, dtype="float32"):
    return R.const(rng.integers(-3, 4, shape).astype(dtype))


def blocks(count):
    """Blocks of an expansion, a depthwise convolution and a projection behind each other, without residuals."""
    rng, bb = np.random.default_rng(0), relax.BlockBuilder()
    n, h, w = (relax.tir.Var(name, "int64") for name in "nhw")
    x = relax.Var("x", relax.TensorStructInfo((n, 16, h, w), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            y = x
            for _ in range(count):
                wide = bb.emit(R.nn.relu(bb.emit(R.nn.conv2d(y, constant(rng, (48, 16, 1, 1))))))
                own = bb.emit(R.nn.conv2d(wide, constant(rng, (48, 1, 3, 3)), padding=1, groups=48))
                y = bb.emit(R.nn.conv2d(own, constant(rng, (16, 48, 1, 1))))
            y = bb.emit_output(y)
        bb.emit_func_output(y)
    return bb.get()


def bytes_behind_each_other(count):
    """Convolutions of bytes."""
    rng, bb = np.random.default_rng(0), relax.BlockBuilder()
    n, h, w = (relax.tir.Var(name, "int64") for name in "nhw")
    x = relax.Var("x", relax.TensorStructInfo((n, 64, h, w), "uint8"))
    with bb.function("main", [x]):
        with bb.dataflow():
            y = x
            for _ in range(count):
                sums = bb.emit(R.nn.conv2d(y, constant(rng, (64, 64, 3, 3), "int8"), padding=1, out_dtype="int32"))
                y = bb.emit(R.astype(sums, "uint8"))
            y = bb.emit_output(y)
        bb.emit_func_output(y)
    return bb.get()


def kernels_of(mod, passes, target, word):
    """The kernels whose names contain a word, after passes for a target, and the positions of their weights."""
    with resolve(target):
        changed = passes(mod)
    found = {g.name_hint: f for g, f in changed.functions.items() if isinstance(f, PrimFunc) and word in g.name_hint}
    return list(found.values())


@pytest.mark.parametrize("target", TARGETS)
def test_fused_convolutions_are_fused_by_rows(target):
    (kernel,) = kernels_of(blocks(1), KERNELS, target, "fused_convolutions")
    weights = [i for i, p in enumerate(kernel.params) if p in kernel.buffer_map and kernel.buffer_map[p].ndim == 4]
    accepted = ByRows().accepts(kernel, resolve(target), weights)
    assert not isinstance(accepted, Refusal)
    assert ByRows().pack(kernel, resolve(target), weights)
    assert str(ByRows().accepts(kernel, resolve(target), [])) == (
        "the weights are not constants that only their convolution reads"
    )


@pytest.mark.parametrize("target", TARGETS)
def test_chains_with_channels_last_are_fused_by_rows(target):
    passes = Sequential([KERNELS, ChannelsLast()])
    kernels = kernels_of(blocks(3), passes, target, "fused_convolutions")
    assert len(kernels) == 3
    for kernel in kernels:
        weights = [i for i, p in enumerate(kernel.params) if p in kernel.buffer_map and kernel.buffer_map[p].ndim == 4]
        accepted = ByRows().accepts(kernel, resolve(target), weights)
        assert not isinstance(accepted, Refusal)
        assert accepted.last, "an image is channels-last"
        assert ByRows().pack(kernel, resolve(target), weights)


def test_bytes_with_channels_last_are_multiplied_in_place():
    passes = Sequential([KERNELS, ChannelsLast()])
    kernels = kernels_of(bytes_behind_each_other(3), passes, DOTS, "conv2d")
    assert kernels
    for kernel in kernels:
        weights = [i for i, p in enumerate(kernel.params) if kernel.buffer_map[p].dtype == "int8"]
        assert BytePixels().pack(kernel, resolve(DOTS), weights)


@pytest.mark.parametrize("target", TARGETS)
def test_grouped_attention_is_streamed(target):
    mod = relax.script.from_source("""
from relax.script import ir as I, relax as R
@I.ir_module
class Module:
    @R.function
    def main(q: R.Tensor(("n", 50, 8), "float32"), k: R.Tensor(("n", 8, 70), "float32"), v: R.Tensor(("n", 70, 8), "float32")):
        with R.dataflow():
            weights = R.nn.softmax(R.matmul(q, k), axis=-1)
            result = R.matmul(weights, v)
            R.output(result)
        return result
""")
    (kernel,) = kernels_of(mod, KERNELS, target, "fused_attention")
    kernel = inline_blocks(kernel) or kernel
    assert not isinstance(StreamedAttention().accepts(kernel, resolve(target)), Refusal)
    assert StreamedAttention().apply(kernel, resolve(target), False)
