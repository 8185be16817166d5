"""ByRows with channels behind pixels: data that are read where they are, and results that are not turned."""

from __future__ import annotations

import numpy as np
import pytest
from applied import Applied
from convolution_chains import CASES, FIRST_LAYERS, Chain, packed, same_by_rows, same_results

from relax import te
from relax.codegen import resolve
from relax.schedules.cpu import ByRows
from relax.schedules.cpu.convolutions.chains.chain import chain_of
from relax.schedules.cpu.convolutions.chains.channels_last import with_channels_first, with_copies
from relax.tir.permuted_parameters import LAST, with_permuted_parameters

LAYOUTS = {"data and result": (True, True), "data": (True, False), "result": (False, True)}


class LastChain(Chain):
    """A chain whose data or result has channels behind pixels; a residual has those of the data."""

    def __init__(self, layout, **attrs):
        super().__init__(**attrs)
        self.moved = [place for place, is_last in zip((0, -1), LAYOUTS[layout], strict=True) if is_last]

    def func(self, size=None):
        func = super().func(size)
        buffers = [func.buffer_map[func.params[place]] for place in self.moved]
        return with_permuted_parameters(func, dict.fromkeys(buffers, LAST))[0]

    def arrays(self, n, h, w):
        values = super().arrays(n, h, w)
        for place in self.moved:
            values[place] = np.ascontiguousarray(values[place].transpose(LAST))
        return values


@pytest.mark.parametrize(
    ("case", "layout"),
    [*((case, "data and result") for case in CASES), ("stride 2", "data"), ("two widths of tiles", "result")],
)
def test_unknown_sizes(target, case, layout):
    chain = LastChain(layout, **CASES[case])
    assert not chain_of(chain.func())
    same_by_rows(target, chain, *chain.sizes())


@pytest.mark.parametrize("case", ["3 × 3, stride 2", "other numbers down than along lines"])
def test_first_layers(target, case):
    chain = LastChain("result", **FIRST_LAYERS[case])
    same_by_rows(target, chain, *chain.sizes(), (1, 9, 37))


@pytest.mark.parametrize("size", [(2, 12, 13), (2, 12, 14), (9, 9, 7), (30, 12, 1)])
@pytest.mark.parametrize("case", ["a residual", "stride 2"])
def test_known_sizes(target, case, size):
    chain = LastChain("data and result", **CASES[case])
    same_by_rows(target, chain, size, known=size)


def test_narrow_vectors_and_few_registers():
    chain = LastChain("data and result", ci=3, middle=20, co=12)
    same_by_rows(resolve("llvm -mcpu=haswell"), chain, (1, 5, 9), (1, 3, 24))


def test_several_chunks_and_bands():
    chain = LastChain("data and result", ci=3, middle=40, co=7, stride=2)
    func = chain.func()
    sizes = (1, 121, 130), (3, 57, 300), (9, 60, 2), (1, 2, 1500)
    same_results(func, (chain.arrays(*size) for size in sizes), packed(func, "llvm -num-cores=2"))


def test_nan_and_infinities_reach_the_pixels_that_they_reach():
    chain = LastChain("data and result", ci=3, middle=19, co=8)
    func, given = chain.func(), chain.arrays(1, 9, 20)
    x = given[0]
    x[0, 4, 3, 1], x[0, 0, 0, 0], x[0, 8, 19, 2] = np.nan, np.inf, -np.inf
    same_results(func, [given], packed(func))


def test_no_pixel_is_copied_and_no_result_is_turned(target):
    chain = LastChain("data and result", ci=5, middle=20, co=5, residual=True)
    text = packed(chain.func(), target).func.script()
    assert "sums" not in text
    assert "T.Shuffle" not in text
    assert "panel[" not in text


def test_lines_of_whole_tiles_have_no_other_tile(target):
    """14 pixels are two tiles of 7; 13 are not."""

    def tiles(width):
        func = LastChain("data and result", ci=5, middle=20, co=5).func((1, 14, width))
        return packed(func, target).func.script().count("T.unroll(")

    assert tiles(13) > tiles(14)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_chains_whose_weights_are_not_known_have_copies(same, layout):
    """The rules for each convolution arrange them."""
    chain = LastChain(layout, ci=9, middle=20, co=11)
    func = chain.func((1, 6, 9))
    copied = with_copies(func)
    assert copied is not func
    same(func, ByRows(), [array.shape for array in chain.arrays(1, 6, 9)])
    some = Applied(ByRows(), func, known=[1])
    assert list(some.packings) == [1]
    same_results(func, [chain.arrays(1, 6, 9)], some)


def test_other_functions_are_left_as_they_are():
    """Those without channels behind pixels, and those that are no chains."""
    func = Chain(ci=4, middle=16, co=8).func()
    assert with_channels_first(func) == (func, {})
    assert with_copies(func) is func
    x, y = (te.placeholder((2, 3, 4, 5), name=name) for name in "XY")
    plain = te.create_prim_func([x, y, te.compute(x.shape, lambda n, c, h, w: x[n, c, h, w] + y[n, c, h, w])])
    moved, _ = with_permuted_parameters(plain, {plain.buffer_map[plain.params[0]]: LAST})
    assert len(with_channels_first(moved)[1]) == 1
    assert with_copies(moved) is moved
