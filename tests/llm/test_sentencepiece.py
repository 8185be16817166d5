"""Vocabularies of SentencePiece against its own package: trained here, read from its file and from GGUF."""

from __future__ import annotations

import io
import itertools
import struct
from types import SimpleNamespace

import gguf_files as gg
import numpy as np
import pytest
import tokenizer_texts
import vocabularies as vs

from relax import DiagnosticError
from relax.llm import tokenizer_of
from relax.llm.charsmap import CharsMap
from relax.llm.sentencepiece_model import raw_vocabulary

pytest.importorskip("tokenizers")
sentencepiece = pytest.importorskip("sentencepiece")

TEXTS = [text.replace("\x00", "").replace("▁", "") for text in tokenizer_texts.texts(7, 1600)]
TEXTS = [text for text in TEXTS if text.strip("\x0b")]
"""Without the character 0, with which SentencePiece does not train, U+2581, which it takes for a blank, and texts that
are empty once they are normalized: it encodes their blank in front."""


@pytest.fixture(
    scope="module",
    params=list(itertools.product(["bpe", "unigram"], ["identity", "nmt_nfkc"], [False, True])),
    ids=lambda p: f"{p[0]}-{p[1]}-{'strip' if p[2] else 'keep'}",
)
def model(request, tmp_path_factory):
    """A model: its algorithm, SentencePiece's processor, and the folder with its file."""
    algorithm, rule, strip = request.param
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS[:600]), model_writer=written, model_type=algorithm, vocab_size=1100,
        byte_fallback=True, normalization_rule_name=rule, remove_extra_whitespaces=strip, character_coverage=0.98,
        control_symbols=["<ctl>"], num_threads=1, minloglevel=2,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("sentencepiece")
    (folder / "tokenizer.model").write_bytes(written.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
    return SimpleNamespace(algorithm=algorithm, processor=processor, folder=folder)


def differences(tokenizer, processor, texts):
    """Texts with other tokens than SentencePiece's; of a unigram model, those with a lower total score only.

    Equal pieces in another order have the same score, as a run of 20 letters in pieces of 16 and 4.
    """
    found = []
    for text in texts:
        ids, expected = tokenizer.encode(text, add_special=False), processor.encode(text)
        if ids != expected and sorted(ids) != sorted(expected):
            totals = [sum(processor.get_score(index) for index in part) for part in (ids, expected)]
            if totals[0] < totals[1] - 1e-3 or tokenizer.decode(ids) != tokenizer.decode(expected):
                found.append(text)
        elif ids != expected and tokenizer.decode(ids) != tokenizer.decode(expected):
            found.append(text)
    return found


def test_files_of_sentencepiece(model):
    tokenizer = tokenizer_of(model.folder)
    assert tokenizer.vocabulary_size == model.processor.vocab_size()
    assert (tokenizer.bos, tokenizer.eos) == (1, 2)
    if model.algorithm == "bpe":
        assert [text for text in TEXTS if tokenizer.encode(text, False) != model.processor.encode(text)] == []
    else:
        assert differences(tokenizer, model.processor, TEXTS) == []


def test_the_text_comes_back_as_from_sentencepiece(model):
    tokenizer = tokenizer_of(model.folder)
    for text in TEXTS[:400]:
        ids = model.processor.encode(text)
        decoded = tokenizer.decode(ids)
        assert decoded == model.processor.decode(ids)
        stream = tokenizer.decode_stream()
        assert "".join(map(stream.step, ids)) + stream.finish() == decoded


def test_the_same_model_as_gguf(model, tmp_path):
    gguf = pytest.importorskip("gguf")
    raw = raw_vocabulary(model.folder / "tokenizer.model")
    path = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(path, "t5" if model.algorithm == "unigram" else "llama")
    writer.add_tokenizer_model(raw.algorithm)
    writer.add_token_list(raw.tokens)
    writer.add_token_scores(raw.scores.tolist())
    writer.add_token_types(raw.types.tolist())
    writer.add_remove_extra_whitespaces(raw.remove_extra_whitespaces)
    writer.add_add_space_prefix(raw.add_space_prefix)
    if raw.charsmap:
        writer.add_precompiled_charsmap(raw.charsmap)
    for add, role in (
        (writer.add_bos_token_id, "bos"),
        (writer.add_eos_token_id, "eos"),
        (writer.add_unk_token_id, "unknown"),
    ):
        add(raw.roles[role])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    one, other = tokenizer_of(path), tokenizer_of(model.folder)
    for text in TEXTS[:300]:
        assert one.encode(text) == other.encode(text)


# ----------------------------------------------------------------------------------- files by themselves


def test_a_file_that_is_none(tmp_path):
    (tmp_path / "tokenizer.model").write_bytes(b"\x0a\xff\x01")
    with pytest.raises(
        DiagnosticError, match="the file is no model of SentencePiece: a field of 255 bytes at byte 3, of 3"
    ):
        tokenizer_of(tmp_path)
    (tmp_path / "tokenizer.model").write_bytes(b"")
    with pytest.raises(DiagnosticError, match="it has no tokens"):
        tokenizer_of(tmp_path)


def test_damaged_files(model):
    """A file with some bytes changed is an error in words, or another vocabulary."""
    data = (model.folder / "tokenizer.model").read_bytes()
    random = np.random.default_rng(3)
    path = model.folder / "damaged.model"
    codes = set()
    for _ in range(60):
        damaged = bytearray(data)
        for place in random.integers(0, len(data), 4):
            damaged[place] = random.integers(0, 256)
        path.write_bytes(damaged[: random.integers(0, len(data) + 1)])
        try:
            raw_vocabulary(path)
        except DiagnosticError as error:
            codes.add(error.diagnostics[0].code)
    assert "E6011" in codes <= {"E6011", "E6012"}


# ----------------------------------------------------------------------------------- normalizers


@pytest.mark.parametrize("data", [b"", b"\x04", b"\xff\xff\xff\x7f", b"\x06\0\0\0abcdef"])
def test_a_map_of_characters_that_is_none(data):
    with pytest.raises(ValueError, match="the trie has"):
        CharsMap(data)


def test_a_map_of_characters_that_leads_nowhere():
    """The root has its children at 1 ^ byte; that of the byte 0xC3 ends a key, whose value is behind the trie."""
    units = [0] * 256
    units[0] = 1 << 10
    units[1 ^ 0xC3] = 0xC3 | 1 << 8 | 0x1FF << 10
    data = struct.pack(f"<I{len(units)}I", 4 * len(units), *units) + b"x\0"
    with pytest.raises(ValueError, match="the trie of the map points to unit 317 of 256"):
        CharsMap(data)("é")
    assert CharsMap(data)("abc ж") == "abc ж"


def test_wrong_maps_in_files(tmp_path):
    path = vs.write(tmp_path, "t5", ["a"])
    keys = [
        gg.key("tokenizer.ggml.model", gg.STRING, "t5"),
        gg.key("tokenizer.ggml.tokens", gg.ARRAY, (gg.STRING, ["a", "<unk>"])),
        gg.key("tokenizer.ggml.unknown_token_id", 4, 1),
        gg.key("tokenizer.ggml.precompiled_charsmap", gg.ARRAY, (0, [9, 0, 0, 0])),
    ]
    path.write_bytes(gg.file(keys))
    with pytest.raises(DiagnosticError, match="the normalizer of the vocabulary is broken: the trie has 9 bytes"):
        tokenizer_of(path)
