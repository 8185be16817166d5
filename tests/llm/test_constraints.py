"""Constrained output: schemas, regular expressions and grammars, with vocabularies of several kinds."""

from __future__ import annotations

import gc
import json
import re
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_models import small_model
from vocabularies import BYTES, CONTROL, byte_level, scored, write

from relax import llm
from relax.llm import Tokenizer, constraint_of, tokenizer_of
from relax.llm.constraints import Constraint
from relax.llm.language_model import LanguageModel

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 4},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"type": "array", "items": {"enum": ["x", "y"]}, "maxItems": 2},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    return llm.load(small_model(tmp_path_factory.mktemp("small")), cache_dtype="float32")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """A byte-level vocabulary with some words, and a token that ends an answer."""
    merges = ["a b", "ab c", "t r", "u e"]
    return byte_level(tmp_path_factory.mktemp("v"), [("<end>", CONTROL)], merges, eos_token_id=260)


def constraint(tokenizer: Tokenizer, **form: Any) -> Constraint:
    found = constraint_of(tokenizer, **form)
    assert found is not None
    return found


def allowed(tokenizer: Tokenizer, constraint: Constraint) -> set[bytes]:
    return {tokenizer.token(int(index)) for index in np.flatnonzero(constraint.mask())}


def write_text(tokenizer: Tokenizer, constraint: Constraint, text: str) -> None:
    """Append a text, with whichever tokens may follow."""
    data = text.encode()
    while data:
        tokens = [int(index) for index in np.flatnonzero(constraint.mask())]
        token = next(
            token for token in tokens if token not in tokenizer.eot and data.startswith(tokenizer.token(token))
        )
        constraint.accept(token)
        data = data[len(tokenizer.token(token)) :]


# ------------------------------------------------------------------------------ masks


def test_the_tokens_that_a_regular_expression_allows(tokenizer: Tokenizer) -> None:
    text = constraint(tokenizer, regex="abc?|b")
    assert allowed(tokenizer, text) == {b"a", b"ab", b"abc", b"b"}
    assert not text.is_complete
    text.accept(tokenizer.encode("ab")[0])
    assert allowed(tokenizer, text) == {b"c", b"<end>"}
    assert text.is_complete
    assert not text.is_finished
    text.accept(tokenizer.encode("c")[0])
    assert text.is_complete
    assert text.is_finished
    assert allowed(tokenizer, text) == {b"<end>"}
    text.accept(260)
    assert text.is_finished


def test_masks_are_booleans_of_the_vocabulary_that_nobody_writes(tokenizer: Tokenizer) -> None:
    mask = constraint(tokenizer, regex="a").mask()
    assert mask.shape == (tokenizer.vocabulary_size,)
    assert mask.dtype == np.bool_
    with pytest.raises(ValueError, match="read-only"):
        mask[0] = True


def test_a_token_that_may_not_follow_changes_nothing(tokenizer: Tokenizer) -> None:
    text = constraint(tokenizer, regex="ab")
    for token in (tokenizer.encode("b")[0], 260, -1, 261):
        with pytest.raises(ValueError, match=f"the token {token} may not follow: the text would not match the regex"):
            text.accept(token)
    write_text(tokenizer, text, "ab")
    assert text.is_finished


def test_forced_tokens_are_those_that_the_tokenizer_would_choose(tokenizer: Tokenizer) -> None:
    text = constraint(tokenizer, grammar='start: "true abc" ("!" | "?")')
    forced = tokenizer.encode("true abc")
    assert len(forced) == 4
    assert text.forced() == forced
    for token in forced:
        assert np.flatnonzero(text.mask()).tolist() == [token]
        text.accept(token)
    assert text.forced() == []
    assert allowed(tokenizer, text) == {b"!", b"?"}


def test_control_tokens_do_not_stand_for_their_texts(tokenizer: Tokenizer) -> None:
    text = constraint(tokenizer, regex="<end>")
    assert allowed(tokenizer, text) == {b"<"}
    write_text(tokenizer, text, "<end>")
    assert text.is_finished


def test_characters_of_several_bytes(tokenizer: Tokenizer) -> None:
    text = constraint(tokenizer, regex="[é☃]")
    assert allowed(tokenizer, text) == {b"\xc3", b"\xe2"}
    write_text(tokenizer, text, "☃")
    assert text.is_finished


def test_an_expression_of_the_empty_text_is_finished_at_once(tokenizer: Tokenizer) -> None:
    text = constraint(tokenizer, regex="")
    assert text.is_finished
    assert allowed(tokenizer, text) == {b"<end>"}


# ------------------------------------------------------------------------------ vocabularies


@pytest.mark.parametrize("prefix", [True, False])
def test_sentencepiece_vocabularies(tmp_path: Path, prefix: bool) -> None:
    tokenizer = scored(tmp_path, ["▁", "a", "b", "ab", "▁ab", "!"], add_space_prefix=prefix)
    text = constraint(tokenizer, regex=" ab!| é")
    assert {b" ", b" ab"} <= allowed(tokenizer, text)
    write_text(tokenizer, text, " ab")
    assert text.forced() == [tokenizer.encode("a!", add_special=False)[-1]]
    write_text(tokenizer, text, "!")
    assert text.is_finished
    assert allowed(tokenizer, text) == {b"</s>"}
    text = constraint(tokenizer, regex="ab")
    assert [tokenizer.token(token) for token in text.forced()] == [b"ab"]


def test_a_vocabulary_without_an_end(tmp_path: Path) -> None:
    tokenizer = byte_level(tmp_path)
    assert not tokenizer.eot
    text = constraint(tokenizer, regex="ab?")
    write_text(tokenizer, text, "a")
    assert text.is_complete
    assert not text.is_finished
    assert allowed(tokenizer, text) == {b"b"}
    write_text(tokenizer, text, "b")
    assert text.is_finished
    assert not text.mask().any()


def test_texts_that_a_vocabulary_cannot_write(tmp_path: Path) -> None:
    letters = [byte for byte in BYTES if byte != "b"]
    tokenizer = tokenizer_of(write(tmp_path, "gpt2", letters, [], pre="gpt-2"))
    with pytest.raises(ValueError, match="the regex allows no text: no token of the vocabulary begins one"):
        constraint(tokenizer, regex="ba")
    text = constraint(tokenizer, regex="[a-c]b")
    assert allowed(tokenizer, text) == {b"a", b"c"}
    with pytest.raises(ValueError, match="no token of the vocabulary continues the text as the regex says"):
        write_text(tokenizer, text, "ab")


def test_a_tokenizer_and_its_prepared_vocabulary_are_freed(tmp_path: Path) -> None:
    tokenizer = byte_level(tmp_path)
    constraint(tokenizer, regex="a")
    gone = weakref.ref(tokenizer)
    del tokenizer
    gc.collect()
    assert gone() is None


# ------------------------------------------------------------------------------ forms that are refused


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"json_schema": {"type": "text"}}, "the json_schema is refused: Invalid type: text"),
        ({"json_schema": {"enum": []}}, "the json_schema is refused: Unsatisfiable schema"),
        ({"json_schema": {"not": {"type": "string"}}}, r'the json_schema is refused: Unimplemented keys: \["not"\]'),
        ({"json_schema": {"$ref": "https://example.org/schema"}}, "the json_schema is refused: Resource"),
        ({"json_schema": {"enum": [{1, 2}]}}, "the json_schema is no JSON: {1, 2} has no form in JSON"),
        ({"json_schema": False}, "the json_schema is refused: False allows no value"),
        ({"regex": "("}, "(?s)the regex is refused: .*unclosed group"),
        ({"regex": "(?=a)b"}, "(?s)the regex is refused: .*look-around"),
        ({"grammar": "start: word"}, 'the grammar is refused: at 1\\(8\\): unknown name: "word"'),
        ({"grammar": 'begin: "a"'}, "the grammar is refused: no start rule found"),
        ({"grammar": "start: A\nA: /a/ & /b/"}, "the grammar allows no text: no token of the vocabulary begins one"),
        ({"regex": "a", "grammar": "start:"}, "an answer has one constraint, found regex and grammar"),
    ],
)
def test_forms_that_are_refused(tokenizer: Tokenizer, form: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        constraint_of(tokenizer, **form)


def test_forms_of_other_types(tokenizer: Tokenizer) -> None:
    wrong: Any = [1]
    with pytest.raises(TypeError, match="a json_schema is a mapping, or True, not list"):
        constraint_of(tokenizer, json_schema=wrong)
    with pytest.raises(TypeError, match="a regex is a text, not list"):
        constraint_of(tokenizer, regex=wrong)
    assert constraint_of(tokenizer) is None


def test_a_grammar_that_is_too_ambiguous_ends_with_its_reason(tokenizer: Tokenizer) -> None:
    text = constraint(tokenizer, grammar='start: "a" start')
    with pytest.raises(ValueError, match="the text cannot follow the grammar: parser error: Too many items") as caught:
        write_text(tokenizer, text, "a" * 60000)
    assert "rows" not in str(caught.value)


# ------------------------------------------------------------------------------ answers


def is_person(value: Any) -> bool:
    return (
        list(value) == ["name", "age", "tags"] and len(value["name"]) <= 4 and 0 <= value["age"] <= 120
        and len(value["tags"]) <= 2 and {*value["tags"]} <= {"x", "y"}
    )  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "is_valid"),
    [
        (PERSON, is_person),
        ({"enum": ["a", 5, None, {"b": [True]}]}, lambda value: value in ["a", 5, None, {"b": [True]}]),
        (
            {"type": "array", "items": {"type": "number", "minimum": -3, "maximum": 3}, "minItems": 1, "maxItems": 3},
            lambda value: 1 <= len(value) <= 3 and all(-3 <= number <= 3 for number in value),
        ),
        (
            {"anyOf": [{"type": "boolean"}, {"type": "string", "pattern": "^[é-ü]{2}$"}]},
            lambda value: isinstance(value, bool) or re.fullmatch("[é-ü]{2}", value),
        ),
        (
            {"$ref": "#/$defs/tree", "$defs": {"tree": {
                "type": "object", "properties": {"left": {"$ref": "#/$defs/tree"}, "n": {"const": 1}},
                "required": ["n"], "additionalProperties": False,
            }}},
            lambda value: {*value} <= {"left", "n"} and value["n"] == 1,
        ),
    ],
    ids=["object", "enum", "array", "anyOf", "recursive"],
)  # fmt: skip
def test_every_answer_matches_its_schema(model: LanguageModel, schema: dict[str, Any], is_valid: Any) -> None:
    """With random weights, and a temperature at which all that is allowed comes."""
    found: set[str] = set()
    for seed in range(60):
        text = model.generate("A", 110, json_schema=schema, temperature=1.5, seed=seed)
        if len(text.encode()) < 110:
            assert is_valid(json.loads(text)), text
            found.add(text)
    assert len(found) > 3


def test_every_answer_matches_its_expression(model: LanguageModel) -> None:
    for seed in range(60):
        text = model.generate("A", 100, regex=r"(a|é|☃){2,5} [0-9]+[.][0-9]{2}", temperature=1.5, seed=seed)
        assert len(text.encode()) == 100 or re.fullmatch("(a|é|☃){2,5} [0-9]+[.][0-9]{2}", text)
    assert model.generate("A", 100, regex="") == ""


def test_every_answer_is_a_sentence_of_its_grammar(model: LanguageModel) -> None:
    grammar = r"""
        start: sum
        sum: product (("+" | "-") product)~0..2
        product: /[1-9]/ | "(" sum ")"
    """
    for seed in range(60):
        text = model.generate("A", 100, grammar=grammar, temperature=1.0, seed=seed)
        if len(text) < 100:
            assert isinstance(eval(text, {}), int), text


def test_any_object(model: LanguageModel) -> None:
    texts = [model.generate("A", 60, json_schema=True, temperature=1.5, seed=seed) for seed in range(20)]
    assert all(text.startswith("{") for text in texts)
    complete = [text for text in texts if len(text.encode()) < 60]
    assert complete
    assert all(isinstance(json.loads(text), dict) for text in complete)


def test_a_stream_and_a_chat_are_constrained_likewise(model: LanguageModel) -> None:
    form: dict[str, Any] = {"json_schema": PERSON, "temperature": 1.0, "seed": 2, "max_new_tokens": 100}
    whole = model.generate("A", **form)
    assert "".join(model.generate("A", stream=True, **form)) == whole
    messages = [{"role": "user", "content": "Hi"}]
    assert re.fullmatch("yes|no", model.chat(messages, regex="yes|no"))
    assert model.generate("A", 100, grammar='start: "one, two, three"', stop=", t") == "one"


def test_an_end_comes_only_behind_a_complete_text(model: LanguageModel) -> None:
    end = min(model.tokenizer.eot)
    certain = {"temperature": 0.0, "logit_bias": {end: 1000.0}}
    assert model.generate("A", 20, **certain) == ""
    text = model.generate("A", 20, regex="[a-c]{3,9}", **certain)
    assert re.fullmatch("[a-c]{3}", text)


def test_forms_are_refused_before_an_answer_begins(model: LanguageModel) -> None:
    with pytest.raises(ValueError, match="the regex is refused"):
        model.generate("A", 5, regex="(", stream=True)
    with pytest.raises(ValueError, match="an answer has one constraint, found json_schema and regex"):
        model.generate("A", 5, json_schema=True, regex="a")


def test_a_blank_in_front_belongs_to_a_constrained_text(tmp_path: Path) -> None:
    tokenizer = scored(tmp_path, ["▁", "a", "▁a"])
    tokens = tokenizer.encode("a", add_special=False)
    assert tokenizer.decode(tokens) == "a"
    stream = tokenizer.decode_stream(keeps_blank=True)
    assert "".join(map(stream.step, tokens)) == " a"
