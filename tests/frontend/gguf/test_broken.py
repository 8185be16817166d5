"""Corrupt and hostile GGUF files: a diagnostic with the byte offset, no large allocation, no read outside of the file."""

from __future__ import annotations

import struct
import tracemalloc

import gguf_files as gg
import numpy as np
import pytest

from relax import DiagnosticError
from relax.frontend.gguf import StringArray, read
from relax.frontend.gguf.parts import parse

DATA = bytes(4096)
HUGE = 1 << 60


def deep(depth: int) -> bytes:
    return gg.text("k") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * depth + struct.pack("<IQ", 4, 0)


def array_of(kind: int, count: int) -> bytes:
    return gg.text("k") + struct.pack("<IIQ", 9, kind, count)


CORRUPT = {
    "empty": (b"", "the file is not GGUF", "at byte 0: found b''"),
    "magic": (gg.file(magic=b"GGML"), "the file is not GGUF", "found b'GGML', expected b'GGUF'"),
    "no version": (b"GGUF\3", "the file ends within the version", "at byte 4: found 1 bytes, expected 4 bytes"),
    "no counts": (b"GGUF\3\0\0\0", "the file ends within the number of tensors", "at byte 8"),
    "tensors": (gg.file(counts=(HUGE, 0)), "the number of tensors is too large", f"at byte 8: found {HUGE}, expected at most 0"),
    "keys": (gg.file(counts=(0, HUGE)), "the number of keys is too large", f"at byte 16: found {HUGE}"),
    "both": (gg.file(data=bytes(48), counts=(2, 3), alignment=24), "too small for its contents", "found 2 tensors and 3 keys"),
    "key length": (gg.file([struct.pack("<QI", HUGE, 0) + b"x"]), "the length of key 0 is too large", "at byte 24"),
    "key text": (gg.file([gg.key(b"a\xff", 0, 1)]), "key 0 is not UTF-8", "at byte 33: found 0xff"),
    "two keys": (gg.file([gg.key("a", 0, 1)] * 2), "two metadata keys are 'a'", "at byte 38"),
    "value type": (gg.file([gg.text("a") + struct.pack("<II", 13, 0)]), "the type of the value of 'a' is unknown", "found 13"),
    "boolean": (gg.file([gg.key("a", 7, 2)]), "the value of 'a' is no boolean", "found 2, expected 0 or 1"),
    "booleans": (gg.file([gg.key("a", 9, (7, [1, 3]))]), "an element of the value of 'a' is no boolean", "at byte 50: found 3"),
    "no value": (gg.file([gg.text("abcd") + struct.pack("<I", 12)]), "ends within the value of 'abcd'", "found 0 bytes"),
    "array length": (gg.file([array_of(6, HUGE)]), "the number of elements of the value of 'k' is too large", "at most 0"),
    "strings": (gg.file([array_of(8, HUGE)]), "the number of strings of the value of 'k' is too large", "at most 0"),
    "string length": (gg.file([array_of(8, 1) + struct.pack("<Q", HUGE)]), "the length of string 0 of", "at most 0"),
    "string cut": (gg.file([array_of(8, 2) + struct.pack("<Q", 8) + bytes(8)]), "ends within string 1", "found 0 bytes"),
    "element type": (gg.file([array_of(77, 0)]), "the element type of the value of 'k' is unknown", "found 77"),
    "depth": (gg.file([deep(9)]), "the value of 'k' is nested too deeply", "found depth 9, expected at most 8"),
    "alignment 0": (gg.file([gg.key("general.alignment", 4, 0)]), "general.alignment is no alignment", "found 0"),
    "alignment 24": (gg.file([gg.key("general.alignment", 4, 24)]), "general.alignment is no alignment", "found 24"),
    "alignment type": (gg.file([gg.key("general.alignment", 8, "32")]), "is no alignment", "found string 32"),
    "rank": (gg.file(tensors=[gg.tensor("t", (1,) * 9, 0, 0)], data=DATA), "too many dimensions", "found 9"),
    "product": (gg.file(tensors=[gg.tensor("t", (1 << 40, 1 << 40), 0, 0)], data=DATA), "tensor 't' is too large", "2**63"),
    "product of nothing": (gg.file(tensors=[gg.tensor("t", (0, 1 << 63), 0, 0)], data=DATA), "is too large", "2**63"),
    "block": (gg.file(tensors=[gg.tensor("t", (48, 2), 2, 0)], data=DATA), "no whole blocks", "a multiple of 32"),
    "name": (gg.file(tensors=[gg.tensor(b"\xc3", (1,), 0, 0)], data=DATA), "the name of tensor 0 is not UTF-8", "0xc3"),
    "two names": (gg.file(tensors=[gg.tensor("t", (1,), 0, 0), gg.tensor("t", (1,), 0, 32)], data=DATA), "two tensors are named 't'", "at byte 57"),
    "unaligned": (gg.file(tensors=[gg.tensor("t", (1,), 0, 4)], data=DATA), "is not aligned", "found 4, expected a multiple of 32"),
    "outside": (gg.file(tensors=[gg.tensor("t", (1,), 0, 4096)], data=DATA), "tensor 't' is not in the file", "the file's size"),
    "far outside": (gg.file(tensors=[gg.tensor("t", (1,), 0, (1 << 64) - 32)], data=DATA), "is not in the file", "the file's size"),
    "truncated": (gg.file(tensors=[gg.tensor("t", (1025,), 0, 0)], data=DATA), "tensor 't' is not in the file", "at most 4160"),
    "overlap": (gg.file(tensors=[gg.tensor("t", (16,), 0, 0), gg.tensor("u", (1,), 0, 32)], data=DATA), "the tensors 't' and 'u' overlap", "at byte 57"),
}  # fmt: skip

UNSUPPORTED = {
    "version 1": (gg.file(version=1), "version 1 of GGUF is not read", "convert the model again"),
    "version 4": (gg.file(version=4), "version 4 of GGUF is not read", "found 0x4, expected 2 or 3"),
    "big-endian": (gg.file(version=3 << 24), "big-endian GGUF files are not read", "gguf_convert_endian"),
    "type": (gg.file(tensors=[gg.tensor("t", (1,), 99, 0)], data=DATA), "the type of tensor 't' is unknown", "found 99"),
    "removed type": (gg.file(tensors=[gg.tensor("t", (32,), 4, 0)], data=DATA), "the type q4_2, which GGML removed", "convert"),
}  # fmt: skip


def refused(path, code, *texts):
    tracemalloc.start()
    with pytest.raises(DiagnosticError) as caught:
        read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [d.code for d in caught.value.diagnostics] == [code]
    message = str(caught.value)
    assert str(path) in message
    for text in texts:
        assert text in message
    assert peak < 1 << 22


@pytest.mark.parametrize("case", CORRUPT)
def test_corrupt_files(tmp_path, case):
    data, *texts = CORRUPT[case]
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    refused(path, "E6011", *texts)


@pytest.mark.parametrize("case", UNSUPPORTED)
def test_files_that_are_not_read(tmp_path, case):
    data, *texts = UNSUPPORTED[case]
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    refused(path, "E6012", *texts)


def test_a_folder_and_a_missing_file(tmp_path):
    refused(tmp_path, "E6012", "tensors are read from regular files only")
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "model.gguf")


def test_many_arrays_inside_of_arrays(tmp_path):
    path = tmp_path / "model.gguf"
    inner = struct.pack("<IQ", 9, 1 << 10) + struct.pack("<IQ", 4, 0) * (1 << 10)
    path.write_bytes(gg.file([array_of(9, 1 << 10) + inner * (1 << 10)]))
    with pytest.raises(DiagnosticError, match="the number of arrays of the value of 'k' is too large"):
        read(path)


# ----------------------------------------------------------------------------------- faults at random


def read_all(value):
    """Read each byte of a metadata value."""
    if isinstance(value, StringArray):
        return sum(len(value.raw(index)) for index in range(len(value)))
    if isinstance(value, tuple):
        return sum(map(read_all, value))
    return int(value.view(np.uint8).sum()) if isinstance(value, np.ndarray) else 0


@pytest.mark.parametrize("seeds", [range(500), pytest.param(range(500, 10_000), marks=pytest.mark.slow)], ids=str)
def test_mutated_files(seeds):
    data = gg.sample()
    guarded = gg.GuardedBytes(2 * len(data))
    valid, refusals = 0, []
    for seed in seeds:
        view = guarded.array(gg.mutated(data, seed))
        try:
            part = parse(view, "model.gguf")
        except DiagnosticError as error:
            refusals.append(error.diagnostics[0])
            continue
        valid += 1
        for value in part.metadata.values():
            read_all(value)
        for item in part.tensors.values():
            assert len(view[item.offset : item.offset + item.nbytes]) == item.nbytes, seed
            view[item.offset : item.offset + item.nbytes].sum()
    assert 0 < valid < len(seeds)
    assert {refusal.code for refusal in refusals} == {"E6011", "E6012"}
    assert all(refusal.notes and refusal.hint for refusal in refusals)


@pytest.mark.parametrize("size", range(0, 400, 7))
def test_truncated_files(size):
    data = gg.sample()
    view = gg.GuardedBytes(len(data)).array(data[:size])
    with pytest.raises(DiagnosticError):
        parse(view, "model.gguf")
