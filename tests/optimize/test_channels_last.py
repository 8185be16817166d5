"""ChannelsLast: tensors between chains of convolutions have channels behind pixels."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax import te, tir
from relax.codegen import resolve
from relax.optimize import ChannelsLast, FuseConvolutions
from relax.schedules.cpu import ByRows
from relax.script import relax as R
from relax.tir.permuted_parameters import FIRST, LAST, with_permuted_parameters
from relax.transform import AnnotateTIROpPattern, FuseOps, FuseTIR, LegalizeOps, PassContext, Sequential
from support import PLAIN_LOOPS, numbers, same

KERNELS = Sequential([LegalizeOps(), AnnotateTIROpPattern(), FuseOps(), FuseTIR(), FuseConvolutions()])
MOVED = 'R.Tensor((n, h, w, {}), dtype="float32")'


class Network:
    """Blocks of MobileNet-V2, one after the other, of an image of 4 channels."""

    def __init__(self):
        self.generator = np.random.default_rng(0)
        self.bb = relax.BlockBuilder()
        n, h, w = (tir.Var(name, "int64") for name in "nhw")
        self.x = relax.Var("x", relax.TensorStructInfo((n, 4, h, w), "float32"))

    def conv(self, data, *shape, **attrs):
        weights = R.const(self.generator.integers(-1, 2, shape).astype("float32"))
        return self.bb.emit(R.nn.conv2d(data, weights, **attrs))

    def block(self, y, ci, co, dilation=1):
        """An expansion, a depthwise convolution and a projection."""
        wide = self.bb.emit(R.nn.relu(self.conv(y, 18, ci, 1, 1)))
        mixed = self.conv(wide, 18, 1, 3, 3, padding=dilation, groups=18, dilation=dilation)
        return self.conv(mixed, co, 18, 1, 1)

    def add(self, a, b):
        return self.bb.emit(R.add(a, b))

    def module(self, blocks):
        """The module of what `blocks` makes of the network and its image: some results."""
        with self.bb.function("main", [self.x]):
            with self.bb.dataflow():
                results = [self.bb.emit_output(y) for y in blocks(self)]
            self.bb.emit_func_output(results[0] if len(results) == 1 else relax.Tuple(results))
        return self.bb.get()


def two(net):
    return [net.block(net.block(net.x, 4, 6), 6, 5)]


def residuals(net):
    first = net.block(net.x, 4, 6)
    second = net.add(net.block(first, 6, 6), first)
    third = net.add(net.block(second, 6, 6), second)
    return [net.block(third, 6, 3)]


def read_twice(net):
    first = net.block(net.x, 4, 6)
    return [net.block(first, 6, 3), net.block(first, 6, 5)]


def given_away(net):
    first = net.block(net.x, 4, 6)
    return [first, net.block(first, 6, 3)]


def read_by_others(net):
    first = net.block(net.x, 4, 6)
    return [net.block(first, 6, 3), net.bb.emit(R.nn.relu(first))]


def residual_of_others(net):
    """The second block's result is added to what no chain computes: both stay, and so does the first's."""
    other = net.conv(net.x, 6, 4, 1, 1)
    first = net.block(net.x, 4, 6)
    second = net.add(net.block(first, 6, 6), other)
    return [net.block(second, 6, 3)]


def residual_of_the_result(net):
    """The last result is no tensor between chains: what is added to it stays as it is too."""
    first = net.block(net.x, 4, 6)
    return [net.add(net.block(first, 6, 6), first)]


def dilated(net):
    return [net.block(net.block(net.x, 4, 6, 2), 6, 5, 2)]


CASES = {
    "two blocks": (two, {6: 1}),
    "residuals": (residuals, {6: 3}),
    "read by two chains": (read_twice, {6: 1}),
    "given away": (given_away, {}),
    "read by others": (read_by_others, {}),
    "a residual of others": (residual_of_others, {6: 1}),
    "a residual of the result": (residual_of_the_result, {}),
    "dilation, which no loops by rows are for": (dilated, {}),
}
"""Networks, and how many tensors of so many channels are moved."""


def graph(mod):
    return KERNELS(relax.get_pipeline("graph")(mod))


@pytest.mark.parametrize("case", CASES)
def test_what_is_moved_and_that_results_are_the_same(case):
    blocks, moved = CASES[case]
    mod = Network().module(blocks)
    kernels = graph(mod)
    changed = ChannelsLast()(kernels)
    assert (changed is kernels) == (not moved)
    text = changed["main"].script()
    for channels in (3, 4, 5, 6):
        assert text.count(f"out_sinfo={MOVED.format(channels)}") == moved.get(channels, 0)
    relax.analysis.assert_well_formed(changed)
    assert ChannelsLast()(changed) is changed
    # Loops that are arranged for moved tensors are the subject; where none is moved, loops as written will do.
    compiled = relax.VirtualMachine(relax.build(mod, "llvm" if moved else PLAIN_LOOPS), relax.cpu())["main"]
    plain = relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS, pipeline="unfused"), relax.cpu())["main"]
    for n, h, w in [(1, 7, 9), (2, 1, 1), (0, 3, 3), (1, 0, 2), (1, 13, 4)]:
        x = numbers(n, 4, h, w, dtype="int8", seed=1, low=-2, high=3).astype("float32")
        same(compiled(x), plain(x))


def test_kernels_that_nobody_calls_any_more_are_dropped():
    changed = ChannelsLast()(graph(Network().module(two)))
    assert len(changed.functions) == 3


def test_nothing_is_done_at_level_0():
    kernels = graph(Network().module(two))
    with PassContext(opt_level=0):
        assert ChannelsLast()(kernels) is kernels


def test_kernels_of_other_shape_are_no_chains():
    kernels = graph(Network().module(two))
    functions = [f for f in kernels.functions.values() if isinstance(f, tir.PrimFunc)]
    chains = [images for images in map(ByRows().images, functions) if images]
    assert len(chains) == 2
    assert all(len(images.weights) == 3 and not images.is_first and not images.beside for images in chains)
    a = te.placeholder((1, 4, 5, 5), name="A")
    refused = ByRows().images(te.create_prim_func([a, te.compute(a.shape, lambda *i: a[i] + 1.0, "B")]))
    assert str(refused) == "the function is not three convolutions, with elementwise epilogues"


def test_parameters_are_permuted_and_back():
    a = te.placeholder((2, 3, 4, 5), name="A")
    func = te.create_prim_func([a, te.compute(a.shape, lambda n, c, h, w: a[n, c, h, w] + 1.0 * c, "B")])
    old = func.buffer_map[func.params[0]]
    moved, made = with_permuted_parameters(func, {old: LAST})
    assert [size.value for size in made[old].shape] == [2, 4, 5, 3]
    tir.verify_well_formed(moved)
    data = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype("float32")
    expected, found = np.zeros_like(data), np.zeros_like(data)
    tir.interpret(func, data, expected)
    tir.interpret(moved, np.ascontiguousarray(data.transpose(LAST)), found)
    np.testing.assert_array_equal(found, expected)
    back, _ = with_permuted_parameters(moved, {made[old]: FIRST})
    relax.ir.assert_structural_equal(back, func)


@pytest.mark.parametrize(("count", "moved"), [(1, 0), (2, 0), (3, 2)])
def test_convolutions_of_bytes(count, moved):
    """Of two, one would turn its data and the other its result: nothing is moved."""
    generator, bb = np.random.default_rng(0), relax.BlockBuilder()
    n, h, w = (tir.Var(name, "int64") for name in "nhw")
    x = relax.Var("x", relax.TensorStructInfo((n, 64, h, w), "uint8"))
    with bb.function("main", [x]):
        with bb.dataflow():
            y = x
            for _ in range(count):
                weights = R.const(generator.integers(-128, 128, (64, 64, 3, 3)).astype("int8"))
                sums = bb.emit(R.nn.conv2d(y, weights, padding=1, out_dtype="int32"))
                y = bb.emit(R.astype(sums, "uint8"))
            result = bb.emit_output(y)
        bb.emit_func_output(result)
    mod = bb.get()
    with resolve("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=cooperlake"):
        changed = ChannelsLast()(graph(mod))
        assert ChannelsLast()(changed) is changed
    assert changed["main"].script().count('out_sinfo=R.Tensor((n, h, w, 64), dtype="uint8")') == moved
    data = generator.integers(0, 256, (1, 64, 5, 6)).astype("uint8")
    found = relax.VirtualMachine(relax.build(mod), relax.cpu())["main"](data).numpy()
    np.testing.assert_array_equal(found, relax.interpret(mod, "main", data).numpy())
