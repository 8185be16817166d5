"""Drafters: proposers of tokens that a model checks in one step instead of computing them one by one.

    model.generate(prompt, drafter=PromptLookup())          what followed the same words before
    model.generate(prompt, drafter=DraftModel(smaller))     what a smaller model says

Texts, and their distribution, are those of the model alone (`relax.llm.drafting`).

Source: Saxena, Prompt Lookup Decoding, 2023; Leviathan et al., Fast Inference from Transformers via Speculative
Decoding, 2023.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final, TypeVar, final

from ...runtime.records import dataclass
from ..drafting import Drafter, Pace
from ..language_model import LanguageModel
from ..runner import PAGE, Runner

_COMPARED: Final = 16
"""Earlier occurrences of the last tokens that are compared with the end of a history, the latest first."""


# ------------------------------------------------------------------------------ prompt look-up


@dataclass
class _Text:
    """Tokens of a request, with the places behind each run of `shortest` tokens."""

    pace: Pace
    tokens: list[int] = field(default_factory=list[int])
    places: dict[tuple[int, ...], list[int]] = field(default_factory=dict[tuple[int, ...], list[int]])


@final
class PromptLookup:
    """Propose the tokens that followed the last tokens of a history where these stood before.

    Of the earlier places the one with the longest equal end, up to `longest` tokens, is taken, and of several the
    latest; fewer than `shortest` equal tokens are no reason to propose. `tokens` is the largest number of tokens
    proposed at a time. Good for answers that repeat their prompts: summaries, code that is changed, JSON. Raises
    ValueError for numbers below 1, and `longest` below `shortest`.
    """

    def __init__(self, longest: int = 8, shortest: int = 2, tokens: int = 7) -> None:
        if not 1 <= operator.index(shortest) <= operator.index(longest):
            raise ValueError(f"shortest is {shortest} and longest {longest}, expected 1 <= shortest <= longest")
        self.longest, self.shortest, self.tokens = longest, shortest, _count(tokens)
        self._texts: dict[int, _Text] = {}

    def check(self, model: LanguageModel) -> None:
        """Raise ValueError for a recurrent model."""
        _check_shortens(model)

    def start(self, request: int, prompt: Sequence[int]) -> None:
        """Begin a request. Raises ValueError for a number in use."""
        _unused(request, self._texts)
        text = self._texts[request] = _Text(Pace(self.tokens))
        self._read(text, prompt)

    def propose(self, batch: Sequence[tuple[int, Sequence[int]]]) -> list[list[int]]:
        """Return the tokens that followed before, for each history. Raises ValueError for a request not started."""
        return [self._proposed(_known(request, self._texts), history) for request, history in batch]

    def accepted(self, request: int, proposed: int, accepted: int) -> None:
        """Tell how many of the tokens that were proposed last became part of the answer."""
        _known(request, self._texts).pace.accepted(proposed, accepted)

    def stop(self, request: int) -> None:
        """Forget a request. One that was not started is ignored."""
        self._texts.pop(request, None)

    def _read(self, text: _Text, history: Sequence[int]) -> None:
        """Append the new tokens of a history, and note which tokens stand before each."""
        tokens, size = text.tokens, self.shortest
        for at in range(len(tokens), len(history)):
            if at >= size:
                text.places.setdefault(tuple(tokens[at - size : at]), []).append(at)
            tokens.append(history[at])

    def _proposed(self, text: _Text, history: Sequence[int]) -> list[int]:
        self._read(text, history)
        tokens, end = text.tokens, len(history)
        places = text.places.get(tuple(tokens[-self.shortest :]), ())
        count = text.pace.next() if places else 0
        if not count:
            return []
        at = max(places[: -_COMPARED - 1 : -1], key=lambda place: self._equal(tokens, place, end))
        found = tokens[at : at + count]
        while len(found) < count:  # the text repeats itself: what is proposed goes on likewise
            found.append(found[len(found) - (end - at)])
        return found

    def _equal(self, tokens: Sequence[int], place: int, end: int) -> int:
        """Return how many tokens before a place equal those at the end, from `shortest` to `longest`."""
        length, most = self.shortest, min(self.longest, place)
        while length < most and tokens[place - length - 1] == tokens[end - length - 1]:
            length += 1
        return length


# ------------------------------------------------------------------------------ a smaller model


@dataclass
class _Draft:
    """Sequence of the smaller model for a request."""

    pace: Pace
    sequence: int | None = None
    """None: not begun, or dropped for want of room."""
    fed: list[int] = field(default_factory=list[int])
    """Tokens that the sequence holds."""
    known: int = 0
    """Number of these that belong to the history for certain."""


@final
class DraftModel:
    """Propose the likeliest tokens of a smaller model with the same vocabulary, `tokens` at a time at most.

    The model's cache holds a sequence for each request. Requests that find no room in it get no proposals. Other
    users of the model wait while it drafts. Raises ValueError for `tokens` below 1.
    """

    def __init__(self, model: LanguageModel, tokens: int = 4) -> None:
        self.model, self.tokens = model, _count(tokens)
        self._drafts: dict[int, _Draft] = {}

    def __del__(self) -> None:
        for request in [*getattr(self, "_drafts", ())]:
            self.stop(request)

    def check(self, model: LanguageModel) -> None:
        """Raise ValueError for a model with another vocabulary, and if one of both is recurrent."""
        if model is self.model:
            raise ValueError("a model cannot draft for itself: load it twice, or take a smaller one")
        _check_shortens(self.model)
        _check_shortens(model)
        mine, other = (_spelled(each) for each in (self.model, model))
        if len(mine) != len(other):
            raise ValueError(f"the drafting model has {len(mine)} tokens, the model {len(other)}: vocabularies differ")
        for index, (token, expected) in enumerate(zip(mine, other, strict=True)):
            if token != expected:
                found = f"{token!r} for the drafting model, and {expected!r} for the model"
                raise ValueError(f"the token {index} is {found}: vocabularies differ")

    def start(self, request: int, prompt: Sequence[int]) -> None:
        """Begin a request; its prompt is computed when tokens are first proposed. Raises ValueError for one in use."""
        _unused(request, self._drafts)
        self._drafts[request] = _Draft(Pace(self.tokens))

    def propose(self, batch: Sequence[tuple[int, Sequence[int]]]) -> list[list[int]]:
        """Return the smaller model's likeliest tokens for each history. Raises ValueError for a request not started."""
        drafts = [_known(request, self._drafts) for request, _ in batch]
        found: list[list[int]] = [[] for _ in batch]
        with self.model.lock:
            self._runner.remove_discarded()
            inputs: dict[int, list[int]] = {}
            wanted: dict[int, int] = {}
            for index, (draft, (_, history)) in enumerate(zip(drafts, batch, strict=True)):
                wanted[index] = min(draft.pace.next(), self.model.context - len(history))
                if wanted[index] > 0:
                    inputs[index] = self._behind(draft, history)
            while inputs := self._fitting(drafts, inputs):
                for index, token in self._likeliest(drafts, inputs).items():
                    found[index].append(token)
                inputs = {index: found[index][-1:] for index in inputs if len(found[index]) < wanted[index]}
        return found

    def accepted(self, request: int, proposed: int, accepted: int) -> None:
        """Tell how many of the tokens that were proposed last became part of the answer."""
        _known(request, self._drafts).pace.accepted(proposed, accepted)

    def stop(self, request: int) -> None:
        """Forget a request. One that was not started is ignored."""
        draft = self._drafts.pop(request, None)
        if draft is not None and draft.sequence is not None:
            self._runner.discard(draft.sequence)  # not removed now: streams are closed wherever they are collected

    @property
    def _runner(self) -> Runner:
        return self.model.runner

    def _behind(self, draft: _Draft, history: Sequence[int]) -> list[int]:
        """Let a sequence hold the beginning of a history only; return the tokens that it lacks, one at least."""
        most = min(len(draft.fed), len(history) - 1)
        same = min(draft.known, most)
        while same < most and draft.fed[same] == history[same]:
            same += 1
        if draft.sequence is not None and same < len(draft.fed):
            try:
                self._runner.shorten(draft.sequence, same)
            except ValueError:  # a window has slid past these tokens
                self._drop(draft)
                same = 0
            del draft.fed[same:]
        draft.known = same
        return [*history[same:]]

    def _fitting(self, drafts: Sequence[_Draft], inputs: Mapping[int, list[int]]) -> dict[int, list[int]]:
        """Return the tokens that the cache has room for, in sequences that exist; drop the sequences of others."""
        fitting: dict[int, list[int]] = {}
        pages = self._runner.free_tokens // PAGE
        for index, tokens in inputs.items():
            draft = drafts[index]
            more = -(-(len(draft.fed) + len(tokens)) // PAGE) + len(draft.fed) // -PAGE
            if draft.sequence is None and more <= pages:
                with contextlib.suppress(ValueError):  # as many sequences as the cache takes
                    draft.sequence = self._runner.add()
            if draft.sequence is not None and more <= pages:
                fitting[index] = tokens
                pages -= more
            else:
                self._drop(draft)
                draft.pace.rest()
        return fitting

    def _likeliest(self, drafts: Sequence[_Draft], inputs: Mapping[int, list[int]]) -> dict[int, int]:
        """Append tokens to the sequences of some drafts; return the likeliest next token of each."""
        batch: list[tuple[int, list[int]]] = []
        for index, tokens in inputs.items():
            sequence = drafts[index].sequence
            assert sequence is not None
            batch.append((sequence, tokens))
        rows = self._runner.step(batch)[:, : _size(self.model)].argmax(axis=1)
        for index, tokens in inputs.items():
            drafts[index].fed += tokens
        return {index: int(row) for index, row in zip(inputs, rows, strict=True)}

    def _drop(self, draft: _Draft) -> None:
        """Forget the sequence of a request; the next proposal begins it anew."""
        if draft.sequence is not None:
            self._runner.remove(draft.sequence)
        draft.sequence, draft.fed, draft.known = None, [], 0


# ------------------------------------------------------------------------------ shared parts

_State = TypeVar("_State")


def _count(tokens: int) -> int:
    if operator.index(tokens) < 1:
        raise ValueError(f"tokens is {tokens}, expected 1 or more")
    return operator.index(tokens)


def _check_shortens(model: LanguageModel) -> None:
    """Raise ValueError for a recurrent model, which computes all tokens again where a proposal is refused."""
    if model.runner.is_recurrent:
        raise ValueError("recurrent models take no drafter: their states do not go back to where a proposal is refused")


def _unused(request: int, states: Mapping[int, Any]) -> None:
    if request in states:
        raise ValueError(f"the request {request} has been started already")


def _known(request: int, states: Mapping[int, _State]) -> _State:
    if request not in states:
        raise ValueError(f"there is no request {request}")
    return states[request]


def _size(model: LanguageModel) -> int:
    """Return the number of tokens that stand for texts; rows of logits beyond fill up the matrix."""
    return model.tokenizer.vocabulary_size if model.has_tokenizer else model.vocabulary


def _spelled(model: LanguageModel) -> Sequence[bytes | int]:
    """Return the tokens of a model: their bytes, or their numbers for a model without a tokenizer."""
    numbers = range(_size(model))
    return [*map(model.tokenizer.token, numbers)] if model.has_tokenizer else numbers


__all__ = ["DraftModel", "Drafter", "PromptLookup"]
