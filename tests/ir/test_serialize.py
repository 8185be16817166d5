"""Programs as JSON."""

from __future__ import annotations

import json
import sys

import ml_dtypes
import numpy as np
import pytest

from relax.ir import (
    DataType,
    GlobalVar,
    IRModule,
    Node,
    Op,
    VDevice,
    child,
    load_json,
    node,
    register_op,
    save_json,
    structural_equal,
)
from relax.prim import Add, Call, IntImm, Let, Var


@node
class Record(Node):
    """Fields of every kind that can be saved."""

    value: object
    more: tuple = child(default=(), converter=tuple)


VALUES = [
    None, True, False, 0, -(2**70), "text", "ünïcode \n\0", 1.5, float("inf"), float("-inf"), float("nan"), -0.0, 5e-324,
    (), (1, (2, 3)), {}, {"a": (1, {"b": 2})}, DataType("bfloat16"), DataType(""),
    np.arange(6, dtype="int32").reshape(2, 3), np.zeros((0, 3), "float16"), np.array(3.5), np.array([True, False]),
    np.array([1.5, -2], ml_dtypes.bfloat16), np.array([0.5], ml_dtypes.float8_e4m3fn), np.array([-8, 7], ml_dtypes.int4), np.array([np.nan, -0.0]),
    np.arange(6).reshape(2, 3).T,
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda v: type(v).__name__)
def test_values(value):
    back = load_json(save_json(Record(value)))
    assert structural_equal(back, Record(value))
    assert type(back.value) is type(value)


def test_shared_nodes_stay_shared():
    x = Var("x", "int64")
    expr = Let(x, IntImm("int64", 3), Add(x, x))
    back = load_json(save_json(expr))
    assert back.var is back.body.a is back.body.b
    assert structural_equal(back, expr)
    twice = load_json(save_json((expr, expr)))
    assert twice[0] is twice[1]


def test_ops_are_found_by_name():
    op = register_op("test.saved")
    assert load_json(save_json(op)) is op
    assert load_json(save_json(Call("int32", op, ()))).op is op


def test_a_module():
    mod = IRModule({}, attrs={"a": 1}, global_infos={"vdevice": [VDevice("llvm", 1)]})
    assert structural_equal(load_json(save_json(mod)), mod)


def test_spans_are_not_kept_and_names_are():
    assert load_json(save_json(Var("counter"))).name == "counter"
    assert load_json(save_json(GlobalVar("main"))).name_hint == "main"


def test_the_text_is_the_same_every_time():
    x = Var("x")
    assert save_json(x + x) == save_json(x + x)
    json.loads(save_json(x))


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "{}", '{"format": 2}', '{"format": 1, "root": 1, "nodes": []}', '{"format":2,"root":{"n":0},"nodes":[]}',
        '{"format":2,"root":{"n":-1},"nodes":[["op","tir.exp"]]}', '{"format":2,"root":{"q":1},"nodes":[]}',
        '{"format":2,"root":{"n":0},"nodes":[["os.system",[],null]]}', '{"format":2,"root":{"n":0},"nodes":[["prim.IntImm",[{"y":"int8"},300],null]]}',
        '{"format":2,"root":{"n":0},"nodes":[["prim.IntImm",[],null]]}', '{"format":2,"root":{"n":0},"nodes":[["op","no.such.op"]]}',
        '{"format":2,"root":{"a":["float32",[5],0]},"nodes":[],"data":[""]}',
        '{"format":2,"root":{"a":["float32",[-1],0]},"nodes":[],"data":["AAAA"]}',
        '{"format":2,"root":{"a":["float32",[1.0],0]},"nodes":[],"data":["AAAAAA=="]}',
        '{"format":2,"root":{"a":["float32",[true],0]},"nodes":[],"data":["AAAAAA=="]}',
        '{"format":2,"root":{"a":["float32",[1],1]},"nodes":[],"data":["AAAAAA=="]}',
        '{"format":2,"root":{"a":["float32",[1],-1]},"nodes":[],"data":["AAAAAA=="]}',
        '{"format":2,"root":{"a":["float32",[1],0]},"nodes":[]}',
        '{"format":2,"root":{"a":["float32",[1],0]},"nodes":[],"data":["AAAA!AA=="]}',
        '{"format":2,"root":{"a":["void",[1],0]},"nodes":[],"data":["AAAAAA=="]}', '{"format":2,"root":{},"nodes":[]}', '{"format":2,"root":{"n":1},"nodes":[[]]}',
        '{"format":2,"root":{"a":["float32",[1],0]},"nodes":[],"data":["!"]}', '{"format":2,"root":{"f":"x"},"nodes":[]}', "null", "3",
    ],
)  # fmt: skip
def test_other_text_is_refused(text):
    with pytest.raises(ValueError, match="not a saved relax program"):
        load_json(text)


def test_what_cannot_be_saved_says_so():
    with pytest.raises(TypeError, match="cannot save a function"):
        save_json(Record(lambda: 0))


def test_loading_an_op_registers_nothing():
    with pytest.raises(ValueError, match="not a saved relax program"):
        load_json('{"format":2,"root":{"n":0},"nodes":[["op","test.never"]]}')
    assert not Op.exists("test.never")


@pytest.mark.parametrize(
    "record",
    [["os.system", ["true"], None], ["builtins.eval", ["1"], None], ["subprocess.Popen", [["true"]], None],
     ["ir.Diagnostic", ["E1001", "x"], None], ["prim.Var", ["x", {"y": "int64"}], {"d": [["__class__", 1]]}],
     ["op", "relax.unknown"], ["prim.Var", [{"f": "os"}], None], ["prim.Var", [{"p": "x"}, {"y": "int64"}], None],
     ["prim.Var", [{"a": ["object", [1], ""]}, {"y": "int64"}], None]],
)  # fmt: skip
def test_json_makes_nodes_only(record):
    """A name that is no class of nodes is an error; no other package is imported, and nothing is unpickled."""
    before = set(sys.modules)
    text = json.dumps({"format": 2, "root": {"n": 0}, "nodes": [record]})
    try:
        made = load_json(text)
    except ValueError:
        made = None
    assert made is None or isinstance(made, Node)
    assert all(name.startswith("relax.") for name in sys.modules.keys() - before)
