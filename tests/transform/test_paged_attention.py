"""CompilePagedAttention: calls that create paged KV caches are given compiled kernels."""

from __future__ import annotations

import numpy as np
import pytest
import tvm_ffi

import relax
from pages import append_case, appended, attention_case, check_attended
from relax.ir import assert_structural_equal
from relax.script import from_source
from relax.topi.paged_attention import PagedHeads, append_to_pages, attend_to_pages
from relax.transform import CompilePagedAttention

CREATE = "vm.builtin.paged_attention_kv_cache_create"
NO_FUNCTIONS = ", ".join(["none"] * 15)
SIZES = "R.shape([4, 1024, 128, 16])"
HEADS = "R.prim_value(6), R.prim_value(2), R.prim_value(64), R.prim_value(64)"
INIT = 'R.zeros(R.shape([]), "float32")'
OPTIONS = '(R.str("interleaved"), R.prim_value(True), R.str("rotary_dim"), R.prim_value(32))'


def call(sizes=SIZES, heads=HEADS, mode=1, factors="none, ", init="init", behind=""):
    """The text of a call that creates a cache."""
    return (
        f'R.call_packed("{CREATE}", {sizes}, R.shape([0, 2]), {heads}, R.shape([0, 0]), R.prim_value(False), '
        f"R.prim_value({mode}), R.prim_value(T.float32(1)), R.prim_value(T.float32(10000)), {factors}{init}, "
        f"{NO_FUNCTIONS}{behind}, sinfo_args=(R.Object,))"
    )


def program(*calls, init=INIT, parameters=""):
    """A program that makes the calls, and returns their results."""
    lines = "\n".join(f"        cache{i}: R.Object = {text}" for i, text in enumerate(calls))
    results = ", ".join(f"cache{i}" for i in range(len(calls)))
    return from_source(f"""
from relax.script import ir as I, relax as R, tir as T

@I.ir_module
class Program:
    @R.function(pure=False)
    def create({parameters}):
        init = {init}
        none = R.null_value()
{lines}
        return ({results},)
""")


def heads_of(mod):
    """The constants of the kernels of attention of a program, by name."""
    pairs = ((g.name_hint, f) for g, f in mod.functions.items())
    return {name: f for name, f in pairs if name.startswith("paged_attend")}


def test_kernels_stand_before_the_options():
    mod = CompilePagedAttention()(program(call(behind=f", {OPTIONS}")))
    text = mod.script()
    assert 'none, (cls.paged_append, cls.paged_attend), (R.str("interleaved")' in text
    heads = PagedHeads(6, 2, 64, 64, rotated=16, interleaved=True)
    for name, make in (("paged_append", append_to_pages), ("paged_attend", attend_to_pages)):
        assert_structural_equal(mod[name], make(heads).without_attr("global_symbol"), map_free_vars=True)
    assert CompilePagedAttention()(mod) is mod


def test_equal_caches_share_kernels():
    wide = HEADS.replace("(64)", "(128)")
    mod = CompilePagedAttention()(program(call(), call(), call(heads=wide), call(factors="")))
    assert set(heads_of(mod)) == {"paged_attend", "paged_attend1"}
    assert mod.script().count("(cls.paged_append, cls.paged_attend)") == 3


@pytest.mark.parametrize(
    ("mode", "behind", "init", "expected"),
    [
        (0, "", "float32", PagedHeads(6, 2, 64, 64)),
        (1, "", "float32", PagedHeads(6, 2, 64, 64, rotated=32)),
        (2, "", "bfloat16", PagedHeads(6, 2, 64, 64, 16, "bfloat16", "bfloat16", rotated=32)),
        (1, ', (R.str("softcap"), R.prim_value(T.float32(50)), R.str("page_dtype"), R.str("float16"))', "float32",
         PagedHeads(6, 2, 64, 64, page_dtype="float16", rotated=32, softcap=50.0)),
    ],
)  # fmt: skip
def test_constants_come_from_the_call(mode, behind, init, expected):
    mod = CompilePagedAttention()(program(call(mode=mode, behind=behind), init=INIT.replace("float32", init)))
    assert_structural_equal(
        mod["paged_attend"], attend_to_pages(expected).without_attr("global_symbol"), map_free_vars=True
    )


def test_a_pure_call_has_kernels_too():
    text = call().replace("R.call_packed(", "R.call_pure_packed(")
    assert heads_of(CompilePagedAttention()(program(text)))


@pytest.mark.parametrize(
    "text",
    [
        call(sizes="sizes"),
        call(heads=HEADS.replace("R.prim_value(2)", "heads")),
        call(heads=HEADS.replace("(2)", "(4)")),
        call(behind=', (R.str("softcap"), cap)'),
        call(behind=', (R.str("rotary_dim"), R.prim_value(80))'),
        call().replace(f", {NO_FUNCTIONS}", ""),
        'R.call_packed("my.cache", sizes=(R.Object,))'.replace("sizes=", "sinfo_args="),
    ],
)
def test_calls_that_are_left_alone(text):
    parameters = 'sizes: R.Shape(ndim=4), heads: R.Prim("int64"), cap: R.Prim("float32")'
    mod = program(text, parameters=parameters)
    assert CompilePagedAttention()(mod) is mod


def test_dtypes_without_kernels_are_left_alone():
    mod = program(call(), init=INIT.replace("float32", "float64"))
    assert CompilePagedAttention()(mod) is mod


def test_kernels_of_a_program_are_kept():
    mod = CompilePagedAttention()(program(call(behind=f", {OPTIONS}")))
    text = mod.script().replace("paged_attend", "my_attention")
    mine = from_source(text)
    assert CompilePagedAttention()(mine) is mine


@pytest.mark.parametrize("mode", ["bytecode", "compiled"])
def test_a_cache_calls_the_kernels(mode):
    """A function takes the place of the builtin: it keeps the kernels."""
    kept = []
    name = "tests.transform.paged_attention.create"
    tvm_ffi.register_global_func(name, lambda *args: kept.append(args[-2]) or 7, override=True)
    mod = CompilePagedAttention()(program(call(behind=f", {OPTIONS}")))
    mod = from_source(mod.script().replace(CREATE, name))
    machine = relax.VirtualMachine(relax.build(mod, "llvm", exec_mode=mode), relax.cpu())
    machine["create"]()
    append, attend = kept[0]
    heads = PagedHeads(6, 2, 64, 64, rotated=16, interleaved=True)
    check_attended(lambda *args: attend(*map(tvm_ffi.from_dlpack, args)), heads, attention_case(heads, (3,), (40,)))
    case = append_case(heads, 5, 3)
    expected = appended(heads, case)
    queries = np.zeros((5, 6, 64), "float32")
    append(*map(tvm_ffi.from_dlpack, (*case.values(), queries)))
    for result, right in zip((queries, case["keys"], case["values"]), expected, strict=True):
        np.testing.assert_allclose(result, right, rtol=1e-5, atol=1e-6)
