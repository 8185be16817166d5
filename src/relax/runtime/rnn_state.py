"""States of recurrent models by sequence, with a history from which the last steps can be taken back.

    state = vm.builtin.rnn_state_create(num_layers, reserved_num_seqs, max_history, f_gets, f_sets, init_layer_value)
    x = vm.builtin.rnn_state_get(state, layer, index, out)          what each sequence of the batch had before this step
    state = vm.builtin.rnn_state_set(state, layer, index, x)        what it has after it

Each layer has a state for each tensor of `init_layer_value`, with which a sequence begins. `kv_state_*` (`kv_state`)
add and remove sequences; a step is what runs between `kv_state_begin_forward` and `kv_state_end_forward`. Names,
arguments and results are TVM's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast, final

import numpy as np
import tvm_ffi

from .builtin_table import Effects, builtin
from .dtypes import Array, canonical_dtype
from .kv_state import KVState, direct_callable, integer
from .records import dataclass
from .tensor import copy_of_numpy, new_tensor, numpy_view, tensor_of_numpy, view_tensor
from .values import describe_shape, is_tuple, kind_of

_NO_FORWARD: Final = "no forward is under way: call kv_state_begin_forward first"


@final
class _Sequence:
    """A sequence: it keeps its states in a slot of its own, in which `at` is the newest of `max_history` places."""

    __slots__ = ("at", "length", "slot", "steps")

    def __init__(self, slot: int) -> None:
        self.slot = slot
        self.at = 0
        self.length = 0
        self.steps = 0
        """The steps of one token that can be taken back."""


@dataclass(frozen=True)
class _Step:
    """The forward that is under way."""

    sequences: tuple[_Sequence, ...]
    lengths: tuple[int, ...]
    slots: tvm_ffi.Tensor
    places: tvm_ffi.Tensor


@final
class RNNState(KVState):
    """States (reserved_num_seqs, max_history, *shape) of each layer."""

    __slots__ = ("_free", "_get", "_history", "_initial", "_sequences", "_set", "_step", "_storage")

    def __init__(
        self,
        layers: int,
        sequences: int,
        history: int,
        initial: Sequence[tvm_ffi.Tensor],
        getters: Sequence[Callable[..., Any] | None],
        setters: Sequence[Callable[..., Any] | None],
    ) -> None:
        """Allocate the states. Raises MemoryError if there is not as much memory."""
        self._history = history
        self._initial: list[Array] = [numpy_view(tensor).copy() for tensor in initial]
        self._get, self._set = getters, setters
        self._storage = [
            [
                new_tensor((sequences, history, *each.shape), canonical_dtype(each.dtype), each.device)
                for each in initial
            ]
            for _ in range(layers)
        ]
        self._free = list(range(sequences - 1, -1, -1))
        self._sequences: dict[int, _Sequence] = {}
        self._step: _Step | None = None

    # ------------------------------------------------------------------------------------------ sequences

    def clear(self) -> None:
        """Remove all sequences, and end a forward that is under way."""
        self._step = None
        for seq in list(self._sequences):
            self.remove_sequence(seq)

    def add_sequence(self, seq: int) -> None:
        """Add a sequence that has the initial states. Raises ValueError if there is one of this id, or no room."""
        sequence = self._insert(seq)
        for layer in self._storage:
            for tensor, value in zip(layer, self._initial, strict=True):
                numpy_view(tensor)[sequence.slot, 0] = value

    def remove_sequence(self, seq: int) -> None:
        """Remove a sequence. Raises ValueError if there is none of this id, or a forward is under way."""
        sequence = self._sequence(seq)
        self._check_idle("a sequence cannot be removed")
        del self._sequences[seq]
        self._free.append(sequence.slot)

    def fork_sequence(self, parent: int, child: int, pos: int = -1) -> None:
        """Add a sequence with the states of another one, and its history.

        Raises ValueError for unknown and taken ids, and a position before the end that no step back leads to.
        """
        source = self._sequence(parent)
        self._check_idle("a sequence cannot be forked")
        back = 0 if pos == -1 else source.length - pos
        if not 0 <= back <= source.steps:
            raise ValueError(
                f"cannot fork sequence {parent} at position {pos}: it has {source.length} tokens, "
                f"and {source.steps} steps can be taken back"
            )
        sequence = self._insert(child)
        for layer in self._storage:
            for tensor in layer:
                array = numpy_view(tensor)
                array[sequence.slot] = array[source.slot]
        sequence.at, sequence.length, sequence.steps = source.at, source.length, source.steps
        self._take_back(sequence, back)

    def popn(self, seq: int, count: int) -> None:
        """Take back the last `count` steps of one token.

        Raises ValueError if the history does not go back as far: at most `max_history` - 1 steps, and not beyond a step
        of several tokens.
        """
        sequence = self._sequence(seq)
        self._check_idle("steps cannot be taken back")
        if not 0 <= count <= sequence.steps:
            raise ValueError(f"cannot take back {count} steps of sequence {seq}: its history has {sequence.steps}")
        self._take_back(sequence, count)

    def _take_back(self, sequence: _Sequence, count: int) -> None:
        sequence.length -= count
        sequence.steps -= count
        sequence.at = (sequence.at - count) % self._history

    def _insert(self, seq: int) -> _Sequence:
        if seq in self._sequences:
            raise ValueError(f"there is a sequence {seq} already")
        if not self._free:
            raise ValueError(f"cannot add sequence {seq}: the state was made for {len(self._sequences)} sequences")
        self._sequences[seq] = sequence = _Sequence(self._free.pop())
        return sequence

    def _sequence(self, seq: int) -> _Sequence:
        sequence = self._sequences.get(seq)
        if sequence is None:
            raise ValueError(f"there is no sequence {seq}")
        return sequence

    def _check_idle(self, subject: str) -> None:
        if self._step is not None:
            raise ValueError(f"{subject} while a forward is under way: call kv_state_end_forward first")

    # ------------------------------------------------------------------------------------------- forwards

    def begin_forward(
        self, seq_ids: Sequence[int], append_lengths: Sequence[int], tree_parents: Sequence[int] | None = None
    ) -> None:
        """Begin a step of some sequences. Raises ValueError also for token trees that are no chains."""
        self._check_idle("another forward cannot begin")
        lengths = tuple(append_lengths)
        if not lengths or len(seq_ids) != len(lengths):
            counts = f"{len(seq_ids)} sequences, found {len(lengths)}"
            raise ValueError(f"expected a number of new tokens for each of {counts}")
        if len(set(seq_ids)) != len(seq_ids):
            raise ValueError(f"a sequence is named twice in {describe_shape(seq_ids)}")
        batch = tuple(self._sequence(seq) for seq in seq_ids)
        for seq, length in zip(seq_ids, lengths, strict=True):
            if length <= 0:
                raise ValueError(f"sequence {seq} gets {length} new tokens, expected at least one")
        chain = [parent for length in lengths for parent in range(-1, length - 1)]
        if tree_parents is not None and list(tree_parents) != chain:
            raise ValueError("a recurrent state has no token trees: its tokens come as chains")
        slots, places = (
            tensor_of_numpy(np.array(numbers, np.int32))
            for numbers in ([each.slot for each in batch], [each.at for each in batch])
        )
        self._step = _Step(batch, lengths, slots, places)

    def end_forward(self) -> None:
        """End the step that is under way, if there is one: states that were set are the newest ones from now on."""
        step, self._step = self._step, None
        if step is None:
            return
        for sequence, length in zip(step.sequences, step.lengths, strict=True):
            sequence.length += length
            sequence.steps = min(sequence.steps + 1, self._history - 1) if length == 1 else 0
            sequence.at = (sequence.at + 1) % self._history

    def get(self, layer: int, index: int, out: Any) -> None:
        """Copy the states of the batch before this step to `out` (b, *shape)."""
        step, storage = self._of(layer, index)
        target = self._fitted(step, index, out, "out")
        function = self._get[index] if self._get else None
        if function is not None:
            function(storage, step.slots, step.places, target)
            return
        numpy_view(target)[...] = numpy_view(storage)[numpy_view(step.slots), numpy_view(step.places)]

    def set(self, layer: int, index: int, data: Any) -> None:
        """Set the states of the batch after this step to `data` (b, *shape)."""
        step, storage = self._of(layer, index)
        source = self._fitted(step, index, data, "the new state")
        function = self._set[index] if self._set else None
        if function is not None:
            function(storage, step.slots, step.places, source)
            return
        next_places = (numpy_view(step.places) + 1) % self._history
        numpy_view(storage)[numpy_view(step.slots), next_places] = numpy_view(source)

    def debug_get(self, layer: int, index: int, seq: int) -> tvm_ffi.Tensor:
        """Return a copy of a sequence's newest state. Raises ValueError for unknown numbers."""
        storage, sequence = self._tensor(layer, index), self._sequence(seq)
        array = numpy_view(storage)[sequence.slot, sequence.at]
        return copy_of_numpy(array, canonical_dtype(storage.dtype))

    def _of(self, layer: int, index: int) -> tuple[_Step, tvm_ffi.Tensor]:
        if self._step is None:
            raise ValueError(_NO_FORWARD)
        return self._step, self._tensor(layer, index)

    def _tensor(self, layer: int, index: int) -> tvm_ffi.Tensor:
        if not 0 <= layer < len(self._storage):
            raise ValueError(f"there is no layer {layer}: there are {len(self._storage)}")
        if not 0 <= index < len(self._initial):
            raise ValueError(f"there is no state {index}: each layer has {len(self._initial)}")
        return self._storage[layer][index]

    def _fitted(self, step: _Step, index: int, tensor: Any, name: str) -> tvm_ffi.Tensor:
        """Return a tensor under the shape (b, *shape). Raises TypeError or ValueError if it does not fit."""
        initial = self._initial[index]
        shape, dtype = (len(step.lengths), *initial.shape), canonical_dtype(initial.dtype)
        if not isinstance(tensor, tvm_ffi.Tensor):
            raise TypeError(f"expected a tensor as {name}, found {kind_of(tensor)}")
        if canonical_dtype(tensor.dtype) != dtype:
            raise TypeError(f"{name} has the dtype {tensor.dtype}, expected {dtype}")
        if tuple(tensor.shape) == shape:
            return tensor
        if tensor.numel() != len(step.lengths) * initial.size:
            raise ValueError(f"{name} has the shape {describe_shape(tensor.shape)}, expected {describe_shape(shape)}")
        return view_tensor(tensor, shape)


# -------------------------------------------------------------------------------------------- builtins


@builtin("vm.builtin.rnn_state_create", Effects(reads=(5,)), pure=False)
def rnn_state_create(
    num_layers: Any, reserved_num_seqs: Any, max_history: Any, f_gets: Any, f_sets: Any, init_layer_value: Any
) -> RNNState:
    """Return states without sequences.

    Parameters
    ----------
    num_layers, reserved_num_seqs, max_history
        Layers, the greatest number of sequences, and the states of each that are kept: the newest one and those before.
    f_gets, f_sets
        For each state of a layer a function `f(storage, slots, places, data)`, which copies from and to places of the
        storage (reserved_num_seqs, max_history, *shape): a setter writes behind the place that it is given. Empty or
        None: copies by NumPy.
    init_layer_value
        A tuple of the initial states of each layer.

    Raises
    ------
    TypeError, ValueError
        For arguments of other kinds, and numbers that are not positive.
    """
    layers, sequences = _positive(num_layers, "num_layers"), _positive(reserved_num_seqs, "reserved_num_seqs")
    history = _positive(max_history, "max_history")
    initial = _tuple(init_layer_value, "init_layer_value")
    for value in initial:
        if not isinstance(value, tvm_ffi.Tensor):
            raise TypeError(f"expected tensors in init_layer_value, found {kind_of(value)}")
    getters, setters = (
        _functions(functions, len(initial), name) for functions, name in ((f_gets, "f_gets"), (f_sets, "f_sets"))
    )
    return RNNState(layers, sequences, history, initial, getters, setters)


@builtin("vm.builtin.rnn_state_get", Effects(reads=(0,), writes=(3,), aliases=(3,)), pure=False)
def rnn_state_get(state: Any, layer: Any, index: Any, out: Any) -> Any:
    """Copy a state of the batch's sequences to `out`, and return that: see `RNNState.get`."""
    _checked(state).get(integer(layer, "the layer"), integer(index, "the number of a state"), out)
    return out


@builtin("vm.builtin.rnn_state_set", Effects(reads=(3,), writes=(0,), aliases=(0,)), pure=False)
def rnn_state_set(state: Any, layer: Any, index: Any, data: Any) -> RNNState:
    """Set a state of the batch's sequences, and return the state itself: see `RNNState.set`."""
    checked = _checked(state)
    checked.set(integer(layer, "the layer"), integer(index, "the number of a state"), data)
    return checked


@builtin("vm.builtin.rnn_state_debug_get", Effects(reads=(0,)), pure=False)
def rnn_state_debug_get(state: Any, layer: Any, index: Any, seq: Any) -> tvm_ffi.Tensor:
    """Return a copy of a sequence's newest state: see `RNNState.debug_get`."""
    numbers = integer(layer, "the layer"), integer(index, "the number of a state")
    return _checked(state).debug_get(*numbers, integer(seq, "the id of a sequence"))


def _checked(state: Any) -> RNNState:
    if not isinstance(state, RNNState):
        raise TypeError(f"expected a recurrent state, found {kind_of(state)}")
    return state


def _positive(value: Any, name: str) -> int:
    number = integer(value, name)
    if number <= 0:
        raise ValueError(f"{name} is {number}, expected a positive number")
    return number


def _tuple(value: Any, name: str) -> tuple[Any, ...]:
    if not is_tuple(value) and not isinstance(value, list):
        raise TypeError(f"expected a tuple as {name}, found {kind_of(value)}")
    return tuple(cast("tuple[Any, ...]", value))


def _functions(value: Any, count: int, name: str) -> list[Callable[..., Any] | None]:
    """Return the function of each state, None for NumPy's; an empty list if there are none."""
    functions = () if value is None else _tuple(value, name)
    if functions and len(functions) != count:
        raise ValueError(f"{name} has {len(functions)} functions, expected one for each of {count} states")
    return [None if function is None else direct_callable(function, name) for function in functions]
