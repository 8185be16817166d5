"""The paged KV cache against a model that keeps every token of every sequence (`paged_model`)."""

from __future__ import annotations

import random

import numpy as np
import pytest

from paged_model import Pair, append, attention, builtin, create, forward_of, rotated, tensor
from relax.runtime.tensor import numpy_view, tensor_of_numpy

# ------------------------------------------------------------------------------------------- sequences


def test_sequences_of_unequal_lengths_attend_to_their_own_tokens():
    pair = Pair(layers=2)
    for seq, length in ((7, 5), (0, 1), (3, 9)):
        pair.add(seq)
        pair.forward({seq: length})
    for _ in range(4):
        pair.forward({3: 1, 7: 1, 0: 1})
    pair.forward({0: 4, 3: 1, 7: 2})


@pytest.mark.parametrize("pos", [0, 1, 3, 4, 5, 8, 9, -1])
def test_a_fork_shares_what_comes_before(pos):
    """Both go on from any position, at borders of pages and inside of them: neither sees the tokens of the other."""
    pair = Pair(layers=2, page=4)
    pair.add(0)
    pair.forward({0: 9})
    pair.fork(0, 1, pos)
    pair.forward({1: 2, 0: 1})
    pair.forward({0: 1})
    pair.forward({1: 5})


def test_a_parent_goes_on_in_a_copy():
    """The parent's page is copied although the parent gets no further page, and is the one that is read from then on."""
    pair = Pair(layers=2, page=8)
    pair.add(0)
    pair.forward({0: 2})
    pair.forward({0: 1})
    pair.fork(0, 1)
    pair.forward({0: 1})
    pair.forward({1: 1})
    pair.forward({0: 1, 1: 1})


def test_a_fork_takes_no_pages_until_it_writes():
    cache = create(tokens=32, page=4)
    cache.add_sequence(0)
    append(cache, {0: 6})
    assert cache.available_pages == 6
    cache.fork_sequence(0, 1)
    cache.fork_sequence(0, 2, 4)
    assert cache.available_pages == 6
    append(cache, {1: 1})  # a copy of the page that it fills up
    assert cache.available_pages == 5
    append(cache, {2: 1})  # a page of its own: the first one is full, and stays shared
    assert cache.available_pages == 4
    append(cache, {0: 1})  # its page is its own by now
    assert cache.available_pages == 4
    cache.remove_sequence(0)
    assert cache.available_pages == 5
    cache.remove_sequence(1)
    cache.remove_sequence(2)
    assert cache.available_pages == 8


def test_the_last_two_users_of_a_page_need_one_copy():
    cache = create(tokens=12, page=4)
    cache.add_sequence(0)
    append(cache, {0: 6})
    cache.fork_sequence(0, 1)
    append(cache, {0: 1, 1: 1})
    assert cache.available_pages == 0


def test_tokens_are_forgotten_and_written_anew():
    pair = Pair(layers=2, page=4)
    pair.add(0)
    pair.forward({0: 10})
    for count in (0, 1, 3, 2):
        pair.popn(0, count)
        pair.forward({0: 1})
    pair.popn(0, len(pair.histories[0]))
    pair.forward({0: 3})


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed):
    """Sequences come, grow together, fork, shrink and go, in layers of all kinds of attention; refusals change nothing."""
    rng = random.Random(seed)
    kinds = rng.choice([(0, 0), (3, 0), (3, 3)])
    pair = Pair(
        seed, layers=2, kinds=kinds, window=rng.choice([0, 5, 9]), tokens=rng.choice([40, 160]), sequences=4,
        page=rng.choice([1, 4, 8]), mode=rng.choice([0, 1, 2]), options={"interleaved": rng.random() < 0.5},
    )  # fmt: skip
    refused = 0
    for _ in range(25):
        live, seq = list(pair.histories), rng.randrange(6)
        chosen = rng.choice(live) if live else None
        actions = [
            lambda seq=seq: pair.add(seq),
            lambda seq=seq, chosen=chosen: pair.fork(chosen, seq, rng.choice([-1, 3, 4, 11])),
            lambda chosen=chosen: pair.popn(chosen, rng.choice([1, 4, 9])),
            lambda chosen=chosen: pair.slide(chosen, rng.randint(1, 8), rng.randint(0, 3)),
            lambda chosen=chosen: pair.remove(chosen),
            lambda live=live: pair.forward({i: rng.choice([1, 1, 2, 7]) for i in rng.sample(live, len(live) // 2 + 1)}),
        ]
        (action,) = rng.choices(actions if live else actions[:1], [3, 2, 2, 1, 1, 9] if live else None)
        before = pair.cache.available_pages, pair.cache.total_length
        try:
            action()
        except ValueError:
            refused += 1
            assert (pair.cache.available_pages, pair.cache.total_length) == before
        assert pair.cache.total_length == sum(map(len, pair.histories.values()))
    for seq in list(pair.histories):
        pair.remove(seq)
    assert pair.cache.available_pages == pair.layout.pages
    assert refused < 25


# --------------------------------------------------------------------------------------------- settings


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_dtypes(dtype):
    pair = Pair(dtype=dtype)
    pair.add(0)
    tolerance = {"float32": 1e-5, "float16": 5e-3, "bfloat16": 4e-2}[dtype]
    pair.forward({0: 6}, tolerance)
    pair.forward({0: 1}, tolerance)


def test_pages_of_fewer_bits():
    pair = Pair(options={"page_dtype": "bfloat16"})
    pair.add(0)
    pair.forward({0: 6}, 4e-2)
    assert str(pair.cache.store.keys[0].dtype) == "bfloat16"


def test_scores_are_capped():
    pair = Pair(options={"softcap": 0.5})
    pair.add(0)
    pair.forward({0: 6})


def test_keys_and_values_of_different_widths_in_many_heads():
    pair = Pair(heads=(6, 3), width=6, value_width=5)
    pair.add(0)
    pair.forward({0: 6})
    pair.forward({0: 1})


def angles_at(position, **options):
    """Cosines and sines of one token at a position, in layers of kind 0 and 3."""
    cache = create(layers=2, kinds=(0, 3), width=8, chunk=64, options=options)
    cache.add_sequence(0)
    append(cache, {0: position})
    forward_of(cache, {0: 1})
    buffers = cache.forward.buffers
    return buffers.angles_array[0], buffers.local_angles_array[0]


def test_rotary_embeddings():
    """The angle of pair i is p * scale / (theta ** (2i / dim) * factors[i])."""
    p, theta = 37, 100.0
    plain, local = angles_at(p)
    radians = p / theta ** (np.arange(0, 8, 2) / 8)
    np.testing.assert_allclose(plain, [np.cos(radians), np.sin(radians)], rtol=1e-6)
    np.testing.assert_array_equal(plain, local)

    fewer, _ = angles_at(p, rotary_dim=4)
    np.testing.assert_allclose(fewer[0], np.cos(p / theta ** (np.arange(0, 4, 2) / 4)), rtol=1e-6)

    factors = np.array([1, 2, 4, 8], "float32")
    scaled, _ = angles_at(p, factors=tensor_of_numpy(factors), scaling=1.5)
    np.testing.assert_allclose(
        scaled, 1.5 * np.array([np.cos(radians / factors), np.sin(radians / factors)]), rtol=1e-5
    )

    plain, local = angles_at(p, local_theta=10.0)
    np.testing.assert_allclose(local[1], np.sin(p / 10.0 ** (np.arange(0, 8, 2) / 8)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(plain[1], np.sin(radians), rtol=1e-6)


# ---------------------------------------------------------------------------------------------- windows


@pytest.mark.parametrize("kinds", [(3, 3), (3, 0)])
@pytest.mark.parametrize("window", [2, 3, 4, 9])
def test_layers_see_a_window(kinds, window):
    pair = Pair(layers=2, kinds=kinds, window=window, page=4, tokens=80)
    pair.add(0)
    pair.add(1)
    pair.forward({0: 7, 1: 1})
    for _ in range(10):
        pair.forward({0: 1, 1: 2})
    pair.forward({0: 11})


@pytest.mark.parametrize("sink", [0, 1, 4, 6])
def test_sinks_stay_in_sight(sink):
    pair = Pair(layers=2, page=4)
    pair.add(0)
    pair.slide(0, 5, sink)
    pair.forward({0: 9})
    for _ in range(9):
        pair.forward({0: 1})


def test_pages_behind_the_window_are_free_again():
    """A sequence of any length lives in the pages of its window and its sinks."""
    cache = create(tokens=24, page=4)
    cache.add_sequence(0)
    cache.slide(0, 8, 2)
    for _ in range(100):
        append(cache, {0: 1})
        assert cache.available_pages >= 2
    assert cache.length(0) == 100


def test_pages_stay_where_a_layer_sees_all():
    cache = create(layers=2, kinds=(3, 0), window=4, tokens=24, page=4, sequences=1)
    cache.add_sequence(0)
    append(cache, {0: 24})
    assert cache.available_pages == 2


def test_what_slid_out_of_a_window_does_not_come_back():
    cache = create(page=4)
    cache.add_sequence(0)
    cache.slide(0, 4)
    for _ in range(5):
        append(cache, {0: 4})
    with pytest.raises(ValueError, match="cannot forget 9 tokens of sequence 0: its window has slid past"):
        cache.popn(0, 9)
    with pytest.raises(ValueError, match="cannot fork sequence 0 at position 3: its window has slid past it"):
        cache.fork_sequence(0, 1, 3)
    with pytest.raises(ValueError, match="cannot widen the sliding window of sequence 0"):
        cache.slide(0, 5)
    with pytest.raises(ValueError, match="tokens from 2 to 20 of sequence 0 are outside of its window, and dropped"):
        cache.debug_get_kv(0, 2, 20, tensor(1, 18, 2, 4), tensor(1, 18, 2, 4))
    cache.slide(0, 3)
    cache.popn(0, 1)
    assert cache.length(0) == 19


# --------------------------------------------------------------------------------------------- prefixes


def test_a_known_prefix_is_shared():
    """Pages with known tokens serve later sequences that begin with the same ones, also after the first is gone."""
    pair = Pair(layers=2, page=4)
    cache, ids = pair.cache, list(range(100, 111))
    pair.add(0)
    pair.forward({0: 11})
    cache.register_tokens(0, ids)
    assert cache.prefix(ids) == 8
    assert cache.prefix([*ids[:5], 9, 9, 9]) == 4
    assert cache.prefix([1, *ids]) == 0
    history = pair.histories[0]
    pair.remove(0)
    assert cache.available_pages == pair.layout.pages
    assert cache.add_sequence_with_prefix(1, [*ids[:8], 5, 6]) == 8
    pair.histories[1], pair.windows[1] = history[:8], (0, 0)
    pair.forward({1: 2})
    assert cache.add_sequence_with_prefix(2, ids[:8]) == 4, "one token is left to compute"
    pair.histories[2], pair.windows[2] = history[:4], (0, 0)
    pair.forward({2: 4, 1: 1})


def test_pages_unused_for_longest_are_forgotten_first():
    cache = create(tokens=24, page=4)
    for seq, first in ((0, 10), (1, 20), (2, 30)):
        cache.add_sequence(seq)
        append(cache, {seq: 8})
        cache.register_tokens(seq, range(first, first + 8))
    for seq in (1, 0, 2):
        cache.remove_sequence(seq)
    assert cache.available_pages == 6
    cache.add_sequence(3)
    append(cache, {3: 9})  # three pages: both of sequence 1, and the last one of sequence 0
    assert [cache.prefix(range(first, first + 8)) for first in (10, 20, 30)] == [4, 0, 8]
    cache.clear()
    assert cache.prefix(range(30, 38)) == 0


def test_a_registered_page_that_is_written_is_forgotten():
    pair = Pair(page=4)
    pair.add(0)
    pair.forward({0: 8})
    pair.cache.register_tokens(0, range(8))
    pair.popn(0, 2)
    pair.forward({0: 1})
    assert pair.cache.prefix(range(8)) == 4


# ------------------------------------------------------------------------------------------ token trees


def test_tokens_of_a_tree_see_their_ancestors():
    """Each token of a tree gets the result that it has as the end of a chain; the accepted path stays."""
    parents = (-1, 0, 0, 1, 1)
    paths = [(0,), (0, 1), (0, 2), (0, 1, 3), (0, 1, 4)]
    rng = np.random.default_rng(5)
    before, tree, after = (rng.standard_normal((n, 32)).astype("float32") for n in (6, 5, 2))

    def run(cache, rows, parents=None):
        forward_of(cache, {0: len(rows)}, parents)
        out = tensor(len(rows), 4, 4)
        builtin("attention_kv_cache_attention_with_fused_qkv")(cache, 0, 0.5, tensor_of_numpy(rows.copy()), out)
        builtin("kv_state_end_forward")(cache)
        return numpy_view(out)

    def chain(*rows):
        cache = create()
        cache.add_sequence(0)
        return [run(cache, each) for each in rows]

    cache = create()
    cache.add_sequence(0)
    run(cache, before)
    results = run(cache, tree, parents)
    for token, path in enumerate(paths):
        expected = chain(before, tree[list(path)])[-1][-1]
        np.testing.assert_allclose(results[token], expected, rtol=1e-5, atol=1e-6)

    with pytest.raises(ValueError, match="the last tokens of sequence 0 are a tree"):
        forward_of(cache, {0: 1})
    with pytest.raises(ValueError, match="leaf 5 is no token of the tree of sequence 0, which has 5"):
        builtin("attention_kv_cache_commit_accepted_token_tree_nodes")(cache, (0,), (5,))
    builtin("attention_kv_cache_commit_accepted_token_tree_nodes")(cache, (0,), (4,))
    assert cache.length(0) == 9
    expected = chain(before, tree[[0, 1, 4]], after)[-1]
    np.testing.assert_allclose(run(cache, after), expected, rtol=1e-5, atol=1e-6)


def test_a_chain_of_drafted_tokens_is_accepted_in_part():
    pair = Pair(page=4)
    pair.add(0)
    pair.forward({0: 3})
    forward_of(pair.cache, {0: 4}, (-1, 0, 1, 2))
    assert pair.cache.forward.masks is None
    builtin("kv_state_end_forward")(pair.cache)
    builtin("attention_kv_cache_commit_accepted_token_tree_nodes")(pair.cache, (0,), (-1,))
    pair.forward({0: 2})


@pytest.mark.parametrize(
    ("parents", "message"),
    [
        ((-1, 0), "there are 2 parents of a token tree, expected 3"),
        ((-1, 2, 0), "token 1 of a tree has the parent 2, expected -1 or an earlier token"),
    ],
)
def test_what_is_no_tree(parents, message):
    cache = create()
    cache.add_sequence(0)
    with pytest.raises(ValueError, match=message):
        forward_of(cache, {0: 3}, parents)
    assert cache.length(0) == 0


# ----------------------------------------------------------------------- attention in parts, latent attention


def parts(n, heads=4, width=4):
    return tensor(n, heads, width), tensor(n, heads)


@pytest.mark.parametrize("window", [0, 3])
def test_new_and_old_tokens_apart_are_all_tokens_together(window):
    """self_attention and cross_attention, merged, are the attention to all tokens."""
    rng, kind = np.random.default_rng(3), 3 if window else 0
    cache = create(mode=0, kinds=(kind,), window=window, heads=(4, 4))
    cache.add_sequence(0)
    cache.add_sequence(1)
    fused = builtin("attention_kv_cache_attention_with_fused_qkv")
    for lengths in ({0: 5, 1: 1}, {0: 3, 1: 2}):
        n = sum(lengths.values())
        qkv = rng.standard_normal((n, 12, 4)).astype("float32")
        q, k, v = (tensor_of_numpy(qkv[:, 4 * i : 4 * i + 4].copy()) for i in range(3))
        forward_of(cache, lengths)
        (whole, _), (own, own_lse), (old, old_lse) = parts(n), parts(n), parts(n)
        builtin("attention_kv_cache_self_attention")(cache, 0, 0.5, q, k, v, own, own_lse)
        builtin("attention_kv_cache_cross_attention")(cache, 0, 0.5, q, old, old_lse)
        merged, _ = builtin("attention_kv_cache_merge_attn_output_inplace")(cache, own, own_lse, old, old_lse)
        fused(cache, 0, 0.5, tensor_of_numpy(qkv), whole)
        np.testing.assert_allclose(numpy_view(merged), numpy_view(whole), rtol=1e-5, atol=1e-6)
        builtin("kv_state_end_forward")(cache)


def test_queries_of_another_layer_see_the_same_keys():
    rng = np.random.default_rng(4)
    cache = create()
    cache.add_sequence(0)
    forward_of(cache, {0: 6})
    qkv = rng.standard_normal((6, 32)).astype("float32")
    q, k, v = (tensor_of_numpy(part.copy()) for part in (qkv[:, :16], qkv[:, 16:24], qkv[:, 24:]))
    first, second = tensor(6, 4, 4), tensor(6, 4, 4)
    builtin("attention_kv_cache_attention_with_fused_qkv")(cache, 0, 0.5, tensor_of_numpy(qkv), first)
    builtin("attention_kv_cache_attention_with_shared_kv")(cache, 0, 0.5, q, k, v, second)
    np.testing.assert_array_equal(numpy_view(first), numpy_view(second))


def test_latent_attention():
    """A latent vector of 6 elements is the key; its first 4 are the value. All query heads share it."""
    rng = np.random.default_rng(6)
    cache = create(heads=(3, 1), width=6, value_width=4, kinds=(1,), mode=0)
    cache.add_sequence(0)
    latent = np.zeros((0, 6))
    for n in (5, 1, 1):
        new, q = (rng.standard_normal(shape).astype("float32") for shape in ((n, 6), (n, 3, 6)))
        forward_of(cache, {0: n})
        assert builtin("attention_kv_cache_append_mla_kv")(cache, 0, tensor_of_numpy(new)) is cache
        latent = np.concatenate([latent, new])
        out, lse = parts(n, 3)
        builtin("attention_kv_cache_cross_attention")(cache, 0, 0.5, tensor_of_numpy(q), out, lse)
        builtin("kv_state_end_forward")(cache)
        if n == 1:
            for head in range(3):
                expected, norm = attention(q[0, head], list(latent), list(latent[:, :4]), 0.5)
                np.testing.assert_allclose(numpy_view(out)[0, head], expected, rtol=1e-5)
                np.testing.assert_allclose(numpy_view(lse)[0, head], norm, rtol=1e-5)
    kv = tensor(1, 4, 6)
    builtin("attention_kv_cache_debug_get_kv_mla")(cache, 0, 2, 6, kv)
    np.testing.assert_array_equal(numpy_view(kv)[0], latent[2:6].astype("float32"))


def test_layers_are_numbered_from_the_first_one():
    """A part of a model's layers, the second of which is linear."""
    create_cache = builtin("paged_attention_kv_cache_create")
    cache = create_cache(
        (1, 16, 16, 4), (2, 5), 1, 1, 4, 4, (0, 0, 0, 2, 0), False, 0, 1.0, 1.0, tensor(0), *[None] * 16, (), None
    )
    cache.add_sequence(0)
    forward_of(cache, {0: 1})
    fused = builtin("attention_kv_cache_attention_with_fused_qkv")
    qkv = tensor_of_numpy(np.arange(12, dtype="float32")[None])
    out = tensor(1, 1, 4)
    fused(cache, 4, 1.0, qkv, out)
    assert numpy_view(out).ravel().tolist() == [8, 9, 10, 11]
    with pytest.raises(ValueError, match="layer 3 is linear: it has no keys and values"):
        fused(cache, 3, 1.0, qkv, out)
    for layer in (1, 5):
        with pytest.raises(ValueError, match=f"there is no layer {layer}: layers are numbered from 2 to 4"):
            fused(cache, layer, 1.0, qkv, out)


def test_keys_and_values_are_read_back():
    pair = Pair(layers=2, page=4)
    pair.add(0)
    pair.forward({0: 11})
    k, v = tensor(2, 5, 2, 4), tensor(2, 5, 2, 4)
    builtin("attention_kv_cache_debug_get_kv")(pair.cache, 0, 3, 8, k, v)
    history = pair.histories[0][3:8]
    for layer in range(2):
        np.testing.assert_allclose(numpy_view(k)[layer], [token[layer][0] for token in history], rtol=1e-5)
        np.testing.assert_allclose(numpy_view(v)[layer], [token[layer][1] for token in history], rtol=1e-6)


def test_numbers_of_a_cache():
    cache = create(tokens=16, page=4)
    assert builtin("attention_kv_cache_empty")(cache) is True
    builtin("kv_state_add_sequence")(cache, 5)
    builtin("kv_state_begin_forward")(cache, (5,), (6,))
    assert numpy_view(builtin("attention_kv_cache_get_query_positions")(cache)).tolist() == [0, 1, 2, 3, 4, 5]
    assert builtin("attention_kv_cache_get_num_available_pages")(cache) == 2
    assert builtin("attention_kv_cache_get_total_sequence_length")(cache) == 6
    assert builtin("attention_kv_cache_empty")(cache) is False
    builtin("kv_state_clear")(cache)
    assert builtin("attention_kv_cache_empty")(cache) is True
    assert builtin("attention_kv_cache_get_num_available_pages")(cache) == 4


def test_rotation_of_the_model():
    """The model's own rotation turns (1, 0) by the position, in radians, at frequency 1."""
    np.testing.assert_allclose(rotated([1.0, 0.0], 2.0), [np.cos(2), np.sin(2)])
