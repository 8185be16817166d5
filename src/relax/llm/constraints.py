"""Constrained output: masks of the tokens that keep a text within a JSON schema, a regular expression or a grammar.

    constraint = constraint_of(tokenizer, regex="[0-9]+")
    token = sampler.sample(logits, history, allowed=constraint.mask())
    constraint.accept(token)

The package ``llguidance`` follows the grammar; this module gives it a tokenizer's tokens, and raises its reasons as
errors.
"""

from __future__ import annotations

import json
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from ..runtime.forks import hold_at_fork
from .packages import needed
from .tokenizer import Tokenizer

Mask: TypeAlias = "NDArray[np.bool_]"

_PURPOSE: Final = "constrained output"
_SPACES: Final = r"[ \n\t]{1,40}"
"""White space between the parts of JSON. Without a limit, a model may write blanks for ever."""
_MARK: Final = "\x02"
"""Character that no token of words has, put before a text so that the text does not begin one."""


@final
class Constraint:
    """Grammar of one answer, advanced token by token; made by `constraint_of`."""

    def __init__(self, matcher: Any, tokenizer: Tokenizer, name: str) -> None:
        self._matcher, self._size, self._name = matcher, tokenizer.vocabulary_size, name
        self._ends = np.array(sorted(tokenizer.eot), np.intp)
        self._mask: Mask | None = None
        self._is_begun = False

    @property
    def is_complete(self) -> bool:
        """True if the text may end here."""
        return bool(self._matcher.is_accepting())

    @property
    def is_finished(self) -> bool:
        """True if the text is complete, and nothing but its end may follow. Raises ValueError as `mask` does."""
        if self._matcher.is_stopped():
            self._check()
            return True
        return self.is_complete and np.count_nonzero(self.mask()) == np.count_nonzero(self.mask()[self._ends])

    def mask(self) -> Mask:
        """Return which tokens may follow: booleans of shape (vocabulary,), read-only.

        Tokens that end an answer may follow a complete text only. Raises ValueError if the vocabulary has no token that
        may follow an incomplete text, and if the grammar is too ambiguous to be followed.
        """
        if self._mask is None:
            packed = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
            bits: Any = np.unpackbits(packed, count=self._size, bitorder="little")
            mask: Mask = bits.view(np.bool_)
            self._check()
            if not self.is_complete and not mask.any():
                raise self._stuck()
            mask.flags.writeable = False
            self._mask = mask
        return self._mask

    def accept(self, token: int) -> None:
        """Append a token to the text. Raises ValueError, leaving the text as it was, for one that may not follow."""
        if not 0 <= token < self._size or not self.mask()[token]:
            raise ValueError(f"the token {token} may not follow: the text would not match the {self._name}")
        self._mask, self._is_begun = None, True
        if not self._matcher.consume_token(token):
            self._check()

    def forced(self) -> list[int]:
        """Return the tokens that follow in any case; none where there is a choice, or none is left."""
        return [token for token in self._matcher.compute_ff_tokens() if token < self._size]

    def _check(self) -> None:
        if self._matcher.is_error():
            reason = _reason(self._matcher)
            if reason.startswith(_NO_EXTENSION):
                raise self._stuck()
            raise ValueError(f"the text cannot follow the {self._name}: {reason}")

    def _stuck(self) -> ValueError:
        """Return the error of a text that is incomplete, and that no token continues."""
        if self._is_begun:
            return ValueError(f"no token of the vocabulary continues the text as the {self._name} says")
        return ValueError(f"the {self._name} allows no text: no token of the vocabulary begins one")


_NO_EXTENSION: Final = "NoExtension"
"""Prefix of llguidance's message about a text that no token continues."""


def constraint_of(
    tokenizer: Tokenizer, *, json_schema: Mapping[str, Any] | bool | None = None, regex: str | None = None,
    grammar: str | None = None,
) -> Constraint | None:  # fmt: skip
    """Return the constraint of an answer; None if no form of one is given.

    Parameters
    ----------
    tokenizer
        The model's tokenizer. Its vocabulary is prepared at the first constraint (0.1 s for 50,000 tokens) and kept.
    json_schema
        Schema of the JSON that the answer is. True: any object.
    regex
        Regular expression that the whole answer matches, without look-around and back-references.
    grammar
        Grammar in Lark's notation, with the rule ``start``.

    Raises ValueError for several forms at a time, for a schema, expression or grammar that is wrong, uses what
    llguidance does not know, or allows no text, and ImportError without the package ``llguidance``.
    """
    forms = {"json_schema": json_schema, "regex": regex, "grammar": grammar}
    names = [name for name, form in forms.items() if form is not None]
    if not names:
        return None
    if len(names) > 1:
        raise ValueError(f"an answer has one constraint, found {' and '.join(names)}")
    name, form = names[0], forms[names[0]]
    package = needed("llguidance", _PURPOSE)
    text = _schema(package, form) if name == "json_schema" else _text(package, name, form)
    guide = _guide(tokenizer)
    matcher = package.LLMatcher(guide, text, log_level=0)
    if matcher.is_error():
        raise ValueError(f"the {name} is refused: {_reason(matcher)}")
    constraint = Constraint(matcher, tokenizer, name)
    constraint.mask()  # a constraint that allows nothing is refused now, not in the middle of an answer
    return constraint


def _schema(package: Any, form: Any) -> str:
    """Return llguidance's grammar of a schema."""
    if isinstance(form, bool):
        if not form:
            raise ValueError("the json_schema is refused: False allows no value")
        form = {"type": "object"}
    if not isinstance(form, Mapping):
        raise TypeError(f"a json_schema is a mapping, or True, not {type(form).__name__}")
    try:
        text = json.dumps(form, default=_mapping)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"the json_schema is no JSON: {error}") from None
    return package.LLMatcher.grammar_from_json_schema(text, defaults={"whitespace_pattern": _SPACES})


def _mapping(value: object) -> dict[Any, Any]:
    """Return a mapping as the dict that JSON needs."""
    if isinstance(value, Mapping):
        return {**value}
    raise TypeError(f"{value!r} has no form in JSON")


def _text(package: Any, name: str, form: Any) -> str:
    """Return llguidance's grammar of an expression, or of a grammar."""
    if not isinstance(form, str):
        raise TypeError(f"a {name} is a text, not {type(form).__name__}")
    convert = package.LLMatcher.grammar_from_regex if name == "regex" else package.LLMatcher.grammar_from_lark
    return convert(form)


def _reason(matcher: Any) -> str:
    """Return the reason of an error, without the state and the addresses that follow it."""
    text: str = matcher.get_error()
    for end in ("<backtrace>", "<state>", "<grammar>"):
        text = text.partition(end)[0]
    return text.strip() or "llguidance gives no reason"


# ------------------------------------------------------------------------------ tokenizers


class _Words:
    """Tokens of a tokenizer as llguidance asks for them. A token behind the vocabulary ends texts in any case."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        size = tokenizer.vocabulary_size
        self.tokens: Sequence[bytes] = [*map(tokenizer.token, range(size)), b"<end of the text>"]
        self.special_token_ids: Sequence[int] = sorted({*tokenizer.special, *tokenizer.eot, size})
        self.eos_token_id, self.bos_token_id = size, tokenizer.bos
        self._tokenizer = tokenizer
        special = frozenset(self.special_token_ids)
        self._ids = {data: index for index, data in enumerate(self.tokens) if data and index not in special}
        self._longest = max(map(len, self._ids), default=0)

    def __call__(self, data: bytes | str) -> list[int]:
        """Return the tokens of exactly these bytes, UTF-8, which need not be at the beginning of a text."""
        data = data.encode() if isinstance(data, str) else data
        tokens = self._tokenizer.encode(_MARK + data.decode("utf-8", "replace"), add_special=False)
        before, count = b"", 0
        while count < len(tokens) and before.lstrip() != _MARK.encode():
            before += self.tokens[tokens[count]]
            count += 1
        found = tokens[count:]
        return found if b"".join(self.tokens[token] for token in found) == data else [*self._greedy(data)]

    def _greedy(self, data: bytes) -> Iterator[int]:
        """Yield the longest tokens from the left, up to a byte that no token has."""
        at = 0
        while at < len(data):
            beginnings = (data[at : at + length] for length in range(min(self._longest, len(data) - at), 0, -1))
            part = next((part for part in beginnings if part in self._ids), None)
            if part is None:
                return
            yield self._ids[part]
            at += len(part)


_lock: Final = threading.Lock()
"""Guards `_guides`."""
hold_at_fork(_lock)
_guides: Final[weakref.WeakKeyDictionary[Tokenizer, Any]] = weakref.WeakKeyDictionary()
"""Prepared vocabularies. They refer to no key: Python's collector sees no reference from llguidance's objects."""


def _guide(tokenizer: Tokenizer) -> Any:
    """Return llguidance's form of a tokenizer, made once."""
    package = needed("llguidance", _PURPOSE)
    with _lock:
        if tokenizer not in _guides:
            words = _Words(tokenizer.copy())
            ends = [words.eos_token_id, *sorted(tokenizer.eot)]
            _guides[tokenizer] = package.LLTokenizer(
                package.TokenizerWrapper(words), n_vocab=len(words.tokens), eos_token=ends
            )
        return _guides[tokenizer]


__all__ = ["Constraint", "constraint_of"]
