"""Shares of work among cores: as equal as they can be, and of the same part of an image in each kernel."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest

from relax import te, tir
from relax.codegen import build_module, resolve
from relax.prim import IntImm, const, simplify
from relax.schedules import schedule
from relax.schedules.cpu import Depthwise, Pointwise
from relax.schedules.cpu.along_channels import AlongChannels
from relax.schedules.cpu.along_pixels import AlongPixels
from relax.schedules.cpu.shares import parts_of_tasks, share_of


def value_of(expr):
    number = simplify(expr)
    assert isinstance(number, IntImm)
    return number.value


def int64(number):
    return const(number, "int64")


@pytest.mark.parametrize("shares", [1, 2, 3, 7])
def test_shares_are_all_units_and_differ_by_one(shares):
    for units in range(40):
        ends = [value_of(share_of(int64(k), int64(units), int64(shares))) for k in range(shares + 1)]
        assert (ends[0], ends[-1]) == (0, units)
        sizes = [end - begin for begin, end in pairwise(ends)]
        assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("cores", [1, 2, 3, 4, 16])
def test_cores_wait_for_each_other_for_a_quarter_of_their_tasks_at_most(cores):
    for tasks in range(1, 70):
        number = tasks * value_of(parts_of_tasks(int64(tasks), cores))
        assert -(-number // cores) * cores <= number * 1.25


def cuts(conv, form, target, ci, size):
    """The pixels of the chunks of a convolution to 128 channels in this form."""
    found = []
    monkeypatch = pytest.MonkeyPatch()

    def chosen(*args):
        writer = form(*args)
        made = writer.cut
        writer.cut = lambda *sizes: found.append(made(*sizes)) or found[-1]
        return writer

    with monkeypatch.context() as context:
        context.setattr("relax.schedules.cpu.pointwise.writer_for", chosen)
        case = conv(ci, 128, size, (1, 1))
        assert Pointwise().pack(case.func(), target, [1]) is not None
    return found[-1].sizes(size[0] * size[1])


@pytest.mark.parametrize("form", [AlongPixels, AlongChannels])
@pytest.mark.parametrize("cores", [2, 3])
@pytest.mark.parametrize("size", [56, 28, 20, 14])
@pytest.mark.parametrize("ci", [16, 64, 256, 1024])
def test_each_core_has_as_many_pixels_of_a_known_image(conv, form, cores, size, ci):
    target = resolve(f"llvm -mcpu=skylake-avx512 -num-cores={cores}")
    sizes = cuts(conv, form, target, ci, (size, size))
    assert sum(sizes) == size * size
    assert len(sizes) % cores == 0 or sizes == [size * size]
    each = len(sizes) // cores
    if each:
        shares = [sum(sizes[k * each : (k + 1) * each]) for k in range(cores)]
        assert max(shares) <= size * size / cores + 32


def test_channels_are_shared_evenly_where_pixels_are_one_chunk(conv):
    """Blocks of 4 vectors of 320 channels would be five: three for one core and two for the other."""
    target = resolve("llvm -mcpu=skylake-avx512 -num-cores=2")
    result = Pointwise().pack(conv(960, 320, (7, 7), (1, 1)).func(), target, [1])
    assert result is not None
    blocks, _, width = result.packings[1].shape
    assert (blocks % 2, blocks * width) == (0, 320)


# ------------------------------------------------------------------------------------- lines


def lines_of_tasks(script):
    """The parts of the lines of an image, or 1."""
    found = re.search(r"T.parallel\((?:T.int64\()?(\d+)", script)
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize(
    ("cores", "n", "size", "parts"),
    [
        (1, 1, (28, 28), 1),
        (2, 1, (28, 28), 2),
        (2, 2, (28, 28), 1),
        (2, 3, (28, 28), 2),
        (2, 8, (28, 28), 1),
        (2, 1, (5, 90), 1),
        (2, 1, (6, 90), 2),
        (2, 1, (13, 14), 1),
        (3, 1, (28, 28), 3),
        (16, 1, (12, 80), 4),
    ],
)
def test_cores_have_their_own_lines_of_depthwise_convolutions(conv, cores, n, size, parts):
    """If images do not keep them busy, and lines are not so few that most are added up twice."""
    target = resolve(f"llvm -mcpu=skylake-avx512 -num-cores={cores}")
    case = conv(6, 6, size, (3, 3), n, pad=1, groups=6)
    arranged = schedule(case.func(), target, [Depthwise()])
    assert lines_of_tasks(arranged.script()) == n * parts * 6


@pytest.mark.parametrize("cores", [2, 3])
@pytest.mark.parametrize(("kernel", "stride"), [((3, 3), 1), ((3, 3), 2), ((5, 5), 1), ((4, 3), 3)])
def test_parts_of_lines_are_all_lines(conv, cores, kernel, stride):
    target, here = (resolve(f"{name} -num-cores={cores}") for name in ("llvm -mcpu=skylake-avx512", "llvm"))
    n, h, w = (te.var(name, "int64") for name in "nhw")
    case = conv(3, 3, (h, w), kernel, n, stride, 2, groups=3)
    func = case.func()
    arranged, compiled = (schedule(func, to, [Depthwise()]) for to in (target, here))
    run = build_module(compiled)["main"]
    generator = np.random.default_rng(0)
    for images, size in (
        (1, (0, 40)),
        (1, (1, 200)),
        (1, (7, 97)),
        (1, (16, 40)),
        (3, (31, 37)),
        (2, (9, 70)),
    ):
        shapes = case.shapes(images, size)
        x, k, expected = (generator.integers(-3, 4, shape).astype("float32") for shape in shapes)
        interpreted, native = np.full_like(expected, 77), np.full_like(expected, 77)
        tir.interpret(func, x, k, expected)
        tir.interpret(arranged, x, k, interpreted, reverse_parallel=True)
        run(x, k, native)
        np.testing.assert_array_equal(interpreted, expected)
        np.testing.assert_array_equal(native, expected)
