"""Vocabularies in SentencePiece's own files, ``tokenizer.model``: a protocol buffer, of which a few fields are read.

ModelProto:      1 pieces (repeated)   2 trainer_spec   3 normalizer_spec
SentencePiece:   1 piece   2 score (float)   3 type
TrainerSpec:     3 model_type (1 unigram, 2 BPE)   40 unk_id   41 bos_id   42 eos_id   43 pad_id
NormalizerSpec:  2 precompiled_charsmap   3 add_dummy_prefix   4 remove_extra_whitespaces
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from ..frontend.tensor_files import BROKEN, UNSUPPORTED, failure
from .vocabulary import NORMAL, RawVocabulary

_ALGORITHMS: Final = {1: "t5", 2: "llama"}
_ROLES: Final = {40: ("unknown", 0), 41: ("bos", 1), 42: ("eos", 2), 43: ("padding", -1)}
"""Fields of TrainerSpec with ids of tokens, and their defaults; -1 for none."""


def raw_vocabulary(path: Path) -> RawVocabulary:
    """Read a file of SentencePiece.

    Raises OSError if it cannot be opened, and DiagnosticError if it is broken (E6011) or its model is one of words or
    characters (E6012).
    """
    name = str(path)
    tokens: list[str] = []
    scores: list[float] = []
    types: list[int] = []
    trainer: dict[int, int | bytes] = {}
    normalizer: dict[int, int | bytes] = {}
    try:
        for number, value in _fields(path.read_bytes()):
            if number == 1:
                piece = dict(_fields(_bytes(value)))
                tokens.append(_bytes(piece.get(1, b"")).decode())
                scores.append(struct.unpack("<f", _bytes(piece.get(2, bytes(4))))[0])
                types.append(_integer(piece.get(3, NORMAL)))
            elif number == 2:
                trainer = dict(_fields(_bytes(value)))
            elif number == 3:
                normalizer = dict(_fields(_bytes(value)))
        algorithm = _ALGORITHMS.get(_integer(trainer.get(3, 1)))
        roles = {role: _signed(trainer.get(field, default)) for field, (role, default) in _ROLES.items()}
        prefix, extra = _integer(normalizer.get(3, 1)), _integer(normalizer.get(4, 1))
        charsmap = _bytes(normalizer.get(2, b""))
    except (ValueError, struct.error) as error:
        raise failure(BROKEN, name, f"the file is no model of SentencePiece: {error}") from None
    if not tokens:
        raise failure(BROKEN, name, "the file is no model of SentencePiece: it has no tokens")
    if algorithm is None:
        note = f"model_type is {trainer.get(3)}, expected 1 (unigram) or 2 (BPE)"
        raise failure(UNSUPPORTED, name, "the model of SentencePiece is not known", note)
    known = {role: index for role, index in roles.items() if 0 <= index < len(tokens)}
    return RawVocabulary(
        path=name,
        algorithm=algorithm,
        pre="default",
        tokens=tokens,
        types=np.array(types),
        scores=np.array(scores, np.float32),
        merges=None,
        roles=known,
        templates={},
        add_space_prefix=bool(prefix),
        remove_extra_whitespaces=bool(extra),
        charsmap=charsmap,
    )


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field of a message. Raises ValueError for bytes that are none."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield tag >> 3, value
            continue
        if kind == 2:
            size, at = _varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field of the unknown kind {kind} at byte {at}")
        if size > len(data) - at:
            raise ValueError(f"a field of {size} bytes at byte {at}, of {len(data)}")
        yield tag >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Read an integer of variable length; return it and the position behind it."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ValueError("the file ends within a number")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError(f"a number of more than 64 bits before byte {at}")


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where bytes are expected")
    return value


def _integer(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise ValueError("bytes where a number is expected")
    return value


def _signed(value: int | bytes) -> int:
    number = _integer(value)
    return number - (1 << 64) if number >= 1 << 63 else number
