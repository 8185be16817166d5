"""Compiled normalizers of SentencePiece: maps from sequences of characters to others, such as NFKC.

The file has the size of a trie in bytes (32 bits), the trie, and the texts that its values point to, each with a zero
behind it. The trie is a double array of 32-bit units, as the library Darts-clone writes it:

    bits 0 to 7    label: the byte that leads to the unit       bits 10 to 30   offset of the children
    bit 8          a key ends here                              bit 9           the offset counts blocks of 256
    bit 31         the unit is a value, in its bits 0 to 30

The package ``tokenizers`` reads these maps, too, but replaces a whole grapheme cluster by its first match, and so drops
characters: a combining mark after a no-break space, the line feed of CR LF.
"""

from __future__ import annotations

import re
import struct
from array import array
from functools import lru_cache
from typing import Final, final

_RUN: Final = re.compile(r"[\x20-\x7e]?[^\x20-\x7e]+")
"""Characters that a map may change: all but those of ASCII, and one before them, which may combine with them."""


@final
class CharsMap:
    """Normalizer that replaces, at each place of a text, the longest sequence of characters that is a key."""

    def __init__(self, data: bytes) -> None:
        """Read a compiled map. Raises ValueError for bytes that are none."""
        size = struct.unpack_from("<I", data)[0] if len(data) >= 4 else 0
        if not 4 <= size <= len(data) - 4 or size % 4:
            raise ValueError(f"the trie has {size} bytes, of {len(data)} of the map")
        self._units = array("I", struct.unpack_from(f"<{size // 4}I", data, 4))
        self._texts = data[4 + size :]
        self._match = lru_cache(maxsize=1 << 14)(self._replaced)

    def __call__(self, text: str) -> str:
        """Return the normalized text. Raises ValueError for a map whose values or offsets lead nowhere."""
        if text.isascii() and text.isprintable():
            return text
        return _RUN.sub(lambda run: self._match(run[0]), text)

    def _replaced(self, run: str) -> str:
        """Normalize a run of characters."""
        data, at = run.encode(), 0
        parts: list[bytes] = []
        while at < len(data):
            length, value = self._longest(data, at)
            if length:
                end = self._texts.find(b"\0", value)
                if value > len(self._texts) or end < 0:
                    raise ValueError(f"a value of the map points to byte {value} of {len(self._texts)}")
                parts.append(self._texts[value:end])
            else:
                length = _size(data[at])
                parts.append(data[at : at + length])
            at += length
        return b"".join(parts).decode("utf-8", "replace")

    def _longest(self, data: bytes, at: int) -> tuple[int, int]:
        """Return the length of the longest key at a position, 0 for none, and its value."""
        units, best = self._units, (0, 0)
        count = len(units)
        node = _offset(units[0])
        for index in range(at, len(data)):
            node ^= data[index]
            if node >= count:
                break
            unit = units[node]
            if unit & 0x800000FF != data[index]:
                break
            node ^= _offset(unit)
            if unit >> 8 & 1:
                if node >= count:
                    raise ValueError(f"the trie of the map points to unit {node} of {count}")
                best = (index + 1 - at, units[node] & 0x7FFFFFFF)
        return best


def _offset(unit: int) -> int:
    """Offset of the children of a unit."""
    return (unit >> 10) << ((unit & 0x200) >> 6)


def _size(byte: int) -> int:
    """Number of bytes of the UTF-8 sequence that begins with a byte."""
    return 1 if byte < 0xC0 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
