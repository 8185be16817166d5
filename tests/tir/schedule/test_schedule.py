"""Schedule itself: what it is made of, what it answers, and that a refusal changes nothing."""

from __future__ import annotations

import pytest

from relax.ir import IRModule
from relax.tir import Schedule, ScheduleError

FUNC = """
@T.prim_func
def main(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] + 1
"""


@pytest.fixture
def sch(parse):
    return Schedule(parse(FUNC), seed=1)


def test_random_variables_and_their_values(sch):
    block = sch.get_block("B")
    (loop,) = sch.get_loops(block)
    assert sch.get(loop).loop_var.name == "i"
    assert sch.get(block).name_hint == "B"
    v = sch.sample_categorical([3], [1.0])
    assert (sch.get(v), sch.get(v * 2 + 1), sch.get(5)) == (3, 7, 5)
    with pytest.raises(ScheduleError, match="an integer or an expression of random integers is needed, found 'x'"):
        sch.get("x")


def test_references_outlast_changes(sch):
    block = sch.get_block("B")
    (loop,) = sch.get_loops(block)
    reference = sch.get_sref(block)
    outer, inner = sch.split(loop, [4, 4])
    sch.unroll(inner)
    assert reference.stmt is sch.get(block)
    assert reference.parent.stmt is sch.get(inner)
    assert reference.parent.parent.stmt is sch.get(outer)
    assert reference.parent.parent.parent.stmt.name_hint == "root"
    assert reference.parent.parent.parent.parent is None
    assert sch.get(reference) is sch.get(block)
    assert sch.get_sref(sch.get(inner)).stmt is sch.get(inner)
    assert sch.get_sref(sch.get(block)).stmt is sch.get(block)
    with pytest.raises(ScheduleError, match="the loop i is no longer there"):
        sch.get_sref(loop)
    other = Schedule(sch.mod)
    with pytest.raises(ScheduleError, match="not in the program of the schedule"):
        other.get_sref(sch.get(inner).replace(annotations={"a": 1}))


def test_forgotten_random_variables(sch):
    block = sch.get_block("B")
    (loop,) = sch.get_loops(block)
    v = sch.sample_categorical([4], [1.0])
    for value in (block, loop, v):
        sch.remove_rv(value)
    for use in (lambda: sch.get_loops(block), lambda: sch.parallel(loop), lambda: sch.get(loop), lambda: sch.get(v)):
        with pytest.raises(ScheduleError):
            use()
    with pytest.raises(ScheduleError, match="is no random variable of this schedule"):
        sch.remove_rv("i")
    sch.parallel(sch.get_loops(sch.get_block("B"))[0])


def test_the_function_worked_on(parse):
    module = IRModule({"f": parse(FUNC), "g": parse(FUNC)})
    sch = Schedule(module)
    assert sch.func_working_on is None
    with pytest.raises(ScheduleError, match="the module has 2 PrimFuncs, none of which is called main"):
        sch.get_block("B")
    sch.work_on("g")
    assert sch.func_working_on is sch.mod.get_global_var("g")
    assert sch.get_block("B").function == "g"
    with pytest.raises(ScheduleError, match="the module has no PrimFunc 'h'"):
        sch.work_on("h")
    assert sch.func_working_on is sch.mod.get_global_var("g")


def test_copies(sch):
    block = sch.get_block("B")
    (loop,) = sch.get_loops(block)
    copy = sch.copy()
    copy.parallel(loop)
    assert "T.parallel" in copy.mod["main"].script()
    assert "T.parallel" not in sch.mod["main"].script()
    sch.split(loop, [None, 4])
    assert copy.get(loop).loop_var is loop.var
    again = copy.copy()
    again.unroll(loop)
    assert "T.parallel" in copy.mod["main"].script()


@pytest.mark.parametrize(
    "level, text", [("detail", "def main"), ("fast", "for i in range(16)"), ("none", "split failed")]
)
def test_levels_of_errors(parse, level, text):
    sch = Schedule(parse(FUNC), error_render_level=level)
    with pytest.raises(ScheduleError) as raised:
        sch.split(sch.get_loops(sch.get_block("B"))[0], [2, 2])
    assert text in str(raised.value)
    assert ("def main" in str(raised.value)) is (level == "detail")
    assert ("for i" in str(raised.value)) is (level != "none")


def test_arguments(parse):
    with pytest.raises(ScheduleError, match="takes a module or a PrimFunc, found int"):
        Schedule(3)
    with pytest.raises(ScheduleError, match="error_render_level must be one of detail, fast, none"):
        Schedule(parse(FUNC), error_render_level="loud")
    with pytest.raises(ScheduleError, match="did you mean 'B'"):
        Schedule(parse(FUNC)).get_block("b")


def test_random_integers_of_another_schedule(sch, parse):
    other = Schedule(parse(FUNC))
    v = other.sample_categorical([4], [1.0])
    with pytest.raises(ScheduleError):
        sch.split(sch.get_loops(sch.get_block("B"))[0], [None, v])
