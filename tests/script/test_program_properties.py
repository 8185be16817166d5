"""Programs made at random: struct info of every kind, and functions of many statements, round-trip; time is linear."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relax import prim
from relax.derive.normalize import normalize_function
from relax.expr import BindingBlock, Constant, Function, MatchCast, SeqExpr, ShapeExpr, Tuple, Var, VarBinding, const
from relax.ir import GlobalVar, VDevice, assert_structural_equal
from relax.script import from_source
from relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from support import calls

DTYPES = ("float32", "float16", "bfloat16", "int8", "int64", "uint8", "bool", "float8_e5m2", "int4", "float4_e2m1fn")
SIZES = [prim.Var(name, "int64") for name in ("n", "m", "n")]  # two variables of one name

dims = st.recursive(
    st.sampled_from(SIZES) | st.integers(0, 9).map(lambda v: prim.IntImm("int64", v)),
    lambda inner: st.builds(
        lambda op, a, b: op(a, b),
        st.sampled_from([prim.Add, prim.Sub, prim.Mul, prim.FloorDiv, prim.FloorMod, prim.Min, prim.Max]),
        inner,
        inner,
    ),
    max_leaves=4,
)
shapes = st.none() | st.lists(dims, max_size=3)
devices = st.none() | st.builds(VDevice, st.sampled_from(["llvm", "cuda", "llvm -mcpu=x"]), st.integers(0, 2))
tensors = st.builds(TensorStructInfo, shapes, st.sampled_from(["", *DTYPES]), devices) | st.builds(
    lambda dtype, ndim: TensorStructInfo(None, dtype, None, ndim), st.sampled_from(DTYPES), st.integers(-1, 4)
)
leaves = st.one_of(
    tensors,
    st.builds(ShapeStructInfo, shapes),
    st.builds(lambda ndim: ShapeStructInfo(None, ndim), st.integers(-1, 4)),
    st.builds(PrimStructInfo, st.sampled_from(["int64", "bool", "float32"])),
    st.builds(lambda value: PrimStructInfo(None, value), dims),
    st.just(ObjectStructInfo()),
)
infos = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(lambda fields: TupleStructInfo(fields), st.lists(inner, max_size=3)),
        st.builds(lambda p, r, pure: FuncStructInfo(p, r, pure), st.lists(inner, max_size=2), inner, st.booleans()),
        st.builds(lambda r, pure: FuncStructInfo.opaque_func(ret=r, purity=pure), inner, st.booleans()),
    ),
    max_leaves=5,
)


def same_again(func):
    text = func.script(show_meta=True)
    assert_structural_equal(from_source(text, check_well_formed=False), func)
    return text


@given(st.lists(infos, max_size=3))
def test_signatures(params):
    """All shape variables are bound, so that only the printing of what mentions them is at stake."""
    bound = TensorStructInfo(list(dict.fromkeys(SIZES)), "float32")
    variables = [Var("x", info) for info in (bound, *params)]
    body = Tuple([*variables, ShapeExpr(SIZES)])
    same_again(normalize_function(Function(variables, body, None, True, {"global_symbol": "main"})))


@given(infos)
def test_annotations_and_casts(info):
    """In a body, what a match_cast mentions first is declared."""
    x, y, z = Var("x", ObjectStructInfo()), Var("y"), Var("y", ObjectStructInfo())
    block = BindingBlock([MatchCast(y, x, info), VarBinding(z, y)])
    func = Function([x], SeqExpr([block], Tuple((y, z))), None, True, {"global_symbol": "main"})
    same_again(normalize_function(func))


@given(infos)
def test_struct_info_alone(info):
    assert "\n" not in info.script()
    assert "<" not in info.script()


def program(count):
    lines = [
        "@R.function",
        'def main(x: R.Tensor(("n", 16), "float32")) -> R.Tensor(("n", 16), "float32"):',
        "    n = T.int64()",
        "    with R.dataflow():",
        "        lv = R.add(x, x)",
    ]
    lines += ["        lv = R.add(lv, x)" for _ in range(count)]
    return "\n".join([*lines, "        R.output(lv)", "    return lv"])


@pytest.mark.parametrize("count", [0, 1, 300])
def test_many_bindings(count):
    func = from_source(program(count))
    assert_structural_equal(from_source(func.script(show_meta=True)), func)


def test_parsing_and_printing_are_linear_in_the_bindings():
    def round_trip(text):
        from_source(from_source(text).script())

    round_trip(program(1))  # what is cached once is not counted
    small, large = (calls(round_trip, program(count)) for count in (100, 500))
    assert large < 5.2 * small


def test_nodes_in_attributes():
    shared = const([1.0] * 100, "float32")
    attrs = {
        "global_symbol": "main",
        "info": TensorStructInfo((2,), "float32"),
        "constant": shared,
        "value": prim.IntImm("int64", 3),
        "name": GlobalVar("f"),
        "device": VDevice("llvm"),
        "nested": {"a": [1, {"b": (2.5, None)}]},
    }
    func = normalize_function(Function([], Constant(shared.data), None, True, attrs))
    text = same_again(func)
    assert text.count('metadata["relax.expr.Constant"]') == 2
