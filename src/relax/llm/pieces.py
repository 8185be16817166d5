"""Bytes of tokens: the way back from ids to text.

Every token stands for some bytes, and a text is the concatenation of its tokens' bytes, so that a stream of tokens is
decoded as it comes: a character whose bytes are spread over several tokens is complete with the last of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

Convert: TypeAlias = Callable[[str], bytes]

SPACE: Final = "▁"
"""Character that SentencePiece puts into the place of a blank."""


def byte_of_character() -> dict[str, int]:
    """Return the byte that each character of a byte-level vocabulary stands for.

    Printable bytes are the characters of Latin-1; the others follow from U+0100 on.
    """
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    characters = [*map(chr, printable), *(chr(256 + index) for index in range(len(others)))]
    return dict(zip(characters, [*printable, *others], strict=True))


BYTE_OF: Final[Mapping[str, int]] = byte_of_character()


def byte_level(token: str) -> bytes:
    """Bytes of a token of byte-level BPE. A token with a character that stands for no byte is encoded as UTF-8."""
    try:
        return bytes(BYTE_OF[character] for character in token)
    except KeyError:
        return token.encode()


def sentencepiece(token: str) -> bytes:
    """Bytes of a token of SentencePiece, whose blanks are U+2581; ``<0x0A>`` stands for one byte."""
    byte = byte_fallback(token)
    return token.replace(SPACE, " ").encode() if byte is None else byte


def byte_fallback(token: str) -> bytes | None:
    """Byte of a token such as ``<0x0A>``; None for another token."""
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        try:
            return bytes.fromhex(token[3:5])
        except ValueError:
            return None
    return None


class Pieces:
    """Bytes of all tokens of a vocabulary, computed when a token is first asked for.

    `plain` has the ids of tokens that are text as they stand: control tokens and those added by users.
    """

    def __init__(self, tokens: Sequence[str | None], convert: Convert, plain: frozenset[int]) -> None:
        self._tokens, self._convert, self._plain = tokens, convert, plain
        self._bytes: list[bytes | None] = [None] * len(tokens)

    def __len__(self) -> int:
        return len(self._bytes)

    def __getitem__(self, index: int) -> bytes:
        """Bytes of a token. Raises IndexError for an id outside of the vocabulary."""
        if not 0 <= index < len(self._bytes):
            raise IndexError(f"the id {index} is outside of the vocabulary of {len(self._bytes)} tokens")
        data = self._bytes[index]
        if data is None:
            token = self._tokens[index]
            plain = token is None or index in self._plain
            data = self._bytes[index] = (token or "").encode() if plain else self._convert(token or "")
        return data


def word_piece(token: str) -> bytes:
    """Bytes of a token of WordPiece as GGUF files spell it: a token that begins a word begins with a blank."""
    return token.replace(SPACE, " ").encode()
