"""Dependence between blocks: who reads what whom writes, in scopes and in single statements."""

from __future__ import annotations

import pytest

from relax.script import from_source
from relax.tir import BlockRealize, Schedule
from relax.tir.dependence import accesses, free_variables, loads_in, loops_of_scope, reads_no_other, scope_of, touches
from relax.tir.schedule import ScheduleState
from relax.tir.stmt import BufferStore, For

CHAIN = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    S = T.alloc_buffer((n,), "float32")
    for i in range(n):
        with T.block("P"):
            v = T.axis.spatial(n, i)
            S[v] = A[v]
        with T.block("C"):
            v = T.axis.spatial(n, i)
            B[v] = S[v] + S[T.max(v - 1, 0)]
    for j in range(n):
        with T.block("Q"):
            v = T.axis.spatial(n, j)
            S[v] = T.float32(0)
"""


def parsed(text):
    return from_source("from relax.script import tir as T\n" + text, allow_extern=True)


def scope(text=CHAIN):
    """The scope of a function's root block."""
    return scope_of(ScheduleState(Schedule(parsed(text)).mod).blocks("main")[0].block)


def child(facts, name) -> BlockRealize:
    return next(item for item in facts.children if item.block.name_hint == name)


def names(children):
    return [item.block.name_hint for item in children]


@pytest.mark.parametrize(
    "block, producers, consumers, overwriters",
    [("P", [], ["C", "Q"], []), ("C", ["P"], [], ["Q"]), ("Q", ["P"], [], [])],
)
def test_who_reads_what_whom_writes(block, producers, consumers, overwriters):
    facts = scope()
    this = child(facts, block)
    assert names(facts.producers(this)) == producers
    assert names(facts.consumers(this)) == consumers
    assert names(facts.overwriters(this)) == overwriters


def test_a_scope_lists_its_children_in_order():
    facts = scope()
    assert names(facts.children) == ["P", "C", "Q"]
    assert [facts.position(item) for item in facts.children] == [0, 1, 2]
    tables = {
        "writers": {buffer.name: names(items) for buffer, items in facts.writers.items()},
        "readers": {buffer.name: names(items) for buffer, items in facts.readers.items()},
    }
    assert tables == {"writers": {"S": ["P", "Q"], "B": ["C"]}, "readers": {"A": ["P"], "S": ["C"]}}
    assert {var.name for var in facts.variables} == {"i", "j"}
    assert [loop.loop_var.name for loop in loops_of_scope(facts.block.body)] == ["i", "j"]
    assert facts.loose == set()


def test_reading_what_is_summed_up_is_no_read():
    facts = scope("""
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 8):
        with T.block("sum"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
""")
    used = accesses(child(facts, "sum").block)
    assert {buffer.name for buffer in used.read_buffers} == {"A"}
    assert {buffer.name for buffer in used.written_buffers} == {"B"}
    assert not used.opaque


OPAQUE = """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("B"):
            v = T.axis.spatial(4, i)
            T.reads(A[0:4])
            T.writes(B[v])
            {body}
"""


@pytest.mark.parametrize(
    "body, opaque",
    [
        ("B[v] = A[v]", False),
        ("B[v] = T.exp(A[v])", False),
        ('B[v] = T.call_extern("float32", "f", A.data)', True),
        ('T.evaluate(T.call_extern("int32", "f", B.data))', True),
        ("while B[v] < A[v]:\n                B[v] = B[v] + T.float32(1)", True),
    ],
)
def test_what_is_behind_a_call_is_known_from_what_a_block_says(body, opaque):
    used = accesses(child(scope(OPAQUE.format(body=body)), "B").block)
    assert used.opaque is opaque
    if opaque:
        assert {buffer.name for buffer in used.read_buffers} >= {"A"}
        assert {buffer.name for buffer in used.written_buffers} == {"B"}


def test_statements_outside_of_blocks_and_views_of_their_buffers():
    facts = scope("""
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("B"):
            v = T.axis.spatial(4, i)
            B[v] = A[v] + C[v]
    B[0] = T.float32(1)
    T.evaluate(T.call_extern("int32", "f", A.data))
""")
    assert {buffer.name for buffer in facts.loose} == {"A", "B"}


def test_a_block_touches_what_it_reads_writes_and_allocates():
    facts = scope()
    (own,) = facts.block.alloc_buffers
    assert touches(facts.block, own)
    first = child(facts, "P").block
    assert touches(first, own)
    assert not touches(first, next(buffer for buffer in facts.writers if buffer.name == "B"))
    assert {var.name for var in free_variables(first)} == {"A", "S", "n"}


def test_facts_are_remembered_with_the_statements_that_stay():
    """After a rewrite of one nest, the facts about blocks of the others are the same objects."""
    sch = Schedule(parsed(CHAIN))
    before = scope_of(sch.state.blocks("main")[0].block)
    sch.parallel(sch.get_loops(sch.get_block("Q"))[0])
    after = scope_of(sch.state.blocks("main")[0].block)
    assert after is not before
    assert accesses(child(after, "P").block) is accesses(child(before, "P").block)
    assert names(after.consumers(child(after, "P"))) == ["C", "Q"]


@pytest.mark.parametrize(
    "value, expected",
    [
        ("C[j] + A[i]", True),
        ("A[i] * A[j]", True),
        ("C[j + 1] + A[i]", False),
        ("C[i]", False),
        ('T.call_extern("float32", "f", A[i])', False),
    ],
)
def test_reads_of_one_element(value, expected):
    func = parsed(f"""
@T.prim_func
def main(A: T.Buffer((9,), "float32"), C: T.Buffer((9,), "float32")):
    for i, j in T.grid(8, 8):
        C[j] = {value}
""")
    loop = func.body
    while isinstance(loop, For):
        loop = loop.body
    assert isinstance(loop, BufferStore)
    assert reads_no_other(loop.value, loop.buffer, loop.indices) is expected
    assert len(loads_in(loop.value)) == value.count("[")
