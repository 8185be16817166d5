"""Block formats: their numbers by the published definition, and their order for kernels."""

from __future__ import annotations

import numpy as np
import pytest

from relax.topi.block_formats import FORMATS, block_format, group_rows, grouped
from relax.topi.packed_blocks import PackedBlocks
from weights_in_blocks import NAMES, format_named, rows


def test_a_block_of_each_kind_by_hand():
    block = np.zeros(18, "uint8")
    block[:2] = np.array([0.5], "float16").view("uint8")
    block[2:] = 0x88  # 8 - 8
    block[2], block[17] = 0x1F, 0xE8  # numbers 0 and 16, 15 and 31
    expected = np.zeros(32, "float32")
    expected[[0, 16, 31]] = 0.5 * 7, 0.5 * -7, 0.5 * 6
    np.testing.assert_array_equal(FORMATS["q4_0"].decode(block), expected)

    block = np.zeros(144, "uint8")
    block[:4] = np.array([2, 0.25], "float16").view("uint8")
    block[4 + 1], block[4 + 5] = 3, 5  # step 1 of the scale, and of the minimum
    block[16] = 0x90  # numbers 0 and 32
    expected = np.zeros(256, "float32")
    expected[32:64] = -0.25 * 5
    expected[32] += 2 * 3 * 9
    np.testing.assert_array_equal(FORMATS["q4_k"].decode(block), expected)


@pytest.mark.parametrize("name", FORMATS)
def test_formats_of_files_are_those_of_gguf(name):
    """All bits of the blocks are random: scales and minima that are NaN, infinite and subnormal are among them."""
    gguf = pytest.importorskip("gguf")
    held, kind = FORMATS[name], gguf.GGMLQuantizationType[name.upper()]
    assert gguf.GGML_QUANT_SIZES[kind] == (held.elements, held.bytes)
    data = np.random.default_rng(3).integers(0, 256, (400, 3 * held.bytes), "uint8")
    with np.errstate(all="ignore"):
        expected = gguf.quants.dequantize(data, kind)
    np.testing.assert_array_equal(held.decode(data), expected)


@pytest.mark.parametrize("scale", ["float16", "float32"])
@pytest.mark.parametrize("has_zeros", [False, True])
@pytest.mark.parametrize("bits", [4, 8])
def test_integers_with_scales_of_their_own_become_rows(bits, has_zeros, scale):
    rng, low = np.random.default_rng(5), 0 if has_zeros else -(1 << bits - 1)
    numbers = rng.integers(low, low + (1 << bits), (6, 256))
    scales = rng.random((6, 4)).astype(scale)
    zeros = rng.integers(0, 1 << bits, (6, 4)) if has_zeros else None
    data, held = group_rows(numbers, scales, zeros, bits)
    assert block_format(held.name) == held
    assert data.shape == (6, 4 * held.bytes)
    whole = numbers - (0 if zeros is None else np.repeat(zeros, 64, axis=1))
    expected = whole.astype("float32") * np.repeat(scales.astype("float32"), 64, axis=1)
    np.testing.assert_array_equal(held.decode(data), expected)


def test_names_and_sizes_that_no_format_has():
    assert block_format("q3_0") is None
    assert block_format("int4_g33") is None
    assert block_format("int4_g0") is None
    with pytest.raises(ValueError, match="no format has groups of 16 numbers of 4 bits with scales of float32"):
        grouped(4, 16)
    with pytest.raises(ValueError, match="50 numbers of a row have no 4 groups of one size"):
        group_rows(np.zeros((2, 50), "int8"), np.ones((2, 4)), None, 4)
    with pytest.raises(ValueError, match="q4_0 has blocks of 18 bytes; found 35 of uint8"):
        FORMATS["q4_0"].decode(np.zeros((2, 35), "uint8"))


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("name", NAMES)
def test_panels_hold_the_numbers_of_the_rows(name, lanes, signed):
    data, packed = rows(name, (2 * lanes + 1,), 2), PackedBlocks(name, lanes, signed)
    panels = packed.pack(data)
    assert panels.dtype == "int32"
    assert panels.shape == (3, packed.words(2 * packed.format.elements))
    found, expected = packed.parts(panels, len(data)), format_named(name).parts(data)
    for part in ("numbers", "scale", "scale_steps", "minimum", "minimum_steps"):
        np.testing.assert_array_equal(getattr(found, part), getattr(expected, part))
    assert packed(data).tobytes() == panels.tobytes()


def test_packed_floats_keep_their_bits():
    data = rows("q4_1", (16,), 1)
    data[:, :4] = np.random.default_rng(2).integers(0, 256, (16, 4), "uint8")
    panel = PackedBlocks("q4_1", 16).pack(data)[0].view("uint8")
    np.testing.assert_array_equal(panel[:32].reshape(16, 2), data[:, :2])
    np.testing.assert_array_equal(panel[32:64].reshape(16, 2), data[:, 2:4])
