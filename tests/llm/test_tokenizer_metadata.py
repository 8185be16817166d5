"""Tokenizers of folders, written as metadata of GGUF files and read again, split texts as before."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizer_texts import texts
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from relax import DiagnosticError
from relax.frontend import gguf
from relax.llm import tokenizer_of
from relax.llm.splitting import LLAMA3, QWEN2
from relax.llm.tokenizer_metadata import metadata_of

SAMPLES = texts(11, 300)
SPECIAL = ["<|start|>", "<|stop|>"]


def split(*expressions: str) -> Any:
    parts = [pre_tokenizers.Split(Regex(expression), "isolated") for expression in expressions]
    return pre_tokenizers.Sequence([*parts, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def digits() -> Any:
    return pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )


def byte_level(pre: Any, ignore_merges: bool = False) -> Tokenizer:
    """Byte-level BPE, trained on texts of many scripts."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre, decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts(1, 400), trainer)
    return tokenizer


def sentencepiece(prefix: bool = True) -> Tokenizer:
    """BPE of SentencePiece as `transformers` converts it: all pairs that make a token, ordered by the token."""
    pieces = ["▁", *"abcdefgh", "ab", "cd", "▁a", "abcd", "▁ab", "ef", "▁abcd", "gh", "efgh"]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    merges = [
        (token[:place], token[place:])
        for token in pieces
        for place in range(1, len(token))
        if token[:place] in pieces and token[place:] in pieces
    ]
    ids = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(ids, merges, byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    steps = [normalizers.Prepend("▁")] if prefix else []
    tokenizer.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", "▁")])
    back = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence([*back, *([decoders.Strip(" ", 1, 0)] if prefix else [])])
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", None, [("<s>", 1)])
    return tokenizer


def saved(tokenizer: Tokenizer, folder: Path, **config: Any) -> Path:
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def written(folder: Path, rows: int = 1200) -> gguf.GGUFFile:
    gguf.write(folder / "vocabulary.gguf", metadata_of(folder, rows), {})
    return gguf.read(folder / "vocabulary.gguf")


def same(folder: Path, file: gguf.GGUFFile) -> None:
    """Both split all texts equally."""
    one, other = tokenizer_of(folder), tokenizer_of(file)
    for text in SAMPLES:
        ids = one.encode(text)
        assert other.encode(text) == ids
        assert other.decode(ids) == one.decode(ids)
    text = f"{SPECIAL[0]}ab cd{SPECIAL[1]}"
    assert other.encode(text, parse_special=True) == one.encode(text, parse_special=True)


@pytest.mark.parametrize(
    ("pre", "whole", "name"),
    [
        (digits, False, "smollm"),
        (lambda: pre_tokenizers.ByteLevel(add_prefix_space=False), False, "gpt-2"),
        (lambda: split(LLAMA3), True, "llama-bpe"),
        (lambda: split(LLAMA3), False, "dbrx"),
        (lambda: split(LLAMA3.replace(r"\p{L}+|\p{N}", r"\p{L}++|\p{N}")), False, "dbrx"),
        (lambda: split(QWEN2), False, "qwen2"),
    ],
)
def test_byte_level_bpe(tmp_path: Path, pre: Callable[[], Any], whole: bool, name: str) -> None:
    folder = saved(byte_level(pre(), whole), tmp_path, eos_token=SPECIAL[1])
    file = written(folder)
    assert file.metadata["tokenizer.ggml.pre"] == name
    assert file.metadata["tokenizer.ggml.add_bos_token"] is False
    same(folder, file)


def test_roles_templates_and_embeddings_without_a_token(tmp_path: Path) -> None:
    tokenizer = byte_level(digits())
    tokenizer.post_processor = processors.TemplateProcessing("<|start|> $A", None, [("<|start|>", 0)])
    tokenizer.add_tokens(["<tool>"])
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [1, 7]}))
    templates = [{"name": "default", "template": "{{ messages }}"}, {"name": "tool_use", "template": "{{ tools }}"}]
    folder = saved(tokenizer, tmp_path, bos_token=SPECIAL[0], eos_token=SPECIAL[1], chat_template=templates)
    metadata = written(folder, 610).metadata
    assert metadata["tokenizer.ggml.tokens"][599:603] == [tokenizer.id_to_token(599), "<tool>", "[PAD601]", "[PAD602]"]
    assert len(metadata["tokenizer.ggml.tokens"]) == 610
    assert metadata["tokenizer.ggml.token_type"][[0, 1, 2, 600, 601, 609]].tolist() == [3, 3, 1, 4, 5, 5]
    roles = {key[15:-9]: value for key, value in metadata.items() if key.endswith("_token_id")}
    assert roles == {"bos": 0, "eos": 1, "eot": 7}
    assert metadata["tokenizer.ggml.add_bos_token"] is True
    read = tokenizer_of(tmp_path / "vocabulary.gguf")
    assert read.eot == {1, 7}
    assert read.apply_chat_template([], tools=["x"]) == "['x']"
    same(folder, gguf.read(tmp_path / "vocabulary.gguf"))


@pytest.mark.parametrize("prefix", [True, False])
def test_sentencepiece_of_which_only_merges_are_left(tmp_path: Path, prefix: bool) -> None:
    folder = saved(sentencepiece(prefix), tmp_path, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    file = written(folder)
    metadata = file.metadata
    assert metadata["tokenizer.ggml.model"] == "llama"
    assert metadata["tokenizer.ggml.add_space_prefix"] is prefix
    assert metadata["tokenizer.ggml.token_type"][[0, 1, 3, 258, 259]].tolist() == [2, 3, 6, 6, 1]
    assert metadata["tokenizer.ggml.unknown_token_id"] == 0
    same(folder, file)
    one, other = tokenizer_of(folder), tokenizer_of(file)
    rng = np.random.default_rng(2)
    for _ in range(300):
        text = "".join(rng.choice([*"abcdefgh "], 30))
        assert other.encode(text) == one.encode(text)


@pytest.mark.parametrize(("algorithm", "rule"), [("bpe", "identity"), ("bpe", "nmt_nfkc"), ("unigram", "nmt_nfkc")])
def test_a_file_of_sentencepiece(tmp_path: Path, algorithm: str, rule: str) -> None:
    package = pytest.importorskip("sentencepiece")
    lines = [text.replace("\x00", "") for text in SAMPLES]
    model = io.BytesIO()
    package.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type=algorithm, vocab_size=1100, byte_fallback=True,
        normalization_rule_name=rule, character_coverage=0.98, control_symbols=["<ctl>"], num_threads=1, minloglevel=2,
    )  # fmt: skip
    (tmp_path / "tokenizer.model").write_bytes(model.getvalue())
    file = written(tmp_path)
    assert file.metadata["tokenizer.ggml.model"] == {"bpe": "llama", "unigram": "t5"}[algorithm]
    assert ("tokenizer.ggml.precompiled_charsmap" in file.metadata) == (rule != "identity")
    same(tmp_path, file)


def test_merges_that_no_scores_make(tmp_path: Path) -> None:
    tokenizer = sentencepiece()
    state = json.loads(tokenizer.to_str())
    state["model"]["merges"] = [pair for pair in state["model"]["merges"] if "".join(pair) != "abcd"]
    folder = saved(Tokenizer.from_str(json.dumps(state)), tmp_path)
    with pytest.raises(DiagnosticError, match="the merges of the tokenizer are not those of a model of SentencePiece"):
        metadata_of(folder, 1000)
    state["model"]["merges"] = [["ab", "cd"], ["a", "b"], ["a", "bcd"]]
    state["model"]["vocab"] |= {"bcd": 999}
    folder = saved(Tokenizer.from_str(json.dumps(state)), tmp_path)
    with pytest.raises(DiagnosticError, match="the merges of the token 'abcd' do not follow each other"):
        metadata_of(folder, 1000)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: byte_level(split(r"\d+", LLAMA3)),
            "no pre-tokenizer that GGUF files name splits texts as the folder's",
        ),
        (
            lambda: byte_level(pre_tokenizers.Sequence([pre_tokenizers.Punctuation(), digits()])),
            "the pre-tokenizer has a step that GGUF files do not have: Punctuation",
        ),
    ],
)
def test_pre_tokenizers_without_a_name(tmp_path: Path, make: Callable[[], Tokenizer], message: str) -> None:
    with pytest.raises(DiagnosticError, match=message):
        metadata_of(saved(make(), tmp_path), 1000)


def test_a_normalizer_that_gguf_files_do_not_have(tmp_path: Path) -> None:
    tokenizer = byte_level(digits())
    tokenizer.normalizer = normalizers.Lowercase()
    with pytest.raises(DiagnosticError, match="the tokenizer splits .Hello, world!.* in another way than GGUF files"):
        metadata_of(saved(tokenizer, tmp_path), 1000)


def test_other_models_are_refused(tmp_path: Path) -> None:
    tokenizer = Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    tokenizer.decoder = decoders.WordPiece()
    with pytest.raises(DiagnosticError, match="tokenizers with the model WordPiece are not written"):
        metadata_of(saved(tokenizer, tmp_path), 1000)


def test_two_tokens_before_each_text(tmp_path: Path) -> None:
    tokenizer = byte_level(digits())
    special = [("<|start|>", 0), ("<|stop|>", 1)]
    tokenizer.post_processor = processors.TemplateProcessing("<|start|> <|stop|> $A", None, special)
    with pytest.raises(DiagnosticError, match="GGUF files have one token before and one behind a text"):
        metadata_of(saved(tokenizer, tmp_path), 1000)
