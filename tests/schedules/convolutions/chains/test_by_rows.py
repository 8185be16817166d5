"""ByRows: three convolutions, of which the middle one is depthwise, with what is between them in lines of a ring."""

from __future__ import annotations

import re

import numpy as np
import pytest
from applied import Applied
from convolution_chains import CASES, FIRST_LAYERS, Chain, packed, same_by_rows, same_results

from relax import tir
from relax.codegen import resolve
from relax.schedules import schedule
from relax.schedules.cpu import RULES, ByRows
from relax.schedules.cpu.convolutions.chains.chain import chain_of
from relax.schedules.cpu.convolutions.pointwise.operands import TapVectors, WeightBlocks
from relax.script import from_source


@pytest.mark.parametrize("case", CASES)
def test_unknown_sizes(target, case):
    chain = Chain(**CASES[case])
    same_by_rows(target, chain, *chain.sizes())


@pytest.mark.parametrize("case", FIRST_LAYERS)
def test_first_layers_of_unknown_sizes(target, case):
    chain = Chain(**FIRST_LAYERS[case])
    assert chain_of(chain.func())
    same_by_rows(target, chain, *chain.sizes(), (1, 9, 37))


@pytest.mark.parametrize("case", ["3 × 3, stride 2", "other numbers down than along lines"])
def test_first_layers_of_known_sizes(target, case):
    same_by_rows(target, Chain(**FIRST_LAYERS[case]), (2, 12, 35), known=(2, 12, 35))


def test_first_layers_for_narrow_vectors():
    chain = Chain(**FIRST_LAYERS["3 × 3, stride 2"])
    same_by_rows(resolve("llvm -mcpu=haswell"), chain, (1, 1, 1), (1, 5, 19))


@pytest.mark.parametrize("case", ["a residual", "stride 2"])
def test_known_sizes(target, case):
    same_by_rows(target, Chain(**CASES[case]), (2, 12, 13), known=(2, 12, 13))


def test_narrow_vectors_and_few_registers():
    same_by_rows(resolve("llvm -mcpu=haswell"), Chain(ci=3, middle=20, co=12), (1, 5, 9))


@pytest.mark.parametrize("stride", [1, 2])
def test_several_chunks_and_bands(stride):
    """For two cores: a high image, or one of three, is cut into chunks, of which each has several bands."""
    chain = Chain(ci=3, middle=40, co=7, stride=stride)
    func = chain.func()
    assert "chunks" in packed(func, "llvm -mcpu=skylake-avx512 -num-cores=2").func.script()
    sizes = [
        (1, 121, 130), (2, 57, 300), (3, 57, 300), (1, 27, 9), (1, 55, 9), (9, 60, 2), (1, 2, 1500), (1, 300, 1),
    ]  # fmt: skip
    same_results(func, (chain.arrays(*size) for size in sizes), packed(func))


def test_nan_and_infinities_reach_the_pixels_that_they_reach():
    chain = Chain(ci=3, middle=19, co=8, residual=False)
    func, given = chain.func(), chain.arrays(1, 9, 20)
    x = given[0]
    x[0, 1, 4, 3], x[0, 0, 0, 0], x[0, 2, 8, 19] = np.nan, np.inf, -np.inf
    same_results(func, [given], packed(func))


def test_nan_and_infinities_in_a_first_layer():
    chain = Chain(**FIRST_LAYERS["3 × 3, stride 2"])
    func, given = chain.func(), chain.arrays(1, 20, 41)
    x = given[0]
    x[0, 1, 4, 3], x[0, 0, 0, 0], x[0, 2, 19, 40] = np.nan, np.inf, -np.inf
    same_results(func, [given], packed(func))


def test_weights_are_packed_in_vectors_of_channels(target):
    chain = Chain(ci=3, middle=20, co=9)
    packings = packed(chain.func(), target).packings
    assert packings == {
        1: WeightBlocks(20, 3, 16, True), 2: TapVectors(20, 9, 32), 3: WeightBlocks(9, 20, 16, True)
    }  # fmt: skip
    weights = np.arange(180, dtype="float32").reshape(20, 1, 3, 3)
    taps = packings[2](weights)
    np.testing.assert_array_equal(taps[4, :20], weights[:, 0, 1, 1])
    assert not taps[:, 20:].any()


def test_a_vector_and_a_half_of_channels_are_summed_in_halves(target):
    """Only where registers hold the sums of all halves."""

    def widths(co):
        text = packed(Chain(ci=16, middle=16, co=co).func(), target).func.script()
        return {int(width) for width in re.findall(r"line_3\[T\.Ramp\(.*?, (\d+)\)\]", text)}

    assert widths(24) == {8}
    assert widths(32) == {16}
    assert widths(40) == {16, 8}


def test_copies_of_a_first_layer_ask_for_all_lines_of_memory_that_they_read_later(target):
    """A vector of each phase is as many lines of memory as there are phases."""

    def asked(case):
        text = packed(Chain(**FIRST_LAYERS[case]).func(), target).func.script()
        return text.count("T.prefetch(X[")

    assert [asked(case) for case in ("3 × 3", "3 × 3, stride 2", "7 × 7, stride 4, then 2")] == [1, 2, 4]


def test_tiles_ask_for_weights_that_are_many(target):
    """Those of the projection here: 64 KB of them are many."""

    def asked(middle):
        text = packed(Chain(ci=8, middle=middle, co=16).func(), target).func.script()
        return text.count("T.prefetch(P_packed")

    assert asked(1023) == 0
    assert asked(1024) == 1


def test_weights_that_are_not_known_are_for_the_rules_of_each_convolution(same):
    """Also where some are known: the function has three convolutions, each arranged."""
    chain = Chain(ci=9, middle=20, co=11)
    func = chain.func((1, 6, 9))
    shapes = [array.shape for array in chain.arrays(1, 6, 9)]
    same(func, ByRows(), shapes)
    some = Applied(ByRows(), func, known=[1])
    assert list(some.packings) == [1]
    same_results(func, [chain.arrays(1, 6, 9)], some)


def test_first_layers_that_are_no_part_of_a_chain():
    """With dilation, each convolution is arranged by the rule for it, and its weights are in the order of that."""
    chain = Chain(3, 20, 16, windows=((3, 3), (1, 1), 2), windows_dilation=2)
    func = chain.func((1, 9, 18))
    assert not chain_of(func)
    assert not ByRows().pack(func, resolve("llvm"), [1, 2, 3])
    chain = Chain(3, 20, 16, windows=((3, 3), (2, 2), 1))
    func = chain.func((1, 40, 40))
    some = Applied(ByRows(), func, known=[1, 3])
    assert list(some.packings) == [1, 3]
    same_results(func, [chain.arrays(1, 40, 40)], some)


FIRST = "the first convolution is neither 1×1 nor over few channels of float32"
OTHERS = "the function is not three convolutions, with elementwise epilogues"
KINDS = "a convolution is not over two axes, with static channels, in float32 or bfloat16"
WINDOWS = "the windows of the depthwise convolution are dilated, have gaps, or padding of dynamic size"
JOINED = "a convolution does not read the results of the previous one alone"
DECLINED = {
    "many channels of a first layer": (lambda: Chain(5, 16, 8, windows=((3, 3), (1, 1), 1)).func(), FIRST),
    "strides that leave lines out": (lambda: Chain(3, 16, 8, windows=((1, 3), (2, 1), 0)).func(), FIRST),
    "a stride of 5": (lambda: Chain(3, 16, 8, windows=((5, 5), (5, 5), 0)).func(), FIRST),
    "dilation": (lambda: Chain(4, 16, 8, dilation=2, pad=2).func(), WINDOWS),
    "float64": (lambda: Chain(4, 16, 8, dtype="float64").func(), KINDS),
    "a middle that is a result": (lambda: Chain(4, 16, 8).func(more=lambda first, second: [first]), JOINED),
    "sums that are a result": (lambda: Chain(4, 16, 8).func(more=lambda first, second: [second]), JOINED),
    "few elements": (lambda: Chain(1, 2, 1).func((1, 2, 2)), OTHERS),
}


@pytest.mark.parametrize("case", DECLINED)
def test_other_functions_are_no_chains(target, case):
    make, reason = DECLINED[case]
    func = make()
    assert str(chain_of(func)) == reason
    assert schedule(func, target, [ByRows()]) is func
    assert not ByRows().pack(func, target, [1, 2, 3])


def test_results_that_replace_the_data_are_computed_from_all_of_it(target):
    """Lines of the result would replace those that other lines need: the convolutions have loops of their own."""
    chain = Chain(8, 24, 8)
    text = re.sub(r', result: T\.Buffer\(.*"\)\)', ")", chain.func((1, 40, 24)).script()).replace("result[", "X[")
    func = from_source(text)
    known = [1, 2, 3, 4, 5, 6]
    assert str(ByRows().accepts(func, target, known)) == "results replace data or weights that other results need"
    *expected, _ = chain.arrays(1, 40, 24)
    found = [array.copy() for array in expected]
    tir.interpret(func, *expected)
    tir.interpret(schedule(func, target, RULES), *found, reverse_parallel=True)
    np.testing.assert_array_equal(found[0], expected[0])
