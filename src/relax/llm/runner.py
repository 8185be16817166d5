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
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, cast, final

import numpy as np
import tvm_ffi
from numpy.typing import NDArray

from ..runtime import VirtualMachine, get_global_func
from ..runtime.devices import cpu
from ..runtime.executable import Executable
from ..runtime.paged_kv_cache import PagedKVCache
from ..runtime.rnn_state import RNNState
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


class NoPages(ValueError):
    """The cache has no pages for new tokens; nothing was changed."""


@final
class Runner:
    """A model that runs. Not safe to be used by several threads at a time."""

    def __init__(
        self, executable: Executable, weights: Sequence[tvm_ffi.Tensor], limits: Limits,
        adapters: Mapping[str, Sequence[tvm_ffi.Tensor]] | None = None,
    ) -> None:  # fmt: skip
        self.machine = VirtualMachine(executable, cpu())
        self.inputs: tuple[Any, ...] = ()
        """Arguments of `forward` between the cache and the weights, such as the states of an encoder."""
        self.adapters = {name: tuple(matrices) for name, matrices in (adapters or {}).items()}
        """Matrices of adapters by name, as `forward_adapted` takes them."""
        self.weights, self.limits = tuple(weights), limits
        # One sequence more than callers may have: the conversation of the model itself, beside an engine's requests.
        sizes = [(size,) for size in (limits.sequences + 1, -(-limits.tokens // PAGE) * PAGE, limits.chunk)]
        self.cache: Any = self.machine["create_cache"](*map(tvm_ffi.Shape, sizes))
        self._forward: Callable[..., Any] = self.machine["forward"]
        self._adapted: Callable[..., Any] | None = self.machine["forward_adapted"] if self.adapters else None
        self._ids = itertools.count()
        self._lengths: dict[int, int] = {}
        self._discarded: deque[int] = deque()
        self._past: dict[int, list[int]] | None = {} if isinstance(self.cache, RNNState) else None
        """Tokens of the sequences of a recurrent model, whose states do not go back: they are computed again."""

    @property
    def is_recurrent(self) -> bool:
        """True for a recurrent model: its sequences are computed again from their beginning to be shortened."""
        return self._past is not None

    @property
    @interrupted_later()
    def free_tokens(self) -> int:
        """Tokens for which the cache has pages left; recurrent models take as many as a cache of this size would."""
        if self._past is not None:
            return max(self.limits.tokens - sum(self._lengths.values()), 0)
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
        self.remove_discarded()
        number = next(self._ids)
        _builtin("kv_state_add_sequence")(self.cache, number)
        self._lengths[number] = 0
        if self._past is not None:
            self._past[number] = []
        return number

    @interrupted_later()
    def add_with_prefix(self, tokens: Sequence[int], adapter: str | None = None) -> tuple[int, int]:
        """Return the number of a new sequence, and how many of `tokens` it has already, from `register`.

        One token at least is left to be computed. Raises ValueError if the cache has no place for one more.
        """
        if not isinstance(self.cache, PagedKVCache):
            return self.add(), 0
        self.remove_discarded()
        number = next(self._ids)
        shared = self.cache.add_sequence_with_prefix(number, self._named(tokens, adapter))
        self._lengths[number] = shared
        return number, shared

    def register(self, sequence: int, tokens: Sequence[int], adapter: str | None = None) -> None:
        """Say which tokens a sequence begins with: others that begin alike share its pages, even after its end."""
        self.length(sequence)
        if isinstance(self.cache, PagedKVCache):
            self.cache.register_tokens(sequence, self._named(tokens, adapter))

    def _named(self, tokens: Sequence[int], adapter: str | None) -> Any:
        """Return tokens as the cache knows them: other numbers for each adapter, whose keys and values differ."""
        number = 0 if adapter is None else 1 + list(self.adapters).index(adapter)
        return np.asarray(tokens, np.int64) + (number << 32)

    @interrupted_later()
    def fork(self, parent: int, length: int | None = None) -> int:
        """Return a new sequence that begins as another one does; `length` None: with all of its tokens.

        Raises NoPages if a recurrent model has no room to compute a part of the tokens again.
        """
        whole = self.length(parent)
        length = whole if length is None else length
        if not 0 <= length <= whole:
            raise ValueError(f"the sequence has {whole} tokens, and {length} of them are to be shared")
        if self._past is not None and length < whole:
            number = self.add()
            try:
                self._compute(number, self._past[parent][:length])
            except BaseException:
                self.remove(number)
                raise
            return number
        number = next(self._ids)
        if length:
            _builtin("kv_state_fork_sequence")(self.cache, parent, number, length)
        else:
            _builtin("kv_state_add_sequence")(self.cache, number)
        self._lengths[number] = length
        if self._past is not None:
            self._past[number] = [*self._past[parent]]
        return number

    @interrupted_later()
    def remove(self, sequence: int) -> None:
        """Forget a sequence."""
        self.length(sequence)
        _builtin("kv_state_remove_sequence")(self.cache, sequence)
        del self._lengths[sequence]
        if self._past is not None:
            del self._past[sequence]

    def discard(self, sequence: int) -> None:
        """Forget a sequence before the next one is added, or step is made.

        Any thread may call this at any time, garbage collection included. A sequence that there is not is ignored.
        """
        self._discarded.append(sequence)

    def remove_discarded(self) -> None:
        """Remove the sequences that were discarded."""
        while self._discarded:
            sequence = self._discarded.popleft()
            if sequence in self._lengths:
                self.remove(sequence)

    @interrupted_later()
    def shorten(self, sequence: int, length: int) -> None:
        """Forget the tokens of a sequence behind the first `length`. Raises ValueError if it has fewer."""
        whole = self.length(sequence)
        more = whole - length
        if length < 0 or more < 0:
            raise ValueError(f"the sequence has {whole} tokens, and cannot be shortened to {length}")
        if not more:
            return
        if self._past is None:
            _builtin("kv_state_popn")(self.cache, sequence, more)
            self._lengths[sequence] = length
            return
        before, self._past[sequence], self._lengths[sequence] = self._past[sequence][:length], [], 0
        _builtin("kv_state_remove_sequence")(self.cache, sequence)
        _builtin("kv_state_add_sequence")(self.cache, sequence)
        self._compute(sequence, before)

    def _compute(self, sequence: int, tokens: Sequence[int]) -> None:
        """Append tokens to an empty sequence of a recurrent model."""
        if tokens:
            for part in self._chunks([(sequence, _numbers(tokens))], [1]):
                self._run(part, None)

    # ------------------------------------------------------------------------------------ tokens

    def check_adapter(self, name: str | None) -> None:
        """Raise ValueError if there is no adapter of a name; None stands for the model alone."""
        if name is not None and name not in self.adapters:
            raise ValueError(f"the model has no adapter {name!r}; there are {', '.join(self.adapters) or 'none'}")

    def step(
        self, batch: Sequence[tuple[int, Sequence[int]]], every: bool = False, *, rows: Sequence[int] | None = None,
        adapter: str | None = None,
    ) -> Array:  # fmt: skip
        """Append tokens to sequences; return the logits (m, vocabulary), float32, behind the last one of each.

        `every`: behind all tokens, those of the first sequence first. `rows`: behind that many of the last tokens of
        each sequence. All tokens of the step are computed with `adapter`. Raises ValueError for an empty batch, a
        sequence that is named twice or gets no tokens, negative tokens, and an unknown adapter, NoPages if the cache
        has no pages for all tokens, and IndexError for a token outside of the vocabulary. After an error the sequences
        are as they were before; those of models with windows, whose old pages are gone, may have got tokens of the
        first chunks.
        """
        self.check_adapter(adapter)
        self.remove_discarded()
        before = {sequence: self.length(sequence) for sequence, _ in batch}
        if not batch or len(before) < len(batch) or not all(len(tokens) for _, tokens in batch):
            raise ValueError("each sequence of a step is named once, and gets one token or more")
        counts = [len(tokens) for _, tokens in batch]
        wanted = counts if every else [1] * len(batch) if rows is None else [*rows]
        if len(wanted) != len(batch) or not all(0 <= row <= count for row, count in zip(wanted, counts, strict=True)):
            raise ValueError(f"rows are from 0 to the number of tokens of each sequence, {counts}, found {wanted}")
        results: list[Array] = []
        try:
            for part in self._chunks([(sequence, _numbers(tokens)) for sequence, tokens in batch], wanted):
                results.append(self._run(part, adapter))
        except BaseException:
            for sequence, length in before.items():
                with contextlib.suppress(ValueError):  # a window has slid past
                    self.shorten(sequence, length)
            raise
        return results[0] if len(results) == 1 else np.concatenate(results)

    def _chunks(
        self, batch: Sequence[tuple[int, Array]], wanted: Sequence[int]
    ) -> Iterator[list[tuple[int, Array, int]]]:
        """Cut a step into parts of as many tokens as the cache takes, with the rows that each has of `wanted`."""
        part: list[tuple[int, Array, int]] = []
        room = self.limits.chunk
        for (sequence, tokens), rows in zip(batch, wanted, strict=True):
            at, first = 0, len(tokens) - rows
            while at < len(tokens):
                taken = tokens[at : at + room]
                at, room = at + len(taken), room - len(taken)
                part.append((sequence, taken, min(max(at - first, 0), len(taken))))
                if not room:
                    yield part
                    part, room = [], self.limits.chunk
        if part:
            yield part

    @interrupted_later()
    def _run(self, part: Sequence[tuple[int, Array, int]], adapter: str | None) -> Array:
        counts = [len(tokens) for _, tokens, _ in part]
        tokens = np.concatenate([tokens for _, tokens, _ in part])
        ends = np.cumsum(counts, dtype=np.int32)
        wanted = [rows for *_, rows in part]
        last = np.concatenate([np.arange(end - n, end, dtype=np.int32) for n, end in zip(wanted, ends, strict=True)])
        sequences, lengths = (tvm_ffi.Shape(tuple(numbers)) for numbers in ([s for s, *_ in part], counts))
        if self._past is not None and self.free_tokens < len(tokens):
            raise NoPages(f"the states have room for {self.free_tokens} more tokens, found {len(tokens)}")
        try:
            _builtin("kv_state_begin_forward")(self.cache, sequences, lengths)
        except ValueError as error:  # all else that it refuses was refused above
            raise NoPages(str(error)) from None
        for sequence, taken, _ in part:
            self._lengths[sequence] += len(taken)
            if self._past is not None:
                self._past[sequence] += taken.tolist()
        try:
            if self._past is not None:
                return np.from_dlpack(self._forward(tokens, last, self.cache, ends, *self.weights)[0])
            if adapter is None or self._adapted is None:
                return np.from_dlpack(self._forward(tokens, last, self.cache, *self.inputs, *self.weights))
            return np.from_dlpack(self._adapted(tokens, last, self.cache, *self.adapters[adapter], *self.weights))
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


__all__ = ["PAGE", "Limits", "NoPages", "Runner"]
