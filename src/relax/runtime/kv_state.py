"""State of language models by sequence: what `vm.builtin.kv_state_*` call, for KV caches and RNN states alike.

    kv_state_clear(state);  kv_state_add_sequence(state, seq);  kv_state_remove_sequence(state, seq)
    kv_state_fork_sequence(state, parent, child, pos=-1);  kv_state_popn(state, seq, count)
    kv_state_begin_forward(state, seq_ids, append_lengths, token_tree_parent?);  kv_state_end_forward(state)

A program runs between begin and end; it reads and writes the state of the sequences named at the beginning. Names,
arguments and results are TVM's. What is refused leaves the state unchanged.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final

import tvm_ffi

from .builtin_table import Effects, builtin
from .closure import Closure, closure_of
from .values import PackedFunc, kind_of

WRITES: Final = Effects(reads=(), writes=(0,))
"""The effects of a builtin that changes a state, its first argument, and looks at no other tensor."""


class KVState(ABC):
    """State of several sequences, each with an id that the program chooses."""

    __slots__ = ("__weakref__",)

    @abstractmethod
    def clear(self) -> None:
        """Remove all sequences, and end a forward that is under way."""

    @abstractmethod
    def add_sequence(self, seq: int) -> None:
        """Add an empty sequence. Raises ValueError if there is one of this id, or no room for another."""

    @abstractmethod
    def remove_sequence(self, seq: int) -> None:
        """Remove a sequence. Raises ValueError if there is none of this id."""

    @abstractmethod
    def fork_sequence(self, parent: int, child: int, pos: int = -1) -> None:
        """Add a sequence that begins with the first `pos` tokens of another one (-1: all of them).

        Raises ValueError for ids that are unknown or taken, and a position that the parent does not have.
        """

    @abstractmethod
    def popn(self, seq: int, count: int) -> None:
        """Forget the last `count` tokens of a sequence. Raises ValueError if it does not hold as many."""

    @abstractmethod
    def begin_forward(
        self, seq_ids: Sequence[int], append_lengths: Sequence[int], tree_parents: Sequence[int] | None = None
    ) -> None:
        """Make room for new tokens of some sequences, whose positions begin where each of them ends.

        Parameters
        ----------
        seq_ids, append_lengths
            The sequences of the batch, and the number of new tokens of each.
        tree_parents
            For each new token the index of its parent among those of its sequence, -1 for a root; None: a chain.

        Raises
        ------
        ValueError
            For an unknown or repeated id, a length that is not positive, and if there is no room.
        """

    @abstractmethod
    def end_forward(self) -> None:
        """End the forward that is under way, if there is one."""


class PagedState(KVState):
    """Base class of `paged_kv_cache.PagedKVCache` alone, which is loaded when the first cache is made."""

    __slots__ = ()


def _checked(state: Any) -> KVState:
    if not isinstance(state, KVState):
        raise TypeError(f"expected a state of sequences, found {kind_of(state)}")
    return state


def integer(value: Any, subject: str) -> int:
    """Return an argument that must be an integer. Raises TypeError for another value."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"expected an integer as {subject}, found {kind_of(value)}")
    return value


def integers(value: Any, subject: str) -> tuple[int, ...]:
    """Return the numbers of a shape, a tuple or a list of integers. Raises TypeError for another value."""
    if not isinstance(value, tuple | list | tvm_ffi.Array):
        raise TypeError(f"expected a shape as {subject}, found {kind_of(value)}")
    return tuple(int(integer(number, subject)) for number in value)  # pyright: ignore[reportUnknownVariableType]


def direct_callable(value: Any, subject: str) -> Callable[..., Any]:
    """Return a function of the machine as something that Python calls with tensors, as directly as possible.

    Raises TypeError for another value.
    """
    if isinstance(value, PackedFunc):
        value = value.function
    if isinstance(value, tvm_ffi.Function):
        closure = closure_of(value)
        if closure is None:
            return value
        value = closure
    if not isinstance(value, Closure):
        raise TypeError(f"expected a function as {subject}, found {kind_of(value)}")
    if isinstance(value.target, tvm_ffi.Function) and not value.captured:
        return value.target
    closure = value
    return lambda *tensors: closure.machine.call_raw(closure, tensors)


@builtin("vm.builtin.kv_state_clear", WRITES, pure=False)
def kv_state_clear(state: Any) -> tuple[()]:
    """Remove all sequences."""
    _checked(state).clear()
    return ()


@builtin("vm.builtin.kv_state_add_sequence", WRITES, pure=False)
def kv_state_add_sequence(state: Any, seq: Any) -> tuple[()]:
    """Add an empty sequence: see `KVState.add_sequence`."""
    _checked(state).add_sequence(integer(seq, "the id of a sequence"))
    return ()


@builtin("vm.builtin.kv_state_remove_sequence", WRITES, pure=False)
def kv_state_remove_sequence(state: Any, seq: Any) -> tuple[()]:
    """Remove a sequence: see `KVState.remove_sequence`."""
    _checked(state).remove_sequence(integer(seq, "the id of a sequence"))
    return ()


@builtin("vm.builtin.kv_state_fork_sequence", WRITES, pure=False)
def kv_state_fork_sequence(state: Any, parent: Any, child: Any, pos: Any = -1) -> tuple[()]:
    """Add a sequence that begins as another one does: see `KVState.fork_sequence`."""
    ids = integer(parent, "the id of the parent"), integer(child, "the id of the child")
    _checked(state).fork_sequence(*ids, integer(pos, "the position of the fork"))
    return ()


@builtin("vm.builtin.kv_state_popn", WRITES, pure=False)
def kv_state_popn(state: Any, seq: Any, count: Any) -> tuple[()]:
    """Forget the last tokens of a sequence: see `KVState.popn`."""
    _checked(state).popn(integer(seq, "the id of a sequence"), integer(count, "the number of tokens"))
    return ()


@builtin("vm.builtin.kv_state_begin_forward", WRITES, pure=False)
def kv_state_begin_forward(state: Any, seq_ids: Any, append_lengths: Any, token_tree_parent: Any = None) -> tuple[()]:
    """Make room for new tokens of some sequences: see `KVState.begin_forward`."""
    parents = None if token_tree_parent is None else integers(token_tree_parent, "the parents of a token tree")
    _checked(state).begin_forward(
        integers(seq_ids, "the ids of sequences"), integers(append_lengths, "the numbers of new tokens"), parents
    )
    return ()


@builtin("vm.builtin.kv_state_end_forward", WRITES, pure=False)
def kv_state_end_forward(state: Any) -> tuple[()]:
    """End the forward that is under way, if there is one."""
    _checked(state).end_forward()
    return ()
