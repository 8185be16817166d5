"""Tokenizers of the package ``tokenizers``, made of tokens with merges or scores: `assemble`.

gpt2     byte-level BPE: tokens and merges; the pre-tokenizer has a name (`splitting.py`)
llama    BPE of SentencePiece: the pair that makes the token of the highest score is merged first; bytes for
         characters that are no tokens
t5       unigram model of SentencePiece: the tokens of the highest total score
bert     WordPiece: the longest token that a word begins with, again and again
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from ..ir import DiagnosticError
from ..runtime.records import dataclass
from .charsmap import CharsMap
from .packages import needed
from .pieces import SPACE, Pieces, byte_level, sentencepiece, word_piece
from .splitting import SPLITTINGS
from .vocabulary import (
    BYTE,
    CONTROL,
    END_OF_TURN,
    NORMAL,
    TEMPLATE_NAMES,
    UNKNOWN,
    USER_DEFINED,
    RawVocabulary,
    Vocabulary,
)

CONTINUED: Final = "##"
"""Prefix of tokens that continue a word, in WordPiece."""
_LONGEST_WORD: Final = 100
"""Number of characters of a word above which WordPiece takes it for unknown."""


@dataclass(frozen=True, slots=True)
class _Made:
    """Tokenizer without special tokens; whether texts begin with "bos" and end with "eos" unless the file tells."""

    core: Any
    add_bos: bool = False
    add_eos: bool = False
    add_sep: bool = False
    renumbered: Mapping[int, int] | None = None


def assemble(raw: RawVocabulary) -> Vocabulary:
    """Return the tokenizer of a vocabulary.

    Raises DiagnosticError for one that contradicts itself (E6011) or has an unknown algorithm or pre-tokenizer (E6012),
    and ImportError without the package ``tokenizers``.
    """
    package = needed("tokenizers", "a tokenizer")
    make = ALGORITHMS.get(raw.algorithm)
    if make is None:
        note = f"found {raw.algorithm!r}, expected one of {', '.join(ALGORITHMS)}"
        raise raw.unsupported("the algorithm of the tokenizer is not known", note)
    try:
        made = make(package, raw)
    except DiagnosticError:
        raise
    except Exception as error:  # noqa: BLE001 (the package raises nothing more special)
        raise raw.broken(f"the vocabulary cannot be used: {error}") from None
    roles, core = raw.roles, made.core
    special, added, ends = _named_tokens(raw)
    plain = [text for index, text in added.items() if text and index not in special]
    core.add_tokens([_added(package, text, False) for text in plain])
    core.add_special_tokens([_added(package, text, True) for text in special.values() if text])
    _surround(package, raw, made)
    renumbered = made.renumbered and {core.token_to_id(raw.tokens[index]): index for index in made.renumbered}
    convert = {"gpt2": byte_level, "bert": word_piece}.get(raw.algorithm, sentencepiece)
    pieces = Pieces(raw.tokens, convert, frozenset({*special, *added}))
    prefix = raw.algorithm == "bert" or (raw.add_space_prefix and raw.algorithm != "gpt2")
    named = {TEMPLATE_NAMES[role]: raw.tokens[index] for role, index in roles.items() if role in TEMPLATE_NAMES}
    bos, eos = roles.get("bos", roles.get("cls")), roles.get("eos", roles.get("separator"))
    space = "each" if prefix else ""
    try:
        normalize = CharsMap(raw.charsmap) if raw.charsmap else None
    except ValueError as error:
        raise raw.broken(f"the normalizer of the vocabulary is broken: {error}") from None
    return Vocabulary(core, pieces, special, bos, eos, ends, named, raw.templates, space, normalize, renumbered)


def _named_tokens(raw: RawVocabulary) -> tuple[dict[int, str], dict[int, str], frozenset[int]]:
    """Return control tokens, tokens added by users, and the ids that end an answer.

    Files of old converters do not tell the types of tokens: what begins or ends a text is a control token there, too.
    """
    tokens, roles = raw.tokens, raw.roles
    special = {index: tokens[index] for index in raw.of_type(CONTROL, UNKNOWN)}
    added = {index: tokens[index] for index in raw.of_type(USER_DEFINED)}
    ends = {index for index, text in {**special, **added}.items() if text in END_OF_TURN}
    ends.update(roles[role] for role in ("eos", "eot", "eom") if role in roles)
    begins = {roles[role] for role in ("bos", "cls", "separator") if role in roles}
    special.update({index: tokens[index] for index in ends | begins if raw.types[index] != BYTE})
    return special, added, frozenset(ends)


def _added(package: Any, text: str, special: bool) -> Any:
    return package.AddedToken(text, special=special, normalized=False)


def _surround(package: Any, raw: RawVocabulary, made: _Made) -> None:
    """Put the tokens around each text that the model expects there."""
    roles, tokens = raw.roles, raw.tokens

    def chosen(setting: bool | None, default: bool, *names: str) -> list[int]:
        wanted = default if setting is None else setting
        found = [roles[name] for name in names if name in roles]
        return found[:1] if wanted else []

    before = chosen(raw.add_bos, made.add_bos, "bos", "cls")
    sep = chosen(raw.add_sep, made.add_sep, "separator", "eos")
    after = sep or chosen(raw.add_eos, made.add_eos, "eos")
    if not before and not after:
        return
    template = [*(f"token{index}" for index in before), "$A", *(f"token{index}" for index in after)]
    names = [{"id": f"token{index}", "ids": [index], "tokens": [tokens[index]]} for index in {*before, *after}]
    made.core.post_processor = package.processors.TemplateProcessing(single=template, special_tokens=names)


def _ids(tokens: Sequence[str]) -> dict[str, int]:
    """Return the id of each token; of tokens with the same text, the first one."""
    ids = {token: index for index, token in enumerate(tokens)}
    if len(ids) < len(tokens):
        ids = {token: index for index, token in reversed(list(enumerate(tokens)))}
    return ids


def _byte_level_bpe(package: Any, raw: RawVocabulary) -> _Made:
    """Return byte-level BPE, as GPT-2 introduced it."""
    splitting = SPLITTINGS.get(raw.pre)
    if splitting is None:
        note = f"found {raw.pre!r}, expected one of {', '.join(SPLITTINGS)}"
        raise raw.unsupported("the pre-tokenizer of the vocabulary is not known", note)
    if raw.merges is None:
        raise raw.broken("the vocabulary has no merges", "byte-level BPE puts tokens together by merges")
    ids = _ids(raw.tokens)
    merges: list[tuple[str, str]] = []
    for index, merge in enumerate(raw.merges):
        blank = merge.find(" ", 1)
        if blank < 0 or blank == len(merge) - 1:
            raise raw.broken(f"merge {index} is no pair: {merge!r}", "expected two tokens with a blank between them")
        left, right = merge[:blank], merge[blank + 1 :]
        for token in (left, right, left + right):
            if token not in ids:
                raise raw.broken(
                    f"merge {index}, {merge!r}, needs the token {token!r}, which the vocabulary does not have"
                )
        merges.append((left, right))
    model = package.models.BPE(ids, merges, ignore_merges=splitting.whole_words)
    core = package.Tokenizer(model)
    split = package.pre_tokenizers.Split
    parts = [split(package.Regex(expression), "isolated") for expression in splitting.expressions]
    level = package.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.pre_tokenizer = package.pre_tokenizers.Sequence([*parts, level])
    return _Made(core, add_bos=splitting.add_bos)


def _scored_bpe(package: Any, raw: RawVocabulary) -> _Made:
    """Return the BPE of SentencePiece.

    A merge of two tokens has the score of the token that it makes, so that the list of merges is that of all pairs
    which make a token, the highest scores first.
    """
    order = np.argsort(-raw.scores, kind="stable")
    tokens = raw.tokens
    normal: list[int] = order[raw.types[order] == NORMAL].tolist()
    ordered = [tokens[index] for index in normal]
    parts = set(ordered)
    merges = [
        (left, right)
        for token in ordered
        for place in range(1, len(token))
        if (left := token[:place]) in parts and (right := token[place:]) in parts
    ]
    unknown = raw.roles.get("unknown")
    text = None if unknown is None else tokens[unknown]
    bytes_too = bool((raw.types == BYTE).any())
    core = package.Tokenizer(
        package.models.BPE(_ids(tokens), merges, byte_fallback=bytes_too, unk_token=text, fuse_unk=True)
    )
    core.normalizer = _normalizer(package, raw)
    return _Made(core, add_bos=True)


def _normalizer(package: Any, raw: RawVocabulary) -> Any:
    """Return the steps of SentencePiece's normalizer after its map of characters: blanks, which become U+2581."""
    replace, regex = package.normalizers.Replace, package.Regex
    steps: list[Any] = []
    if raw.remove_extra_whitespaces:
        steps += [replace(regex(r"\A +| +\z"), ""), replace(regex(" {2,}"), " ")]
    if raw.add_space_prefix:
        steps.append(package.normalizers.Prepend(SPACE))
    return package.normalizers.Sequence([*steps, replace(" ", SPACE)])


def _unigram(package: Any, raw: RawVocabulary) -> _Made:
    """Return the unigram model of SentencePiece.

    The package would find control tokens in texts of users. They get a name with a blank, which no text has by then,
    and are known by other ids, which are `renumbered`.
    """
    unknown = raw.roles.get("unknown", next(iter(raw.of_type(UNKNOWN)), None))
    if unknown is None:
        raise raw.broken("the vocabulary has no unknown token", "a unigram model needs one for other characters")
    if not np.isfinite(raw.scores).all():
        raise raw.broken("a score of the vocabulary is not a finite number")
    special, added, _ = _named_tokens(raw)
    hidden = {*special, *added, *(index for index, token in enumerate(raw.tokens) if not token)}
    names = [f" {index}" if index in hidden else token for index, token in enumerate(raw.tokens)]
    least = raw.scores[raw.types == NORMAL].min(initial=0.0)
    scores = np.where(raw.types == NORMAL, raw.scores, least).tolist()
    scored = list(zip(names, scores, strict=True))
    has_bytes = bool((raw.types == BYTE).any())
    core = package.Tokenizer(package.models.Unigram(scored, unknown, has_bytes))
    core.normalizer = _normalizer(package, raw)
    across = any(SPACE in token[1:] for index, token in enumerate(raw.tokens) if raw.types[index] == NORMAL)
    parts = [package.pre_tokenizers.Metaspace(SPACE, "never", split=not across)]
    if has_bytes:  # the text "<0x0A>" must not become the token of that byte
        parts.append(package.pre_tokenizers.Split(package.Regex("<(?=0x[0-9A-F]{2}>)"), "merged_with_previous"))
    core.pre_tokenizer = package.pre_tokenizers.Sequence(parts)
    return _Made(core, add_eos=True, renumbered=dict.fromkeys(hidden, 0))


def _word_piece(package: Any, raw: RawVocabulary) -> _Made:
    """Return WordPiece. In GGUF files, tokens that begin a word begin with U+2581, others continue one."""
    roles = raw.roles
    special, _, _ = _named_tokens(raw)
    names = [
        token if index in special else token.removeprefix(SPACE) if token.startswith(SPACE) else CONTINUED + token
        for index, token in enumerate(raw.tokens)
    ]
    unknown = raw.tokens[roles["unknown"]] if "unknown" in roles else "[UNK]"
    if unknown not in names:
        raise raw.broken(f"the vocabulary has no unknown token {unknown!r}", "WordPiece needs one for other words")
    model = package.models.WordPiece(_ids(names), unk_token=unknown, max_input_chars_per_word=_LONGEST_WORD)
    core = package.Tokenizer(model)
    lowercase = raw.lowercase
    if lowercase is None:
        lowercase = not _has_capitals(raw.tokens[index] for index in range(len(names)) if index not in special)
    core.normalizer = package.normalizers.BertNormalizer(lowercase=lowercase)
    core.pre_tokenizer = package.pre_tokenizers.BertPreTokenizer()
    return _Made(core, add_bos=True, add_sep=True)


def _has_capitals(tokens: Iterable[str]) -> bool:
    """True if a word of ASCII letters begins with a capital letter: the vocabulary tells them from small ones."""
    words = (token.removeprefix(SPACE) for token in tokens)
    return any(len(word) > 1 and word.isascii() and word.isalpha() and word[0].isupper() for word in words)


ALGORITHMS: Final = {"gpt2": _byte_level_bpe, "llama": _scored_bpe, "t5": _unigram, "bert": _word_piece}
"""Functions that make tokenizers, by the names of algorithms in GGUF files."""
