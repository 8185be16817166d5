"""States of recurrent models: a step reads what was before it and sets what is after it; steps are taken back."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from paged_model import builtin
from relax.runtime.tensor import numpy_view, tensor_of_numpy
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from support import MODES, PLAIN_LOOPS

SHAPE = (2, 3)


def create(layers=2, sequences=3, history=3, f_gets=(), f_sets=()):
    """Two states a layer: a matrix of floats that begins with halves, and a counter."""
    initial = tensor_of_numpy(np.full(SHAPE, 0.5, "float32")), tensor_of_numpy(np.array(7, "int32"))
    return builtin("rnn_state_create")(layers, sequences, history, f_gets, f_sets, initial)


def counters(state, layer, seqs):
    """Read and increase the counters of some sequences in one step of a token; return what was read."""
    builtin("kv_state_begin_forward")(state, seqs, (1,) * len(seqs))
    out = tensor_of_numpy(np.zeros(len(seqs), "int32"))
    assert builtin("rnn_state_get")(state, layer, 1, out) is out
    assert builtin("rnn_state_set")(state, layer, 1, tensor_of_numpy(numpy_view(out) + 1)) is state
    builtin("kv_state_end_forward")(state)
    return numpy_view(out).tolist()


def newest(state, seq, layer=0, index=1):
    return numpy_view(builtin("rnn_state_debug_get")(state, layer, index, seq)).tolist()


def test_sequences_have_states_of_their_own():
    state = create()
    for seq in (4, 9):
        state.add_sequence(seq)
    assert counters(state, 0, (4,)) == [7]
    assert counters(state, 0, (9, 4)) == [7, 8]
    assert (newest(state, 4), newest(state, 9)) == (9, 8)
    state.remove_sequence(4)
    state.add_sequence(4)
    assert newest(state, 4) == 7


def test_what_is_set_counts_from_the_next_step_on():
    state = create()
    state.add_sequence(0)
    state.begin_forward((0,), (1,))
    new = np.arange(6, dtype="float32").reshape(1, *SHAPE)
    out = tensor_of_numpy(np.zeros((1, *SHAPE), "float32"))
    state.set(1, 0, tensor_of_numpy(new))
    state.get(1, 0, out)
    assert (numpy_view(out) == 0.5).all()
    state.end_forward()
    state.begin_forward((0,), (1,))
    state.get(1, 0, out)
    np.testing.assert_array_equal(numpy_view(out), new)


def test_steps_are_taken_back():
    """`max_history` 3 keeps two states before the newest one; a step of several tokens is not taken back in part."""
    state = create(history=3)
    state.add_sequence(0)
    for expected in (7, 8, 9, 10):
        assert counters(state, 0, (0,)) == [expected]
    with pytest.raises(ValueError, match="cannot take back 3 steps of sequence 0: its history has 2"):
        builtin("kv_state_popn")(state, 0, 3)
    builtin("kv_state_popn")(state, 0, 2)
    assert counters(state, 0, (0,)) == [9]
    state.begin_forward((0,), (5,))
    state.end_forward()
    with pytest.raises(ValueError, match="its history has 0"):
        builtin("kv_state_popn")(state, 0, 1)


def test_a_fork_has_the_history_too():
    state = create(history=4)
    state.add_sequence(0)
    for _ in range(3):
        counters(state, 0, (0,))
    builtin("kv_state_fork_sequence")(state, 0, 1)
    builtin("kv_state_fork_sequence")(state, 0, 2, 1)
    assert [newest(state, seq) for seq in (0, 1, 2)] == [10, 10, 8]
    counters(state, 0, (1,))
    builtin("kv_state_popn")(state, 1, 2)
    assert [newest(state, seq) for seq in (0, 1, 2)] == [10, 9, 8]


def test_functions_of_the_program_copy():
    """Getters and setters are called with storage, slots, places and data; setters write behind the places."""
    calls = []

    def getter(storage, slots, places, data):
        calls.append("get")
        numpy_view(data.tensor)[...] = storage.numpy()[slots.numpy(), places.numpy()]

    def setter(storage, slots, places, data):
        calls.append("set")
        numpy_view(storage.tensor)[slots.numpy(), (places.numpy() + 1) % 3] = data.numpy()

    functions = [relax.runtime.values.packed(function) for function in (getter, setter)]
    state = create(f_gets=(None, functions[0]), f_sets=(None, functions[1]))
    state.add_sequence(0)
    assert counters(state, 0, (0,)) == [7]
    assert counters(state, 0, (0,)) == [8]
    assert calls == ["get", "set"] * 2


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda s: s.add_sequence(0), ValueError, "there is a sequence 0 already"),
        (
            lambda s: [s.add_sequence(i) for i in (1, 2, 3)],
            ValueError,
            "cannot add sequence 3: .* made for 3 sequences",
        ),
        (lambda s: s.remove_sequence(5), ValueError, "there is no sequence 5"),
        (lambda s: s.fork_sequence(0, 1, 3), ValueError, "cannot fork sequence 0 at position 3: it has 0 tokens"),
        (lambda s: s.begin_forward((0, 0), (1, 1)), ValueError, "a sequence is named twice"),
        (lambda s: s.begin_forward((0,), (0,)), ValueError, "sequence 0 gets 0 new tokens"),
        (lambda s: s.begin_forward((0,), ()), ValueError, "for each of 1 sequences, found 0"),
        (lambda s: s.begin_forward((0,), (2,), (-1, -1)), ValueError, "a recurrent state has no token trees"),
        (lambda s: s.get(0, 0, None), ValueError, "no forward is under way"),
        (lambda s: builtin("rnn_state_get")(3, 0, 0, None), TypeError, "expected a recurrent state, found the int 3"),
    ],
)
def test_what_is_refused_changes_nothing(call, error, message):
    state = create()
    state.add_sequence(0)
    with pytest.raises(error, match=message):
        call(state)
    assert counters(state, 0, (0,)) == [7]


@pytest.mark.parametrize(
    ("layer", "index", "data", "error", "message"),
    [
        (2, 0, None, ValueError, "there is no layer 2: there are 2"),
        (0, 2, None, ValueError, "there is no state 2: each layer has 2"),
        (0, 0, 3, TypeError, "expected a tensor as the new state, found the int 3"),
        (0, 0, tensor_of_numpy(np.zeros(6)), TypeError, "the new state has the dtype float64, expected float32"),
        (0, 1, tensor_of_numpy(np.zeros(2, "int32")), ValueError, r"has the shape \(2,\), expected \(1,\)"),
    ],
)
def test_states_have_shapes_and_dtypes(layer, index, data, error, message):
    state = create()
    state.add_sequence(0)
    state.begin_forward((0,), (1,))
    with pytest.raises(error, match=message):
        state.set(layer, index, data)
    with pytest.raises(ValueError, match="a sequence cannot be removed while a forward is under way"):
        state.remove_sequence(0)
    state.clear()
    state.add_sequence(0)


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        ((0, 1, 1, (), (), ()), ValueError, "num_layers is 0, expected a positive number"),
        ((1, 1, 1, (), (), 3), TypeError, "expected a tuple as init_layer_value, found the int 3"),
        ((1, 1, 1, (), (), (3,)), TypeError, "expected tensors in init_layer_value, found the int 3"),
        ((1, 1, 1, (None, None), (), ()), ValueError, "f_gets has 2 functions, expected one for each of 0 states"),
        ((1, 1, "x", (), (), ()), TypeError, "expected an integer as max_history, found the string 'x'"),
    ],
)
def test_settings_are_checked(args, error, message):
    with pytest.raises(error, match=message):
        builtin("rnn_state_create")(*args)


@I.ir_module
class Recurrent:
    """h' = h + x, for each sequence of the batch."""

    @R.function(pure=False)
    def create() -> R.Object:
        initial = R.zeros((2,), "float32")
        return R.call_packed(
            "vm.builtin.rnn_state_create", R.prim_value(1), R.prim_value(4), R.prim_value(2), R.tuple(), R.tuple(),
            (initial,), sinfo_args=R.Object,
        )  # fmt: skip

    @R.function
    def step(x: R.Tensor(("b", 2), "float32"), state: R.Object) -> R.Tuple(R.Tensor(("b", 2), "float32"), R.Object):
        b = T.int64()
        with R.dataflow():
            h = R.call_dps_packed(
                "vm.builtin.rnn_state_get", (state, R.prim_value(0), R.prim_value(0)), R.Tensor((b, 2), "float32")
            )
            y = R.add(h, x)
            after = R.call_inplace_packed(
                "vm.builtin.rnn_state_set", state, R.prim_value(0), R.prim_value(0), y, inplace_indices=[0],
                sinfo_args=R.Object,
            )  # fmt: skip
            R.output(y, after)
        return (y, after)


@pytest.mark.parametrize("mode", [*MODES, "interpreter"])
def test_a_program_holds_a_state(mode):
    if mode == "interpreter":
        functions = {
            name: lambda *args, name=name: relax.interpret(Recurrent, name, *args) for name in ("create", "step")
        }
    else:
        functions = relax.VirtualMachine(relax.build(Recurrent, PLAIN_LOOPS, exec_mode=mode), relax.cpu())
    state = functions["create"]()
    for seq in (0, 1):
        state.add_sequence(seq)
    totals = np.zeros((2, 2), "float32")
    for seqs in ((0,), (1, 0), (1,), (0, 1)):
        x = np.arange(2 * len(seqs), dtype="float32").reshape(-1, 2) + 1
        state.begin_forward(seqs, (1,) * len(seqs))
        y, _ = functions["step"](x, state)
        state.end_forward()
        totals[list(seqs)] += x
        np.testing.assert_array_equal(y.numpy(), totals[list(seqs)])
