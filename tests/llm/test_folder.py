"""Tokenizers in folders of Hugging Face: ``tokenizer.json`` with its decoders, settings of the other files, errors."""

from __future__ import annotations

import json
import sys

import pytest
import tokenizer_texts

from relax import DiagnosticError
from relax.llm import tokenizer_of

package = pytest.importorskip("tokenizers")
decoders, models, normalizers = package.decoders, package.models, package.normalizers
pre_tokenizers, processors = package.pre_tokenizers, package.processors

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def byte_level():
    core = package.Tokenizer(models.BPE({c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, []))
    core.pre_tokenizer, core.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    core.add_special_tokens(["<s>", "</s>", "<|im_end|>"])
    return core


def sentencepiece_bpe(first: bool = False):
    """As Llama 2 has it, with a blank in front of each piece of text; with ``first``, at the beginning only."""
    tokens = ["<unk>", "<s>", "</s>", *BYTES, "▁", "a", "b", "ab", "▁ab"]
    model = models.BPE(
        {token: index for index, token in enumerate(tokens)}, [("a", "b"), ("▁", "ab")],
        unk_token="<unk>", byte_fallback=True, fuse_unk=True,
    )  # fmt: skip
    core = package.Tokenizer(model)
    if first:
        core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    else:
        core.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    core.decoder = decoders.Sequence(steps)
    core.add_special_tokens(["<unk>", "<s>", "</s>"])
    core.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return core


def folder(path, core, **files):
    """Write a folder: the tokenizer, and objects as JSON under their names."""
    core.save(str(path / "tokenizer.json"))
    for name, content in files.items():
        (path / f"{name}.json").write_text(json.dumps(content))
    return path


# ----------------------------------------------------------------------------------- texts


def test_byte_level(tmp_path):
    core = byte_level()
    tokenizer = tokenizer_of(folder(tmp_path, core))
    core.encode_special_tokens = True
    for text in tokenizer_texts.texts(3, 400):
        ids = tokenizer.encode(text)
        assert ids == core.encode(text).ids
        assert tokenizer.decode(ids) == text
    assert tokenizer.special == {256: "<s>", 257: "</s>", 258: "<|im_end|>"}
    assert tokenizer.encode("</s>", parse_special=True) == [257]
    assert tokenizer.vocabulary_size == 259


def test_sentencepiece_bpe(tmp_path):
    tokenizer = tokenizer_of(folder(tmp_path, sentencepiece_bpe()))
    ids = tokenizer.encode("ab ab</s>ab", parse_special=True)
    assert [tokenizer.token(index) for index in ids] == [b"<s>", b" ab", b" ab", b"</s>", b" ab"]
    assert tokenizer.decode(ids) == "<s>ab ab</s>ab"
    assert tokenizer.encode("ab", add_special=False) == ids[1:2]
    stream = tokenizer.decode_stream(prompt=ids[:2])
    assert stream.step(ids[2]) == " ab"
    for text in tokenizer_texts.texts(4, 400):
        if "▁" not in text:
            assert tokenizer.decode(tokenizer.encode(text), skip_special=True) == text


def test_a_blank_at_the_beginning_only(tmp_path):
    tokenizer = tokenizer_of(folder(tmp_path, sentencepiece_bpe(first=True)))
    ids = tokenizer.encode("ab</s>ab ab", add_special=False, parse_special=True)
    assert [tokenizer.token(index) for index in ids] == [b" ab", b"</s>", b"ab", b" ab"]
    assert tokenizer.decode(ids) == "ab</s>ab ab"
    stream = tokenizer.decode_stream(prompt=ids[:2])
    assert stream.step(ids[0]) == " ab"


def test_unigram(tmp_path):
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁a", -1.0), ("b", -2.0), ("▁", -3.0)]
    core = package.Tokenizer(models.Unigram(pieces, 2))
    core.pre_tokenizer, core.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    core.add_special_tokens(["<pad>", "</s>"])
    core.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    tokenizer = tokenizer_of(folder(tmp_path, core, tokenizer_config={"eos_token": "</s>"}))
    ids = tokenizer.encode("ab a")
    assert ids == [3, 4, 3, 1]
    assert tokenizer.decode(ids, skip_special=True) == "ab a"
    assert (tokenizer.bos, tokenizer.eos) == (None, 1)


def test_word_piece(tmp_path):
    words = {word: index for index, word in enumerate(["[UNK]", "[CLS]", "[SEP]", "un", "##able", "!"])}
    core = package.Tokenizer(models.WordPiece(words, unk_token="[UNK]"))
    core.normalizer, core.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    core.decoder = decoders.WordPiece()
    core.add_special_tokens(["[UNK]", "[CLS]", "[SEP]"])
    core.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    core.enable_truncation(4)
    core.enable_padding(length=16)
    tokens = {"cls_token": "[CLS]", "sep_token": "[SEP]"}
    tokenizer = tokenizer_of(folder(tmp_path, core, special_tokens_map=tokens))
    ids = tokenizer.encode("Unable! unable")
    assert ids == [1, 3, 4, 5, 3, 4, 2]  # neither cut off nor padded, as the file says
    assert tokenizer.decode(ids, skip_special=True) == "unable ! unable"
    assert (tokenizer.bos, tokenizer.eos) == (1, 2)


# ----------------------------------------------------------------------------------- settings


def test_roles_of_tokens(tmp_path):
    """Tokens are texts or objects; ids that end an answer are collected from all files."""
    tokens = {"bos_token": {"content": "<s>", "lstrip": False}, "eos_token": "</s>"}
    path = folder(tmp_path, byte_level(), tokenizer_config=tokens, generation_config={"eos_token_id": [7, 257]})
    tokenizer = tokenizer_of(path)
    assert (tokenizer.bos, tokenizer.eos) == (256, 257)
    assert tokenizer.eot == {7, 257, 258}


def test_one_file_of_settings_overrides_another(tmp_path):
    path = folder(
        tmp_path, byte_level(), special_tokens_map={"bos_token": "</s>", "eos_token": "</s>"},
        tokenizer_config={"bos_token": "<s>", "eos_token": None}, config={"eos_token_id": 258},
    )  # fmt: skip
    tokenizer = tokenizer_of(path)
    assert (tokenizer.bos, tokenizer.eos, tokenizer.eot) == (256, 257, {257, 258})


MESSAGES = [{"role": "user", "content": "Hi"}]


def test_chat_templates(tmp_path):
    config = {"chat_template": "{{ bos_token }}{{ messages[0].content }}", "bos_token": "<s>"}
    tokenizer = tokenizer_of(folder(tmp_path, byte_level(), tokenizer_config=config))
    assert tokenizer.chat_template == config["chat_template"]
    assert tokenizer.apply_chat_template(MESSAGES) == "<s>Hi"


def test_several_chat_templates(tmp_path):
    templates = [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "{{ tools | tojson }}"}]
    tokenizer = tokenizer_of(folder(tmp_path, byte_level(), tokenizer_config={"chat_template": templates}))
    assert tokenizer.apply_chat_template(MESSAGES) == "plain"
    assert tokenizer.apply_chat_template(MESSAGES, tools=[{}]) == "[{}]"


def test_chat_templates_in_files(tmp_path):
    path = folder(tmp_path, byte_level(), chat_template={"chat_template": "from JSON"})
    assert tokenizer_of(path).apply_chat_template(MESSAGES) == "from JSON"
    (path / "chat_template.jinja").write_text("from a file")
    (path / "additional_chat_templates").mkdir()
    (path / "additional_chat_templates" / "tool_use.jinja").write_text("with tools")
    assert tokenizer_of(path).apply_chat_template(MESSAGES) == "from a file"
    assert tokenizer_of(path).apply_chat_template(MESSAGES, tools=[{}]) == "with tools"


# ----------------------------------------------------------------------------------- errors


def refused(path):
    with pytest.raises(DiagnosticError) as raised:
        tokenizer_of(path)
    return str(raised.value)


def test_a_folder_without_a_tokenizer(tmp_path):
    text = refused(tmp_path)
    assert "error[E6013]: the folder has no tokenizer" in text
    assert "expected tokenizer.json or tokenizer.model in it" in text


@pytest.mark.parametrize("content", ["", "{", "[]", '{"model": {"type": "Other"}}', '{"version": "1.0"}'])
def test_broken_tokenizers(tmp_path, content):
    (tmp_path / "tokenizer.json").write_text(content)
    assert "error[E6011]: the tokenizer cannot be read: " in refused(tmp_path)


def test_broken_settings(tmp_path):
    path = folder(tmp_path, byte_level())
    (path / "generation_config.json").write_text("{,}")
    assert "error[E6011]: the file is not JSON: " in refused(path)
    (path / "generation_config.json").write_text("[]")
    assert "error[E6011]: the file has no settings" in refused(path)


def test_unknown_decoders(tmp_path):
    core = byte_level()
    core.decoder = decoders.CTC()
    assert "error[E6012]: the decoder of the tokenizer is not known: CTC" in refused(folder(tmp_path, core))


def test_a_missing_package(tmp_path, monkeypatch):
    path = folder(tmp_path, byte_level())
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ImportError, match=r"a tokenizer needs the package tokenizers: pip install relax\[llm\]"):
        tokenizer_of(path)
