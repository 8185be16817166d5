"""Runner: a compiled model, its weights, and the cache of its sequences. It turns tokens into logits, and no more.

    first, second = runner.add(), runner.add()        new sequences
    logits = runner.step([(first, [1, 2, 3])])        (1, vocabulary): those of the token behind 3
    logits = runner.step([(first, [4]), (second, [7, 8])])

More tokens than the cache takes at once are passed in chunks.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, cast, final

import numpy as np
import tvm_ffi
from numpy.typing import NDArray

from ..runtime import VirtualMachine, get_global_func
from ..runtime.devices import cpu
from ..runtime.executable import Executable
from .interrupts import interrupted_later

Array: TypeAlias = "NDArray[Any]"

PAGE: Final = 16
"""Tokens of a page of the cache."""


class Limits(NamedTuple):
    """Sizes of a cache."""

    sequences: int
    tokens: int
    """Tokens of all sequences together."""
    chunk: int
    """Tokens of a step."""


@final
class Runner:
    """A model that runs. Not safe to be used by several threads at a time."""

    def __init__(self, executable: Executable, weights: Sequence[tvm_ffi.Tensor], limits: Limits) -> None:
        self.machine = VirtualMachine(executable, cpu())
        self.weights, self.limits = tuple(weights), limits
        sizes = [(size,) for size in (limits.sequences, -(-limits.tokens // PAGE) * PAGE, limits.chunk)]
        self.cache: Any = self.machine["create_cache"](*map(tvm_ffi.Shape, sizes))
        self._forward: Callable[..., Any] = self.machine["forward"]
        self._ids = itertools.count()
        self._lengths: dict[int, int] = {}

    @property
    @interrupted_later()
    def free_tokens(self) -> int:
        """Tokens for which the cache has pages left."""
        return PAGE * int(_builtin("attention_kv_cache_get_num_available_pages")(self.cache))

    def length(self, sequence: int) -> int:
        """Tokens of a sequence. Raises ValueError if there is no such sequence, as all methods do."""
        if sequence not in self._lengths:
            raise ValueError(f"there is no sequence {sequence}")
        return self._lengths[sequence]

    # ------------------------------------------------------------------------------------ sequences

    @interrupted_later()
    def add(self) -> int:
        """Return the number of a new, empty sequence. Raises ValueError if the cache has no place for one more."""
        number = next(self._ids)
        _builtin("kv_state_add_sequence")(self.cache, number)
        self._lengths[number] = 0
        return number

    @interrupted_later()
    def fork(self, parent: int, length: int | None = None) -> int:
        """Return a new sequence that begins as another one does; `length` None: with all of its tokens."""
        whole = self.length(parent)
        length = whole if length is None else length
        if not 0 <= length <= whole:
            raise ValueError(f"the sequence has {whole} tokens, and {length} of them are to be shared")
        number = next(self._ids)
        if length:
            _builtin("kv_state_fork_sequence")(self.cache, parent, number, length)
        else:
            _builtin("kv_state_add_sequence")(self.cache, number)
        self._lengths[number] = length
        return number

    @interrupted_later()
    def remove(self, sequence: int) -> None:
        """Forget a sequence."""
        self.length(sequence)
        _builtin("kv_state_remove_sequence")(self.cache, sequence)
        del self._lengths[sequence]

    @interrupted_later()
    def shorten(self, sequence: int, length: int) -> None:
        """Forget the tokens of a sequence behind the first `length`. Raises ValueError if it has fewer."""
        whole = self.length(sequence)
        more = whole - length
        if length < 0 or more < 0:
            raise ValueError(f"the sequence has {whole} tokens, and cannot be shortened to {length}")
        if more:
            _builtin("kv_state_popn")(self.cache, sequence, more)
            self._lengths[sequence] = length

    # ------------------------------------------------------------------------------------ tokens

    def step(self, batch: Sequence[tuple[int, Sequence[int]]], every: bool = False) -> Array:
        """Append tokens to sequences; return the logits (m, vocabulary), float32, behind the last one of each.

        `every`: behind all tokens, those of the first sequence first. Raises ValueError for an empty batch, a sequence
        that is named twice or gets no tokens, negative tokens, and if the cache has no pages for all tokens, and
        IndexError for a token outside of the vocabulary. After an error the sequences are as they were before; those of
        models with windows, whose old pages are gone, may have got tokens of the first chunks.
        """
        before = {sequence: self.length(sequence) for sequence, _ in batch}
        if not batch or len(before) < len(batch) or not all(len(tokens) for _, tokens in batch):
            raise ValueError("each sequence of a step is named once, and gets one token or more")
        results: list[Array] = []
        try:
            for part in self._chunks([(sequence, _numbers(tokens)) for sequence, tokens in batch]):
                logits = self._run(part, every)
                results.append(logits if every else logits[[done for *_, done in part]])
        except BaseException:
            for sequence, length in before.items():
                with contextlib.suppress(ValueError):  # a window has slid past
                    self.shorten(sequence, length)
            raise
        return results[0] if len(results) == 1 else np.concatenate(results)

    def _chunks(self, batch: Sequence[tuple[int, Array]]) -> Iterator[list[tuple[int, Array, bool]]]:
        """Cut a step into parts of at most as many tokens as the cache takes; the last of a sequence is marked."""
        part: list[tuple[int, Array, bool]] = []
        room = self.limits.chunk
        for sequence, tokens in batch:
            at = 0
            while at < len(tokens):
                taken = tokens[at : at + room]
                at, room = at + len(taken), room - len(taken)
                part.append((sequence, taken, at == len(tokens)))
                if not room:
                    yield part
                    part, room = [], self.limits.chunk
        if part:
            yield part

    @interrupted_later()
    def _run(self, part: Sequence[tuple[int, Array, bool]], every: bool) -> Array:
        counts = [len(tokens) for _, tokens, _ in part]
        tokens = np.concatenate([tokens for _, tokens, _ in part])
        last = np.arange(len(tokens), dtype=np.int32) if every else np.cumsum(counts, dtype=np.int32) - np.int32(1)
        sequences, lengths = (tvm_ffi.Shape(tuple(numbers)) for numbers in ([s for s, *_ in part], counts))
        _builtin("kv_state_begin_forward")(self.cache, sequences, lengths)
        for sequence, taken, _ in part:
            self._lengths[sequence] += len(taken)
        try:
            return np.from_dlpack(self._forward(tokens, last, self.cache, *self.weights))
        finally:
            _builtin("kv_state_end_forward")(self.cache)


def _numbers(tokens: Sequence[int]) -> Array:
    """Return tokens as an array of int32. Raises TypeError for what are no whole numbers, ValueError for negative."""
    try:
        numbers = np.fromiter(map(operator.index, tokens), np.int32, len(tokens))
    except OverflowError:
        raise ValueError("tokens are numbers from 0 to the size of the vocabulary") from None
    if numbers.min() < 0:
        raise ValueError(f"{numbers.min()} is no token: tokens are numbers from 0 on")
    return numbers


_functions: dict[str, Callable[..., Any]] = {}


def _builtin(name: str) -> Callable[..., Any]:
    """Return a builtin function of the machine."""
    if name not in _functions:
        _functions[name] = cast("Callable[..., Any]", get_global_func(f"vm.builtin.{name}"))
    return _functions[name]


__all__ = ["PAGE", "Limits", "Runner"]
