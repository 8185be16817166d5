"""Metadata of a GGUF file from the tokenizer of a folder: `metadata_of`, the inverse of `gguf_vocabulary`.

Byte-level BPE    tokens, merges, and the name of the pre-tokenizer with the same regular expressions
SentencePiece     tokens and scores: those of tokenizer.model, or such that the same pairs are merged first

What is written is made into a tokenizer again, which must split texts of many scripts as the folder's does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from ..frontend.tensor_files import UNSUPPORTED, failure
from ..ir import DiagnosticError
from . import folder, sentencepiece_model
from .algorithms import assemble
from .gguf_vocabulary import PREFIX, TEMPLATE
from .pieces import byte_fallback
from .splitting import GPT2, SPLITTINGS, Splitting
from .tokenizer import Tokenizer
from .vocabulary import (
    BYTE,
    CONTROL,
    END_OF_TURN,
    NORMAL,
    TEMPLATE_NAMES,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    Array,
    RawVocabulary,
    Vocabulary,
)

_ROLES: Final = {name: role for role, name in TEMPLATE_NAMES.items()}
_SPELLINGS: Final = {"separator": "seperator"}
"""Roles that keys spell in another way."""
_WITHOUT_MERGES: Final = "gpt-2"
"""Pre-tokenizer of a vocabulary of bytes: where nothing is merged, no border matters."""
_EQUAL: Final = (
    ("?+", "?"), ("++", "+"), ("*+", "*"), (r"\s*[\r\n]|", r"\s*[\r\n]+|"),
    ("'(?i:[sdmt]|ll|ve|re)", "(?i:'s|'t|'re|'ve|'m|'ll|'d)"),
)  # fmt: skip
"""Parts of regular expressions with others that match the same, which `SPLITTINGS` has."""

SAMPLES: Final = (
    "Hello, world! It's 12345.67 degrees; they've SEEN that.", " two  blanks   three\tand\ttabs ", "a\n\nb\r\n  c\n",
    "The naïve café in Zürich costs 3½ €.", "Привет, мир! Ёлка 2024 года.", "Γειά σου Κόσμε", "שלום עולם",
    "مرحبا بالعالم ١٢٣", "नमस्ते दुनिया", "สวัสดีชาวโลก", "你好，世界！今天是2024年。", "こんにちは、世界。カタカナ",
    "안녕하세요 세계", "🙂👍🏽 emoji 🇨🇭", "def f(x):\n    return x**2  # comment\n", "https://example.org/a?q=1&r=2",
    "x" * 50 + "!!!???...---", "",
)  # fmt: skip
"""Texts that both tokenizers must split equally."""


def metadata_of(place: Path, rows: int) -> dict[str, Any]:
    """Return the keys of the tokenizer of a folder, for a model with embeddings of `rows` tokens.

    Raises DiagnosticError for a tokenizer that is missing or corrupt (E6011, E6013), or that GGUF files do not have
    (E6012), and ImportError without the package ``tokenizers``.
    """
    vocabulary = folder.vocabulary_of(place)
    raw = _raw(place, vocabulary)
    if len(raw.tokens) > rows:
        note = f"the tokenizer has {len(raw.tokens)} tokens, the embeddings have {rows} rows"
        raise _refused(raw.path, "the tokenizer has more tokens than the model", note)
    _check(raw, vocabulary)
    return _keys(raw, rows)


def _refused(path: str, message: str, *notes: str) -> DiagnosticError:
    return failure(UNSUPPORTED, path, message, *notes)


# ------------------------------------------------------------------------------ the vocabulary


def _raw(place: Path, vocabulary: Vocabulary) -> RawVocabulary:
    """Return the vocabulary of a folder as GGUF files have it."""
    given = sentencepiece_model.raw_vocabulary(place / folder.MODEL) if (place / folder.MODEL).exists() else None
    if not (place / folder.JSON).exists():
        assert given is not None  # the vocabulary was made of it
        return _with_roles(given, vocabulary)
    path = place / folder.JSON
    model: dict[str, Any] = json.loads(path.read_text("utf-8"))["model"]
    kind = model.get("type", "BPE")
    if kind != "BPE":
        raise _refused(str(path), f"tokenizers with the model {kind} are not written", "expected BPE")
    tokens = [vocabulary.core.id_to_token(index) for index in range(len(vocabulary.pieces))]
    if model.get("byte_fallback"):
        return _with_roles(_scored(str(path), tokens, model, vocabulary, given), vocabulary)
    return _with_roles(_byte_level(str(path), tokens, model, vocabulary), vocabulary)


def _types(tokens: Sequence[str | None], vocabulary: Vocabulary) -> Array:
    """Return the types of tokens; ids without a token are unused."""
    types = np.full(len(tokens), NORMAL, np.int32)
    for index in vocabulary.core.get_added_tokens_decoder():
        types[index] = USER_DEFINED
    types[[*vocabulary.special]] = CONTROL
    types[[index for index, token in enumerate(tokens) if token is None]] = UNUSED
    return types


def _named(tokens: Iterable[str | None]) -> list[str]:
    return [f"[PAD{index}]" if token is None else token for index, token in enumerate(tokens)]


def _pairs(model: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the merges of ``tokenizer.json``, which are texts with a blank, or lists of two."""
    merges: list[Any] = model.get("merges", [])
    return [cast("tuple[str, str]", tuple(m.split(" ", 1) if isinstance(m, str) else m)) for m in merges]


def _byte_level(
    path: str, tokens: Sequence[str | None], model: Mapping[str, Any], vocabulary: Vocabulary
) -> RawVocabulary:
    """Return byte-level BPE."""
    merges = [" ".join(pair) for pair in _pairs(model)]
    return RawVocabulary(
        path=path, algorithm="gpt2", pre=_pre(path, vocabulary, model) if merges else _WITHOUT_MERGES,
        tokens=_named(tokens), types=_types(tokens, vocabulary), scores=np.zeros(len(tokens), np.float32),
        merges=merges, roles={}, templates=vocabulary.chat_templates, add_space_prefix=False,
    )  # fmt: skip


def _scored(
    path: str, tokens: Sequence[str | None], model: Mapping[str, Any], vocabulary: Vocabulary,
    given: RawVocabulary | None,
) -> RawVocabulary:  # fmt: skip
    """Return the BPE of SentencePiece, with the types and scores of its own file if there is one."""
    types = _types(tokens, vocabulary)
    roles: dict[str, int] = {}
    for index, token in enumerate(tokens):
        if token is not None and types[index] == NORMAL and byte_fallback(token) is not None:
            types[index] = BYTE
        if token is not None and token == model.get("unk_token"):
            types[index] = UNKNOWN
            roles["unknown"] = index
    if given is not None and given.algorithm == "llama" and given.tokens == tokens[: len(given.tokens)]:
        scores = np.full(len(tokens), -1000, np.float32)
        scores[: len(given.scores)] = given.scores
        types[: len(given.types)] = np.where(given.types == UNUSED, UNUSED, types[: len(given.types)])
    else:
        scores = _scores(path, tokens, types, _pairs(model))
    return RawVocabulary(
        path=path, algorithm="llama", pre="default", tokens=_named(tokens), types=types, scores=scores, merges=None,
        roles=roles, templates=vocabulary.chat_templates, add_space_prefix=vocabulary.prefix_space != "",
    )  # fmt: skip


def _scores(path: str, tokens: Sequence[str | None], types: Array, pairs: Sequence[tuple[str, str]]) -> Array:
    """Return scores with which the same pairs are merged, in the same order.

    Raises DiagnosticError if there are none: merges of SentencePiece are all pairs that make a token, ordered by it.
    """
    scores = np.full(len(tokens), -float(len(pairs)) - 1, np.float32)
    ids = {token: index for index, token in enumerate(tokens) if token is not None and types[index] == NORMAL}
    before = ""
    ranked: set[str] = set()
    for rank, (left, right) in enumerate(pairs):
        token = left + right
        if token != before and token in ranked:
            raise _refused(path, f"the merges of the token {token!r} do not follow each other, as scores need it")
        if token in ids and token not in ranked:
            scores[ids[token]] = -float(rank)
        ranked.add(token)
        before = token
    possible = sum(token[:place] in ids and token[place:] in ids for token in ids for place in range(1, len(token)))
    if possible != sum(all(part in ids for part in (left, right, left + right)) for left, right in {*pairs}):
        note = f"{possible} pairs of tokens make a token, there are {len(pairs)} merges"
        raise _refused(path, "the merges of the tokenizer are not those of a model of SentencePiece", note)
    return scores


# ------------------------------------------------------------------------------ the pre-tokenizer


def _pre(path: str, vocabulary: Vocabulary, model: Mapping[str, Any]) -> str:
    """Return the name of the pre-tokenizer with the expressions of a folder's. Raises DiagnosticError for others."""
    found = _expressions(path, vocabulary)
    whole = bool(model.get("ignore_merges"))
    wanted = tuple(_simplified(text) for text in found)
    for name, splitting in SPLITTINGS.items():
        if _of(splitting) == wanted and splitting.whole_words == whole:
            return name
    note = f"its expressions: {', '.join(map(repr, found)) or 'none'}"
    message = "no pre-tokenizer that GGUF files name splits texts as the folder's does"
    raise _refused(path, message, note[:400], f"tokens that are whole words are kept: {str(whole).lower()}")


def _of(splitting: Splitting) -> tuple[str, ...]:
    return tuple(_simplified(text) for text in splitting.expressions)


def _simplified(expression: str) -> str:
    for text, other in _EQUAL:
        expression = expression.replace(text, other)
    return expression


def _expressions(path: str, vocabulary: Vocabulary) -> tuple[str, ...]:
    """Return the regular expressions by which a folder's tokenizer splits texts, in order."""
    component = vocabulary.core.pre_tokenizer
    state: dict[str, Any] = {} if component is None else json.loads(component.__getstate__())
    steps: list[dict[str, Any]] = state.get("pretokenizers", [state] if state else [])
    found: list[str] = []
    for step in steps:
        kind = step["type"]
        pattern = step.get("pattern", {})
        if kind == "Split" and step.get("behavior") == "Isolated" and not step.get("invert") and "Regex" in pattern:
            found.append(pattern["Regex"])
        elif kind == "Split" and step.get("behavior") == "Removed" and step.get("invert") and "Regex" in pattern:
            found.append(pattern["Regex"])  # matches stay; these expressions match everything
        elif kind == "Digits":
            found.append(r"\p{N}" if step.get("individual_digits") else r"\p{N}+")
        elif kind == "ByteLevel" and not step.get("add_prefix_space"):
            found += [GPT2] if step.get("use_regex", True) else []
        else:
            raise _refused(path, f"the pre-tokenizer has a step that GGUF files do not have: {kind}")
    return tuple(found)


# ------------------------------------------------------------------------------ roles


def _with_roles(raw: RawVocabulary, vocabulary: Vocabulary) -> RawVocabulary:
    """Add the tokens with a role, and whether they stand around texts."""
    core: Any = vocabulary.core
    renumbered = vocabulary.renumbered or {}
    roles = dict(raw.roles)
    for name, text in vocabulary.named.items():
        index: int | None = core.token_to_id(text)
        if name in _ROLES and index is not None:
            roles[_ROLES[name]] = renumbered.get(index, index)
    for role, number in (("bos", vocabulary.bos), ("eos", vocabulary.eos)):
        if number is not None:
            roles[role] = renumbered.get(number, number)
    before, after = _around(raw, Tokenizer(vocabulary))
    if before:
        roles["bos"] = before[0]
    if after:
        roles["eos"] = after[0]
    ends = [
        index
        for index in sorted(vocabulary.ends - {roles.get("eos")})
        if raw.tokens[index] not in END_OF_TURN or raw.types[index] not in (CONTROL, USER_DEFINED)
    ]
    if len(ends) > 2:
        found = ", ".join(raw.tokens[index] for index in ends)
        raise _refused(raw.path, f"GGUF files name three tokens that end an answer, the folder more: {found}")
    roles.update(zip(("eot", "eom"), ends, strict=False))
    return RawVocabulary(
        raw.path, raw.algorithm, raw.pre, raw.tokens, raw.types, raw.scores, raw.merges, roles,
        vocabulary.chat_templates, raw.add_space_prefix, bool(before), bool(after), None,
        raw.remove_extra_whitespaces, raw.charsmap, raw.lowercase,
    )  # fmt: skip


def _around(raw: RawVocabulary, tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """Return the tokens that stand before and behind each text: one each, at most."""
    text = "a"
    inner, whole = tokenizer.encode(text, add_special=False), tokenizer.encode(text)
    for start in range(len(whole) - len(inner) + 1):
        before, after = whole[:start], whole[start + len(inner) :]
        if whole[start : start + len(inner)] == inner and len(before) <= 1 and len(after) <= 1:
            return before, after
    found = [raw.tokens[index] for index in whole]
    raise _refused(raw.path, f"GGUF files have one token before and one behind a text, the folder: {found}")


# ------------------------------------------------------------------------------ check, and keys


def _check(raw: RawVocabulary, vocabulary: Vocabulary) -> None:
    """Raise DiagnosticError unless the vocabulary, read again, splits texts as the folder's tokenizer does."""
    one, other = Tokenizer(vocabulary), Tokenizer(assemble(raw))
    for text in SAMPLES:
        wanted, found = one.encode(text), other.encode(text)
        if wanted != found:
            notes = f"the folder's: {wanted[:12]}", f"as GGUF has it: {found[:12]}"
            raise _refused(
                raw.path, f"the tokenizer splits {text[:30]!r} in another way than GGUF files can say", *notes
            )


def _keys(raw: RawVocabulary, rows: int) -> dict[str, Any]:
    """Return the metadata of a vocabulary, with unused tokens for the embeddings that have none."""
    missing = range(len(raw.tokens), rows)
    types = np.concatenate([raw.types, np.full(len(missing), UNUSED)]).astype(np.int32)
    found: dict[str, Any] = {
        f"{PREFIX}model": raw.algorithm,
        f"{PREFIX}pre": raw.pre,
        f"{PREFIX}tokens": [*raw.tokens, *(f"[PAD{index}]" for index in missing)],
        f"{PREFIX}token_type": types,
    }
    if raw.merges is not None:
        found[f"{PREFIX}merges"] = [*raw.merges] or np.array([], np.str_)
    else:
        found[f"{PREFIX}scores"] = np.concatenate([raw.scores, np.full(len(missing), -1000)]).astype(np.float32)
        found[f"{PREFIX}add_space_prefix"] = raw.add_space_prefix
    if raw.remove_extra_whitespaces:
        found[f"{PREFIX}remove_extra_whitespaces"] = True
    if raw.charsmap:
        found[f"{PREFIX}precompiled_charsmap"] = np.frombuffer(raw.charsmap, np.uint8)
    for role, index in raw.roles.items():
        found[f"{PREFIX}{_SPELLINGS.get(role, role)}_token_id"] = index
    for name, value in (("add_bos_token", raw.add_bos), ("add_eos_token", raw.add_eos)):
        if value is not None:
            found[f"{PREFIX}{name}"] = value
    others = [name for name in raw.templates if name != "default"]
    if "default" in raw.templates:
        found[TEMPLATE] = raw.templates["default"]
    if others:
        found["tokenizer.chat_templates"] = others
        found |= {f"{TEMPLATE}.{name}": raw.templates[name] for name in others}
    return found


__all__ = ["metadata_of"]
