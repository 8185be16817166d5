"""Traces: what a schedule did, printed, saved, replayed, simplified, and with other decisions."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from relax import ir, tir
from relax.ir import IRModule, assert_structural_equal, save_json
from relax.tir import Schedule, ScheduleError
from relax.tir.schedule import Instruction, InstructionKind, Trace, base

MATMUL = """
@T.prim_func
def main(A: T.Buffer((16, 8), "float32"), B: T.Buffer((8, 12), "float32"), C: T.Buffer((16, 12), "float32")):
    for i, j, k in T.grid(16, 12, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


def tiled(sch):
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    tiles = sch.sample_perfect_tile(i, n=2, decision=[4, 4])
    outer, inner = sch.split(i, tiles)
    width = sch.sample_categorical([2, 4, 6], [0.2, 0.3, 0.5], decision=1)
    j_outer, j_inner = sch.split(j, [None, width])
    sch.get_child_blocks(sch.get_block("root"))  # of no use to anybody
    sch.reorder(outer, j_outer, k, inner, j_inner)
    sch.parallel(sch.fuse(outer, j_outer))
    sch.annotate(block, "width", width * 2 + 1)
    sch.enter_postproc()
    sch.vectorize(j_inner)


TEXT = """\
from relax import tir


def apply_trace(sch: tir.Schedule) -> None:
    b0 = sch.get_block(name="C")
    l1, l2, l3 = sch.get_loops(block=b0)
    v4, v5 = sch.sample_perfect_tile(loop=l1, n=2, decision=[4, 4])
    l6, l7 = sch.split(loop=l1, factors=[v4, v5])
    v8 = sch.sample_categorical(candidates=[2, 4, 6], probs=[0.2, 0.3, 0.5], decision=1)
    l9, l10 = sch.split(loop=l2, factors=[None, v8])
    b11 = sch.get_block(name="root")
    b12, = sch.get_child_blocks(block_or_loop=b11)
    sch.reorder(l6, l9, l3, l7, l10)
    l13 = sch.fuse(l6, l9)
    sch.parallel(loop=l13)
    sch.annotate(block_or_loop=b0, ann_key="width", ann_val=v8 * 2 + 1)
    sch.enter_postproc()
    sch.vectorize(loop=l10)
"""


@pytest.fixture
def func(parse):
    return parse(MATMUL)


@pytest.fixture
def sch(func):
    sch = Schedule(func, seed=1)
    tiled(sch)
    return sch


def test_the_text_and_all_ways_of_replaying(func, check, sch):
    check(func, tiled)
    assert str(sch.trace) == TEXT
    assert sch.trace.as_python() == [line.strip() for line in TEXT.splitlines()[4:]]


def test_the_text_is_a_program_of_its_own(func, sch, tmp_path):
    saved = tmp_path / "func.json"
    saved.write_text(save_json(func))
    script = tmp_path / "steps.py"
    tail = f"""
import relax.script
from relax.ir import load_json
sch = tir.Schedule(load_json(open({str(saved)!r}).read()))
apply_trace(sch)
print(sch.mod["main"].script())
"""
    script.write_text(str(sch.trace) + tail)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout == sch.mod["main"].script() + "\n"


def test_the_saved_form(func):
    sch = Schedule(func)
    i, _, _ = sch.get_loops(sch.get_block("C"))
    (v,) = sch.sample_perfect_tile(i, n=1, max_innermost_factor=16)
    sch.split(i, [None, v])
    assert sch.trace.as_json() == [
        [
            ["GetBlock", {"name": "C", "func_name": None}, ["b0"]],
            ["GetLoops", {"block": {"rv": "b0"}}, ["l1", "l2", "l3"]],
            ["SamplePerfectTile", {"loop": {"rv": "l1"}, "n": 1, "max_innermost_factor": 16}, ["v4"]],
            [
                "Split",
                {
                    "loop": {"rv": "l1"},
                    "factors": [None, sch.trace.as_json()[0][3][1]["factors"][1]],
                    "preserve_unit_iters": True,
                    "disable_predication": False,
                },
                ["l5", "l6"],
            ],
        ],
        [[2, [16]]],
    ]
    assert list(sch.trace.as_json()[0][3][1]["factors"][1]) == ["expr"]


def test_post_processing_is_left_out(func, sch):
    for trace in (
        sch.trace.simplified(remove_postproc=True),
        sch.trace.with_decision(sch.trace.insts[2], [8, 2], True),
    ):
        assert "enter_postproc" not in str(trace)
        assert "vectorize" not in str(trace)
    other = Schedule(func)
    sch.trace.apply_to_schedule(other, remove_postproc=True)
    assert "T.vectorized" not in other.mod["main"].script()
    assert "T.parallel" in other.mod["main"].script()
    assert sch.trace.as_json(remove_postproc=True)[0][-1][0] == "Annotate"


def test_dead_instructions_are_dropped(func, sch):
    simple = sch.trace.simplified()
    assert "b11" not in str(simple)
    assert "get_child_blocks" not in str(simple)
    assert len(simple) == len(sch.trace) - 2
    assert simple.decisions == sch.trace.decisions
    unused = Schedule(func)
    for v in unused.sample_perfect_tile(unused.get_loops(unused.get_block("C"))[0], 2):
        unused.get(v)
    assert len(unused.trace.simplified()) == 0
    assert (
        str(unused.trace.simplified())
        == "from relax import tir\n\n\ndef apply_trace(sch: tir.Schedule) -> None:\n    pass\n"
    )


def test_other_decisions(func, sch):
    inst = sch.trace.insts[2]
    assert inst.kind.name == "SamplePerfectTile"
    assert sch.trace.get_decision(inst) == [4, 4]
    changed = sch.trace.with_decision(inst, [2, 8], remove_postproc=False)
    assert changed.get_decision(inst) == [2, 8]
    assert sch.trace.get_decision(inst) == [4, 4]
    other = Schedule(func)
    changed.apply_to_schedule(other)
    assert "decision=[2, 8]" in str(other.trace)
    assert other.mod["main"].script() != sch.mod["main"].script()
    with pytest.raises(ScheduleError, match="Split takes no decision"):
        sch.trace.with_decision(sch.trace.insts[3], 1)
    with pytest.raises(ScheduleError, match="SamplePerfectTile is not of this trace"):
        Schedule(func).trace.with_decision(inst, 1)


def test_an_instruction_without_the_one_that_gives_its_argument(func, sch):
    """Such a trace is neither applied nor printed nor saved."""
    for broken in (Trace(sch.trace.insts[1:]), Trace(sch.trace.insts[:1] + sch.trace.insts[2:])):
        for use in (lambda trace: trace.apply_to_schedule(Schedule(func)), str, Trace.as_json):
            with pytest.raises(ScheduleError, match="is not an output of any instruction of the trace"):
                use(broken)


def test_arguments_that_no_file_can_hold(sch):
    first, *_ = sch.trace.insts
    with pytest.raises(ScheduleError, match="a object cannot be saved"):
        Trace([replace(first, arguments={"name": object()})]).as_json()


def test_a_provider_of_decisions(func, sch):
    asked = []

    def provide(inst, inputs, attrs, decision):
        asked.append((inst.kind.name, len(inputs), attrs, decision))
        return None if inst.kind.name == "SampleCategorical" else [1, 16]

    other = Schedule(func, seed=3)
    sch.trace.apply_to_schedule(other, decision_provider=provide)
    assert asked == [
        ("SamplePerfectTile", 1, [2, 16], [4, 4]),
        ("SampleCategorical", 0, [[2, 4, 6], [0.2, 0.3, 0.5]], 1),
    ]
    assert other.trace.get_decision(other.trace.insts[2]) == [1, 16]


def test_on_another_function(parse, sch):
    wider = parse(MATMUL.replace("16", "32").replace("12", "20"))
    other = Schedule(wider, debug_mask="all")
    sch.trace.apply_to_schedule(other)
    assert "decision=[8, 4]" in str(other.trace)
    assert "T.parallel(40)" in other.mod["main"].script()


def test_a_trace_that_does_not_fit(parse, sch):
    vector = parse("""
@T.prim_func
def main(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = A[vi]
""")
    message = "get_loops gave 1 results, but the trace goes on with 3"
    with pytest.raises(ScheduleError, match=message):
        sch.trace.apply_to_schedule(Schedule(vector))
    with pytest.raises(ScheduleError, match=message):
        Trace.apply_json_to_schedule(sch.trace.as_json(), Schedule(vector))
    renamed = parse(MATMUL.replace('T.block("C")', 'T.block("D")'))
    with pytest.raises(ScheduleError, match="get_block: function main has no block 'C'"):
        sch.trace.apply_to_schedule(Schedule(renamed))


def rv(name):
    return {"rv": name}


GET = ["GetBlock", {"name": "C"}, ["b0"]]
LOOPS = ["GetLoops", {"block": rv("b0")}, ["l1", "l2", "l3"]]


@pytest.mark.parametrize(
    "document, message",
    [
        (None, "it is not a list of instructions and one of decisions"),
        ({}, "it is not a list of instructions"),
        ([[]], "it is not a list of instructions"),
        ([[], {}], "it is not a list of instructions"),
        ([["GetBlock"], []], "instruction 0 is not a kind, its arguments and its outputs"),
        ([[["GetBlock", [], []]], []], "instruction 0 is not a kind"),
        ([[[3, {}, []]], []], "instruction 0 is not a kind"),
        ([[["Transmogrify", {}, []]], []], "there is no primitive 'Transmogrify'"),
        ([[["GetBlock", {"nam": "C"}, []]], []], "get_block has no argument 'nam'"),
        ([[["GetBlock", {}, []]], []], "get_block needs the argument name"),
        ([[["GetLoops", {"block": rv("b7")}, []]], []], "no instruction gives 'b7'"),
        ([[["GetLoops", {"block": {"rv": "b0", "x": 1}}, []]], []], "is no value"),
        ([[["GetLoops", {"block": {"thing": 1}}, []]], []], "'thing' is no kind of value"),
        ([[["GetLoops", {"block": {"node": 1}}, []]], []], "node: not a saved relax program"),
        ([[["GetLoops", {"block": {"dict": 1}}, []]], []], "this is no saved trace: dict: "),
        ([[["GetLoops", {"block": {"float": "x"}}, []]], []], "this is no saved trace: float: "),
        ([[GET], [[0, 1]]], "instruction 0, GetBlock, takes no decision"),
        ([[GET], [[1, 1]]], "is not one of an instruction"),
        ([[GET], [["0", 1]]], "is not one of an instruction"),
        ([[GET], [1]], "is not one of an instruction"),
        ([[["GetLoops", {"block": {"expr": 1}}, []]], []], "expr: not a saved relax program"),
        ([[GET, ["GetLoops", {"block": rv("b0")}, ["l1"]]], []], "get_loops gave 3 results"),
    ],
)
def test_values_that_are_no_trace(func, document, message):
    with pytest.raises(ScheduleError) as raised:
        Trace.apply_json_to_schedule(document, Schedule(func))
    assert message in str(raised.value)
    assert raised.value.diagnostics[0].code == "E8107"


def test_values_of_the_wrong_kind_are_refused_by_primitives(func):
    for arguments, message in (
        ({"loop": rv("b0"), "factors": [2, None]}, "split: loop must be a loop, found BlockRV"),
        ({"loop": rv("l1"), "factors": [0, None]}, "the factor 0 is not known to be 1 or more"),
        ({"loop": rv("l1"), "factors": 3}, "split: factors must be a list, found 3"),
        (
            {"loop": rv("l1"), "factors": ["a"]},
            "split: factors\\[0\\] must be an integer, an expression or None, found 'a'",
        ),
    ):
        with pytest.raises(ScheduleError, match=message):
            Trace.apply_json_to_schedule([[GET, LOOPS, ["Split", arguments, ["l4", "l5"]]], []], Schedule(func))


def test_as_a_list(func, sch):
    trace = sch.trace.copy()
    count = len(trace)
    last = trace.pop()
    assert (last.kind.name, len(trace), len(sch.trace)) == ("Vectorize", count - 1, count)
    trace.append(last)
    assert str(trace) == str(sch.trace)
    built = Trace(trace.insts, trace.decisions)
    assert str(built) == str(sch.trace)
    other = Schedule(func)
    built.apply_to_schedule(other)
    assert_structural_equal(other.mod, sch.mod)
    assert Trace().pop() is None
    assert [inst.kind.name for inst in trace][:2] == ["GetBlock", "GetLoops"]
    assert repr(trace) == f"<Trace of {count} instructions>"


def test_copies_go_on_apart(func, sch):
    copy = sch.copy()
    before = str(sch.trace)
    copy.get_block("C")
    sch.get_block("root")
    assert str(copy.trace).count("\n") == str(sch.trace).count("\n") == before.count("\n") + 1
    assert 'name="root"' in str(sch.trace).splitlines()[-1]
    assert 'name="C"' in str(copy.trace).splitlines()[-1]


def test_instructions(sch):
    split = sch.trace.insts[3]
    loop, first, second = split.inputs
    assert loop is sch.trace.insts[1].outputs[0]
    assert [first, second] == list(sch.trace.insts[2].outputs)
    assert split.attrs == [True, False]
    assert split.kind is InstructionKind.get("Split") is InstructionKind.get("split")
    assert not split.kind.is_pure
    assert InstructionKind.get("GetBlock").is_pure
    assert InstructionKind.get("EnterPostproc").is_postproc
    assert repr(sch.trace.insts[0]) == "Instruction(GetBlock: name='C', func_name=None)"
    assert isinstance(split, Instruction)


def test_refused_primitives_are_not_in_the_trace(func):
    sch = Schedule(func)
    loops = sch.get_loops(sch.get_block("C"))
    with pytest.raises(ScheduleError):
        sch.parallel(loops[2])
    assert len(sch.trace) == 2


def test_a_module_of_several_functions(parse):
    module = IRModule({"first": parse(MATMUL), "second": parse(MATMUL)})
    sch = Schedule(module, debug_mask="all")
    sch.work_on("second")
    sch.unroll(sch.get_loops(sch.get_block("C"))[0])
    sch.parallel(sch.get_loops(sch.get_block("C", func_name="first"))[0])
    sch.unroll(sch.get_loops(sch.get_block("C", module.get_global_var("second")))[1])
    direct, text, saved = (Schedule(module) for _ in range(3))
    sch.trace.apply_to_schedule(direct)
    names = {}
    exec(str(sch.trace), names)
    names["apply_trace"](text)
    Trace.apply_json_to_schedule(json.loads(json.dumps(sch.trace.as_json())), saved)
    for other in (direct, text, saved):
        assert_structural_equal(other.mod, sch.mod)
    assert sch.func_working_on.name_hint == "second"


def test_values_of_all_kinds(func, sch):
    value = [1, -2.5, float("inf"), True, None, "a'b", [1, [2]], {"k": (1, "x")}]
    block = sch.trace.insts[0].outputs[0]
    inst = Instruction(InstructionKind.get("Annotate"), {"block_or_loop": block, "ann_key": "a", "ann_val": value})
    trace = Trace([sch.trace.insts[0], inst])
    assert '[1, -2.5, float("inf"), True, None, ' in str(trace)
    names = {"block": None}
    text = trace.as_python()[-1].partition("ann_val=")[2][:-1]
    assert eval(text, names) == value
    json.dumps(trace.as_json(), allow_nan=False)


def test_nodes_and_index_maps_are_saved(func):
    nodes = {
        "map": tir.IndexMap.from_func(lambda i, j: (j, i // 4, i % 4)),
        "size": tir.const(3, "int64"),
        "body": func.body,
    }
    sch = Schedule(func)
    block = sch.get_block("C")
    inst = Instruction(InstructionKind.get("Annotate"), {"block_or_loop": block, "ann_key": "a", "ann_val": nodes})
    trace = Trace([*sch.trace.insts, inst])
    text = str(trace)
    assert "'map': lambda i, j: (j, i // 4, i % 4)" in text.replace('"', "'")
    assert 'tir.const(3, "int64")' in text
    assert "from relax import ir, tir" in text
    line = trace.as_python()[-1].partition("ann_val=")[2][:-1]
    values = eval(line, {"ir": ir, "tir": tir})
    assert_structural_equal(values["size"], nodes["size"])
    assert_structural_equal(tir.IndexMap.from_func(values["map"]), nodes["map"])
    assert_structural_equal(values["body"], nodes["body"], map_free_vars=True)
    json.dumps(trace.as_json())


@pytest.mark.parametrize("value, message", [(object(), "a object cannot be (written|saved)")])
def test_what_cannot_be_written(func, value, message):
    sch = Schedule(func)
    block = sch.get_block("C")
    inst = Instruction(InstructionKind.get("Annotate"), {"block_or_loop": block, "ann_key": "a", "ann_val": value})
    trace = Trace([*sch.trace.insts, inst])
    for write in (trace.as_python, trace.as_json):
        with pytest.raises(ScheduleError, match=message) as raised:
            write()
        assert raised.value.diagnostics[0].code == "E8107"


def test_show(sch, capsys):
    sch.trace.show()
    assert capsys.readouterr().out == TEXT
    sch.show()
    shown = capsys.readouterr().out
    assert shown.startswith("# from relax.script")
    assert shown.endswith(TEXT)


def test_functions_become_index_maps(func, monkeypatch):
    """A primitive is given functions: the trace has what they are, or what the primitive says that they are."""

    @base.primitive
    def move(sch, block, index_map, other=None):
        if callable(other):
            sch.recorded["other"] = tir.IndexMap.from_func(other, ndim=2)

    monkeypatch.setattr(Schedule, "move", move, raising=False)
    try:
        sch = Schedule(func)
        sch.move(sch.get_block("C"), lambda i, j: (j, i), other=lambda *indices: indices[::-1])
        last = (
            "sch.move(block=b0, index_map=lambda i, j: (j, i), other=lambda indices0, indices1: (indices1, indices0))"
        )
        assert sch.trace.as_python()[-1] == last
        for other in (Schedule(func), Schedule(func)):
            Trace.apply_json_to_schedule(json.loads(json.dumps(sch.trace.as_json())), other)
            assert other.trace.as_python() == sch.trace.as_python()
        sch.move(sch.get_block("C"), lambda *indices: indices)
        with pytest.raises(ScheduleError, match="argument index_map: a function cannot be written"):
            str(sch.trace)
        sch.trace.apply_to_schedule(Schedule(func))
    finally:
        del base.PRIMITIVES["move"]
