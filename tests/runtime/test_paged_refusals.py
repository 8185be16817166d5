"""Calls on a paged KV cache that are refused: what they say, and that they change nothing."""

from __future__ import annotations

import numpy as np
import pytest

from paged_model import append, builtin, create, forward_of, tensor
from relax.runtime.tensor import tensor_of_numpy


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: c.add_sequence(0), "there is a sequence 0 already"),
        (
            lambda c: [c.add_sequence(seq) for seq in (1, 2)],
            "cannot add sequence 2: the cache was made for 2 sequences",
        ),
        (lambda c: c.remove_sequence(4), "there is no sequence 4"),
        (lambda c: c.fork_sequence(4, 1), "there is no sequence 4"),
        (lambda c: c.fork_sequence(0, 1, 7), "cannot fork sequence 0 at position 7: it has 6 tokens"),
        (lambda c: c.fork_sequence(0, 1, -2), "cannot fork sequence 0 at position -2: it has 6 tokens"),
        (lambda c: c.popn(0, 7), "cannot forget 7 tokens of sequence 0, which has 6"),
        (lambda c: c.popn(0, -1), "cannot forget -1 tokens of sequence 0, which has 6"),
        (lambda c: forward_of(c, {4: 1}), "there is no sequence 4"),
        (lambda c: forward_of(c, {0: 0}), "sequence 0 gets 0 new tokens, expected at least one"),
        (lambda c: forward_of(c, {0: 9}), "9 new tokens are more than the cache takes at once, 8"),
        (lambda c: forward_of(c, {0: 7}), "the new tokens need 2 pages of 4 tokens, and 1 are free"),
        (lambda c: c.begin_forward((0,), ()), "expected a number of new tokens for each of 1 sequences, found 0"),
        (lambda c: c.begin_forward((0, 0), (1, 1)), r"a sequence is named twice in \(0, 0\)"),
        (lambda c: c.slide(0, -1), "the sliding window of sequence 0 is -1 with 0 sinks"),
        (lambda c: c.register_tokens(0, range(7)), "cannot register 7 tokens of sequence 0, which has 6"),
        (lambda c: c.query_positions(), "no forward is under way: call kv_state_begin_forward first"),
        (lambda c: c.commit_accepted_token_tree_nodes((0,), (0,)), "the last tokens of sequence 0 are no tree"),
        (lambda c: c.commit_accepted_token_tree_nodes((0,), ()), "expected a leaf for each of 1 sequences, found 0"),
        (lambda c: c.debug_get_kv(0, 2, 9, None, None), "has 6 tokens, and those from 2 to 9 are asked for"),
    ],
)
def test_what_is_refused_changes_nothing(call, message):
    cache = create(tokens=12, page=4, sequences=2, chunk=8)
    cache.add_sequence(0)
    append(cache, {0: 6})
    with pytest.raises(ValueError, match=message):
        call(cache)
    assert (cache.length(0), cache.available_pages, cache.forward) == (6, 1, None)
    append(cache, {0: 6})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: forward_of(c, {0: 1}), "another forward cannot begin while a forward is under way"),
        (lambda c: c.remove_sequence(0), "a sequence cannot be removed while a forward is under way"),
        (lambda c: c.fork_sequence(0, 1), "a sequence cannot be forked while a forward is under way"),
        (lambda c: c.popn(0, 1), "tokens cannot be forgotten while a forward is under way"),
        (lambda c: c.slide(0, 1), "a sliding window cannot be set while a forward is under way"),
        (lambda c: c.register_tokens(0, ()), "tokens cannot be registered while a forward is under way"),
    ],
)
def test_sequences_stay_during_a_forward(call, message):
    cache = create()
    cache.add_sequence(0)
    forward_of(cache, {0: 2})
    with pytest.raises(ValueError, match=message):
        call(cache)
    builtin("kv_state_end_forward")(cache)
    builtin("kv_state_end_forward")(cache)
    append(cache, {0: 1})


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        ((0, 0.5, tensor(2, 31), tensor(2, 4, 4)), ValueError, r"qkv has the shape \(2, 31\), expected \(2, 32\)"),
        ((0, 0.5, tensor(2, 32), tensor(2, 4, 5)), ValueError, r"out has the shape \(2, 4, 5\), expected \(2, 4, 4\)"),
        ((0, 0.5, tensor(2, 32, dtype="float16"), tensor(2, 4, 4)), TypeError, "qkv has the dtype float16, expected"),
        ((0, 0.5, tensor(2, 32), 3), TypeError, "expected a tensor as out, found the int 3"),
        ((0, None, tensor(2, 32), tensor(2, 4, 4)), TypeError, "expected a number as the scale of attention"),
        ((9, 0.5, tensor(2, 32), tensor(2, 4, 4)), ValueError, "there is no layer 9"),
    ],
)
def test_arguments_of_attention(args, error, message):
    cache = create()
    cache.add_sequence(0)
    forward_of(cache, {0: 2})
    with pytest.raises(error, match=message):
        builtin("attention_kv_cache_attention_with_fused_qkv")(cache, *args)


def test_attention_without_a_forward():
    with pytest.raises(ValueError, match="no forward is under way: call kv_state_begin_forward first"):
        builtin("attention_kv_cache_attention_with_fused_qkv")(create(), 0, 0.5, tensor(1, 32), tensor(1, 4, 4))


@pytest.mark.parametrize("name", ["kv_state_clear", "kv_state_end_forward"])
def test_states_are_states(name):
    with pytest.raises(TypeError, match="expected a state of sequences, found the int 3"):
        builtin(name)(3)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"heads": (4, 3)}, ValueError, "4 query heads cannot share 3 key and value heads"),
        ({"page": 0}, ValueError, "page_size is 0, expected a positive number"),
        ({"width": -1}, ValueError, "qk_head_dim is -1, expected a positive number"),
        ({"kinds": (4,)}, ValueError, "attn_kinds has the kind 4, expected 0"),
        ({"layers": 2, "kinds": (0,)}, ValueError, "attn_kinds has 1 kinds, expected one for each of 2 layers"),
        ({"mode": 3}, ValueError, "rope_mode is 3, expected 0"),
        ({"mode": "normal"}, TypeError, "expected an integer as rope_mode, found the string 'normal'"),
        ({"dtype": "int8"}, ValueError, "the dtype of init is int8, expected one of float32, float16, bfloat16"),
        ({"tokens": 1 << 40}, ValueError, "has too many for 32 bits"),
        ({"width": 5}, ValueError, "the rotary dimension is 5, expected an even number"),
        ({"options": {"rotary_dim": 6}}, ValueError, "rotary_dim is 6, and keys have 4 elements"),
        ({"options": {"factors": [1.0]}}, ValueError, "there are 1 factors of rotary frequencies, expected 2"),
        ({"options": {"factors": [1.0, 0.0]}}, ValueError, "factors of rotary frequencies must be positive"),
        ({"options": {"window": 3}}, ValueError, "there is no option 'window' of a KV cache; the options are interl"),
        ({"options": {"page_dtype": "int8"}}, ValueError, "the page_dtype is int8, expected one of float32"),
        ({"options": {"softcap": "much"}}, TypeError, "the option 'softcap' of a KV cache is the string 'much'"),
        ({"options": ("softcap",)}, ValueError, "expected names and values of options in turn, found a tuple of 1"),
        ({"kernels": (len, 3)}, TypeError, "expected a function as a kernel of a cache"),
        ({"kernels": (None, None, None)}, ValueError, r"expected the kernels \(append, attend\) of a cache"),
    ],
)
def test_settings_are_checked(settings, error, message):
    with pytest.raises(error, match=message):
        create(**settings)


def test_arguments_of_the_cache_are_counted():
    make = builtin("paged_attention_kv_cache_create")
    first = (4, 32, 32, 4), (0, 1), 4, 2, 4, 4, (0,), False, 1, 1.0, 100.0
    with pytest.raises(TypeError, match="expected a tensor of the cache's dtype as argument 11 or 12"):
        make(*first)
    with pytest.raises(TypeError, match="expected 15 or 16 functions behind the initial tensor, .* found 3 arguments"):
        make(*first, tensor(0), None, None, None)
    with pytest.raises(ValueError, match="kernels of TVM's contract cannot read the pages of this cache"):
        make(*first, tensor(0), ("tir", 3), *[None] * 14)
    factors = tensor_of_numpy(np.array([1, 2], "float32"))
    for cache in (make(*first, factors, tensor(0), *[None] * 15), make(*first, tensor(0), *[None] * 16, (), None)):
        assert cache.layout.rotary.pairs == 2
