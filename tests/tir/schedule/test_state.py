"""The state of a schedule: what a primitive rewrites, and that places of blocks and loops are always right."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from relax.ir import IRModule, children_of
from relax.tir import Schedule, ScheduleError
from relax.tir.schedule import ScheduleState
from relax.tir.statements import NOTHING

STAGE = """
    for i, j in T.grid(8, 8):
        with T.block("B{0}"):
            vi, vj = T.axis.remap("SS", [i, j])
            {2}[vi, vj] = {1}[vi, vj] + 1
"""


def chain(parse, blocks):
    """A function of some blocks, each of which reads what the one before it wrote."""
    lines = ['@T.prim_func\ndef main(A: T.Buffer((8, 8), "int32"), Z: T.Buffer((8, 8), "int32")):\n']
    names = ["A", *(f"Y{i}" for i in range(1, blocks)), "Z"]
    lines += [f'    {name} = T.alloc_buffer((8, 8), "int32")\n' for name in names[1:-1]]
    lines += [STAGE.format(i, names[i], names[i + 1]) for i in range(blocks)]
    return parse("".join(lines))


def nodes(mod):
    """All nodes of a module by their ids; they are kept alive."""
    found, stack = {}, [mod]
    while stack:
        node = stack.pop()
        if id(node) not in found:
            found[id(node)] = node
            stack.extend(children_of(node))
    return found


def split(sch, block):
    sch.split(sch.get_loops(block)[0], [None, 4])


def fuse(sch, block):
    sch.fuse(*sch.get_loops(block))


def reorder(sch, block):
    sch.reorder(*sch.get_loops(block)[::-1])


def parallel(sch, block):
    sch.parallel(sch.get_loops(block)[0])


def unit_loop(sch, block):
    sch.add_unit_loop(block)


def annotate(sch, block):
    sch.annotate(block, "note", 1)


def partition(sch, block):
    sch.loop_partition(sch.get_loops(block)[0], [2])


@pytest.mark.parametrize("step", [split, fuse, reorder, parallel, unit_loop, annotate, partition])
def test_a_primitive_rebuilds_the_path_to_the_root_and_nothing_else(parse, step):
    rebuilt = []
    for blocks, functions in ((3, 1), (30, 1), (30, 7)):
        func = chain(parse, blocks)
        module = IRModule({f"f{i}": chain(parse, 3) if i else func for i in range(functions)})
        sch = Schedule(module)
        before = nodes(sch.mod)
        step(sch, sch.get_block("B1", "f0"))
        rebuilt.append(len(nodes(sch.mod).keys() - before.keys()))
    assert rebuilt[0] == rebuilt[1] == rebuilt[2]
    assert rebuilt[0] < 100


def test_places_are_those_of_the_program(parse):
    sch = Schedule(chain(parse, 4))
    for number, step in enumerate((split, fuse, reorder, unit_loop)):
        step(sch, sch.get_block(f"B{number}"))
    fresh = ScheduleState(sch.mod)
    assert fresh.mod is sch.mod
    assert fresh.places.keys() == sch.state.places.keys()
    for key, place in fresh.places.items():
        assert sch.state.places[key].stmt is place.stmt
        assert sch.state.places[key].parent == place.parent


def test_names_and_variables_become_unique(parse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi]
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi] + B[vi]
""")
    sch = Schedule(IRModule({"f": func, "g": func}))
    blocks = [sch.get_block(name, function) for function in "fg" for name in ("B", "B_1")]
    variables = {sch.get_loops(block)[0].var for block in blocks}
    assert len(variables) == 4
    sch.unroll(sch.get_loops(blocks[2])[0])
    assert "T.unroll" in sch.mod["g"].script()
    assert "T.unroll" not in sch.mod["f"].script()
    assert Schedule(sch.mod).mod is sch.mod


def test_a_copy_costs_nothing_until_it_is_changed(parse):
    sch = Schedule(chain(parse, 30))
    copy = sch.copy()
    assert copy.state.places is sch.state.places
    assert copy.mod is sch.mod
    parallel(copy, copy.get_block("B3"))
    assert copy.state.places is not sch.state.places
    assert "T.parallel" not in sch.mod.script()


def test_the_benchmark_schedules_each_kind_of_module():
    path = Path(__file__).parents[3] / "benchmarks" / "schedule_state.py"
    spec = importlib.util.spec_from_file_location("schedule_state", path)
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    for make in benchmark.KINDS.values():
        rows = benchmark.schedule(make(10))
        assert {"Schedule", "split", "reorder", "fuse", "parallel", "copy"} <= set(rows)
        assert all(value >= 0 for value in rows.values())


def test_a_block_keeps_something_to_do(parse):
    """A statement that is all there is in a block is not replaced by nothing."""
    sch = Schedule(
        parse("""
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i in range(8):
        with T.block("outer"):
            vi = T.axis.spatial(8, i)
            for j in range(8):
                with T.block("inner"):
                    vj = T.axis.spatial(8, j)
                    B[vi, vj] = A[vi, vj]
""")
    )
    inner = sch.state.placed(sch.get_block("inner"))
    with pytest.raises(ScheduleError, match="the block outer would be left with nothing to do"):
        sch.state.replace(inner, NOTHING, "main")
