"""Shares of work among cores: as equal as they can be, and of the same part of an image in each kernel."""

from __future__ import annotations

from itertools import pairwise

import pytest

from relax.codegen import resolve
from relax.prim import IntImm, const, simplify
from relax.schedules.cpu import Pointwise
from relax.schedules.cpu.convolutions.pointwise.along_channels import AlongChannels
from relax.schedules.cpu.convolutions.pointwise.along_pixels import AlongPixels
from relax.schedules.cpu.tile.division import groups
from relax.schedules.cpu.tile.shares import parts_of_tasks, share_of


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


@pytest.mark.parametrize(("blocks", "panels", "expected"), [
    (50, 5, 2), (50, 3, 2), (50, 4, 2), (50, 2, 4), (50, 12, 1), (10, 1, 2), (3, 1, 1)])  # fmt: skip
def test_two_cores_have_as_many_groups_of_rows(blocks, panels, expected):
    """Of groups of at least 4 blocks: 5 panels of 50 blocks are ten tasks, where three and two took three."""
    assert value_of(groups(int64(blocks), int64(panels), 4, 2)) == expected


def cuts(conv, form, target, ci, size):
    """The pixels of the chunks of a convolution to 128 channels in this form."""
    found = []
    monkeypatch = pytest.MonkeyPatch()

    def chosen(pixels, target, *others):
        writer = form(pixels, target)
        made = writer.cut
        writer.cut = lambda *sizes: found.append(made(*sizes)) or found[-1]
        return writer

    with monkeypatch.context() as context:
        context.setattr("relax.schedules.cpu.convolutions.pointwise.pointwise.writer_for", chosen)
        case = conv(ci, 128, size, (1, 1))
        assert Pointwise().pack(case.func(), target, [1])
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
    assert result
    blocks, _, width = result.packings[1].shape
    assert (blocks % 2, blocks * width) == (0, 320)


def test_a_thread_has_a_part_of_the_channels_of_small_images(conv):
    """Rows of 14 x 14 results are no whole lines of the cache: two threads would write each of them."""
    target = resolve("llvm -mcpu=skylake-avx512 -num-cores=2")
    result = Pointwise().pack(conv(256, 1024, (14, 14), (1, 1)).func(), target, [1])
    assert result
    text = result.func.script()
    assert "for task in T.parallel(T.int64(4)):" in text
    assert "ch: T.int64 = task % 2" in text
    assert "go: T.int64 = task // 2" in text
