"""GGUF files as bytes, written without any check, so that tests can write what is wrong."""

from __future__ import annotations

import ctypes
import mmap
import struct
from typing import Any

import numpy as np

FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
NUMBERS = (0, 1, 2, 255, 1 << 31, (1 << 32) - 1, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)
"""Numbers that mutations write."""


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def value(kind: int, content: Any) -> bytes:
    """A value without its type; that of an array is (element type, list)."""
    if kind == STRING:
        return text(content)
    if kind == ARRAY:
        element, items = content
        return struct.pack("<IQ", element, len(items)) + b"".join(value(element, item) for item in items)
    return struct.pack(f"<{FORMATS[kind]}", content)


def key(name: str | bytes, kind: int, content: Any) -> bytes:
    return text(name) + struct.pack("<I", kind) + value(kind, content)


def tensor(name: str | bytes, dims: tuple[int, ...], type: int, offset: int) -> bytes:
    """A description; dims are in the file's order, the fastest first."""
    return text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, type, offset)


def file(keys=(), tensors=(), data=b"", *, magic=b"GGUF", version=3, counts=None, alignment=32) -> bytes:
    """A file of keys and descriptions, which are bytes already; `counts` replaces the numbers of them."""
    tensor_count, key_count = counts or (len(tensors), len(keys))
    head = magic + struct.pack("<IQQ", version, tensor_count, key_count) + b"".join(keys) + b"".join(tensors)
    return head + bytes(-len(head) % alignment) + data if data else head


def sample() -> bytes:
    """A small file with all kinds of contents."""
    keys = [
        key("general.architecture", STRING, "llama"),
        key("general.alignment", 4, 32),
        *(key(f"scalar.{kind}", kind, 1) for kind in FORMATS),
        key("tokenizer.ggml.model", STRING, "gpt2"),
        key("tokenizer.ggml.tokens", ARRAY, (STRING, ["a", "bc", "", "é"])),
        key("tokenizer.ggml.scores", ARRAY, (6, [0.5, -1.0, 0.0, 2.0])),
        key("tokenizer.ggml.bos_token_id", 4, 1),
        key("flags", ARRAY, (7, [0, 1, 1])),
        key("nested", ARRAY, (ARRAY, [(4, [1, 2]), (STRING, ["x"]), (ARRAY, [(1, [-1])])])),
    ]
    tensors = [tensor("plain", (3, 2), 0, 0), tensor("packed", (64, 2), 2, 32), tensor("half", (5,), 1, 128)]
    return file(keys, tensors, np.arange(160, dtype=np.uint8).tobytes())


class GuardedBytes:
    """Copies of bytes that end where memory ends: reading the byte after the last one kills the process."""

    def __init__(self, most: int) -> None:
        page = mmap.PAGESIZE
        self.size = -(-most // page) * page
        self.memory = mmap.mmap(-1, self.size + page)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        assert libc.mprotect(address + self.size, page, 0) == 0

    def array(self, data: bytes) -> np.ndarray:
        self.memory[self.size - len(data) : self.size] = data
        return np.frombuffer(self.memory, np.uint8, len(data), self.size - len(data))


def mutated(data: bytes, seed: int) -> bytes:
    """A copy with a few seeded faults: bytes and numbers changed, pieces cut out, repeated, or the end cut off."""
    rng = np.random.default_rng(seed)
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(0, max(len(changed), 1)))
        size = int(rng.integers(1, 24))
        match int(rng.integers(0, 6)):
            case 0 if changed:
                changed[at] = int(rng.integers(0, 256))
            case 1:
                number = NUMBERS[int(rng.integers(0, len(NUMBERS)))]
                changed[at : at + 8] = struct.pack("<Q", number)
            case 2:
                del changed[at : at + size]
            case 3:
                changed[at:at] = changed[at : at + size]
            case 4:
                del changed[at:]
            case _ if changed:
                changed[at] ^= 1 << int(rng.integers(0, 8))
    return bytes(changed)
