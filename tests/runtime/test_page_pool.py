"""Pages of a cache are handed out in runs, shared by count, and cached by the tokens in them."""

from __future__ import annotations

import random

from relax.runtime.page_pool import PagePool


def test_a_sequence_grows_in_one_run():
    pool = PagePool(10)
    first = pool.take(2)
    assert first == [0, 1]
    assert pool.take(3, after=first[-1]) == [2, 3, 4]
    assert pool.available == 5


def test_sequences_that_grow_in_turn_keep_their_runs():
    """A new sequence begins behind some free pages, so that the one before it can grow."""
    pool, sequences = PagePool(40), [[], [], []]
    for _ in range(9):
        for pages in sequences:
            pages += pool.take(1, after=pages[-1] if pages else -1)
    for pages in sequences:
        assert pages == list(range(pages[0], pages[0] + 9))


def test_sequences_lie_close_together():
    """Four sequences of 32 pages are in the first 128 of 4096 pages, not all over them."""
    pool, sequences = PagePool(4096), [[], [], [], []]
    for _ in range(32):
        for pages in sequences:
            pages += pool.take(1, after=pages[-1] if pages else -1)
    assert all(pages == list(range(pages[0], pages[0] + 32)) for pages in sequences)
    assert max(max(sequences)) < 140


def test_runs_are_broken_only_where_pages_are_used():
    pool = PagePool(8)
    pages = pool.take(8)
    for page in (1, 3, 4, 5, 7):
        pool.release(page)
    assert pool.take(4, after=0) == [1, 3, 4, 5]
    assert pages == list(range(8))


def test_a_page_is_free_when_its_last_user_is_gone():
    pool = PagePool(2)
    (page,) = pool.take(1)
    assert pool.is_private(page)
    pool.share(page)
    assert not pool.is_private(page)
    pool.release(page)
    assert (pool.available, pool.is_private(page)) == (1, True)
    pool.release(page)
    assert pool.available == 2


def test_cached_pages_are_used_again_or_given_up():
    """Pages `a` and `b` of a text: found by both chunks; the last page of a text is given up before those before it."""
    pool = PagePool(4)
    pages = pool.take(2)
    pool.prefixes.register([b"a", b"b"], pages)
    for page in reversed(pages):
        pool.release(page)
    assert pool.available == 4
    assert pool.prefixes.match([b"a", b"b", b"c"]) == pages
    assert pool.prefixes.match([b"b"]) == []
    pool.share(pages[0])
    assert pool.available == 3
    taken = pool.take(3)
    assert sorted(taken) == [1, 2, 3]
    assert pool.prefixes.match([b"a", b"b"]) == [0]


def test_equal_texts_keep_the_first_page():
    pool = PagePool(4)
    first, second = pool.take(2), pool.take(2)
    pool.prefixes.register([b"a", b"b"], first)
    pool.prefixes.register([b"a", b"c"], second)
    assert pool.prefixes.match([b"a", b"c"]) == [first[0], second[1]]
    for page in (*reversed(first), *reversed(second)):
        pool.release(page)
    assert pool.available == 4
    assert sorted(pool.take(4)) == [0, 1, 2, 3]
    assert pool.prefixes.match([b"a"]) == []


def test_a_parent_page_goes_with_the_pages_behind_it():
    """A page in use behind an unused one is forgotten, not freed."""
    pool = PagePool(2)
    pages = pool.take(2)
    pool.prefixes.register([b"a", b"b"], pages)
    pool.release(pages[0])
    assert pool.available == 1
    assert pool.take(1) == [pages[0]]
    assert pool.prefixes.match([b"a", b"b"]) == []
    pool.release(pages[1])
    assert pool.available == 1


def test_no_page_is_lost_or_handed_out_twice():
    rng, pool, held = random.Random(0), PagePool(30), []
    for step in range(2000):
        count = rng.randint(1, 6)
        if rng.random() < 0.5 and count <= pool.available:
            pages = pool.take(count, after=rng.choice(held)[-1] if held else -1)
            assert not set(pages) & {page for other in held for page in other}
            if rng.random() < 0.5:
                pool.prefixes.register([b"%d.%d" % (step, i) for i in range(count)], pages)
            held.append(pages)
        elif held:
            for page in reversed(held.pop(rng.randrange(len(held)))):
                pool.release(page)
        assert pool.available == 30 - sum(map(len, held))
