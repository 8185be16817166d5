"""Caches of keys and values: rows are appended in place, in both modes and in the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.runtime.kv_cache import append, clear, create, pop_rows, update, view
from relax.runtime.tensor import numpy_view, tensor_of_numpy
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from support import PLAIN_LOOPS

HEADS, WIDTH = 2, 3


@I.ir_module
class Decoder:
    """One step of a decoder: the new key is appended, then attended to with all that came before."""

    @R.function(pure=False)
    def caches(room: R.Shape(["n"])) -> R.Tuple(R.Object, R.Object):
        n = T.int64()
        none = R.zeros((0, 2, 3), "float32")
        k = R.call_packed(
            "vm.builtin.attention_kv_cache_create", none, R.shape([n, 2, 3]), R.prim_value(0), sinfo_args=R.Object
        )
        v = R.call_packed(
            "vm.builtin.attention_kv_cache_create", none, R.shape([n, 2, 3]), R.prim_value(0), sinfo_args=R.Object
        )
        return (k, v)

    @R.function
    def step(cache: R.Object, key: R.Tensor(("s", 2, 3), "float32"), length: R.Shape(["total"])) -> R.Tensor(
        ("total", 2, 3), "float32"
    ):
        total = T.int64()
        with R.dataflow():
            grown = R.call_inplace_packed(
                "vm.builtin.attention_kv_cache_append", cache, key, inplace_indices=[0], sinfo_args=R.Object
            )
            keys = R.call_pure_packed(
                "vm.builtin.attention_kv_cache_view",
                grown,
                R.shape([total, 2, 3]),
                sinfo_args=R.Tensor((total, 2, 3), "float32"),
            )
            y = R.multiply(keys, R.const(2.0, "float32"))
            R.output(y)
        return y


def machine(mode):
    return relax.VirtualMachine(relax.build(Decoder, PLAIN_LOOPS, exec_mode=mode), relax.cpu())


def function(mode, name):
    if mode == "interpreter":
        return lambda *args: relax.interpret(Decoder, name, *args)
    return machine(mode)[name]


@pytest.mark.parametrize("mode", ["bytecode", "compiled", "interpreter"])
@pytest.mark.parametrize("room", [0, 1, 4, 64])
def test_a_decoder_appends_its_keys(mode, room):
    """With any room, with none: steps of 0, 1 and several rows see all rows so far."""
    rng = np.random.default_rng(0)
    k, v = function(mode, "caches")(relax.ShapeTuple([room]))
    assert k is not v
    step, rows = function(mode, "step"), np.zeros((0, HEADS, WIDTH), "float32")
    for count in (3, 1, 0, 1, 7):
        new = rng.standard_normal((count, HEADS, WIDTH)).astype("float32")
        rows = np.concatenate([rows, new])
        found = step(k, new, relax.ShapeTuple([len(rows)]))
        np.testing.assert_array_equal(found.numpy(), rows * 2)


@pytest.mark.parametrize("mode", ["bytecode", "compiled"])
def test_a_wrong_length_is_refused(mode):
    vm = machine(mode)
    k, _ = vm["caches"](relax.ShapeTuple([4]))
    new = np.zeros((1, HEADS, WIDTH), "float32")
    with pytest.raises(ValueError, match=r"the shape is \(9, 2, 3\), expected \(1, 2, 3\)"):
        vm["step"](k, new, relax.ShapeTuple([9]))
    with pytest.raises(TypeError, match="expected a cache of attention, found a tensor"):
        vm["step"](new, new, relax.ShapeTuple([1]))


def rows_of(*values, dtype="float32"):
    return tensor_of_numpy(np.array(values, dtype).reshape(-1, 1))


def held(cache, count):
    return numpy_view(view(cache, (count, 1)))[:, 0].tolist()


def test_rows_are_written_in_place_until_there_is_no_room():
    cache = create(rows_of(1, 2), (4, 1))
    first = view(cache, (2, 1))
    append(cache, rows_of(3, 4))
    assert view(cache, (4, 1)).data_ptr() == first.data_ptr()
    append(cache, rows_of(5))
    assert view(cache, (5, 1)).data_ptr() != first.data_ptr()
    assert held(cache, 5) == [1, 2, 3, 4, 5]
    assert numpy_view(first)[:, 0].tolist() == [1, 2]
    assert cache.data.shape[0] == 8


def test_a_cache_is_appended_to_itself():
    cache = create(rows_of(1, 2), (2, 1))
    append(cache, view(cache, (2, 1)))
    append(cache, view(cache, (4, 1)))
    assert held(cache, 8) == [1, 2] * 4


def test_rows_that_count_are_forgotten_and_replaced():
    cache = create(rows_of(1, 2, 3), (8, 1), 1)
    assert held(cache, 1) == [1]
    update(cache, rows_of(7, 8, 9))
    assert held(cache, 3) == [7, 8, 9]
    pop_rows((cache,), 2)
    assert held(cache, 1) == [7]
    clear((cache,))
    assert held(cache, 0) == []


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda c: append(c, rows_of(1, dtype="int8")), TypeError, "rows of dtype float32, found int8"),
        (lambda c: append(c, tensor_of_numpy(np.zeros((1, 2), "float32"))), ValueError, r"rows of shape \(1,\)"),
        (lambda c: append(c, 3), TypeError, "expected a tensor to append, found the int 3"),
        (lambda c: update(c, 3), TypeError, "expected a tensor to append"),
        (lambda c: view(c, (1, 1)), ValueError, r"the shape is \(1, 1\), expected \(2, 1\)"),
        (lambda c: pop_rows((c,), 3), ValueError, "cannot forget 3 rows of a cache that holds 2"),
        (lambda c: pop_rows(c, 1), TypeError, "expected a tuple of caches"),
        (lambda _: create(rows_of(1), ()), ValueError, "at least one dimension"),
        (lambda _: create(rows_of(1), (4, 1), 2), ValueError, "2 rows are to count, and there are 1"),
        (lambda _: create(3, (4, 1)), TypeError, "expected a tensor to begin with"),
    ],
)
def test_what_is_refused_changes_nothing(call, error, message):
    cache = create(rows_of(1, 2), (2, 1))
    with pytest.raises(error, match=message):
        call(cache)
    assert held(cache, 2) == [1, 2]
