"""Parallel loops as functions: the text before and after, results, and when the pass declines."""

from __future__ import annotations

import re

import numpy as np
import pytest

from relax import codegen, tir
from relax.ir import IRModule, assert_structural_equal
from relax.script import from_source
from relax.target import Target
from relax.tir import interpret
from relax.tir.transform import NOT_PARALLEL, OutlineParallelLoops, lower
from support import compiled, interpreted, module, nodes, numbers, same


def outlined(text, **options):
    """The module after the pass: well-formed, unchanged by another run, and the same after printing and parsing."""
    after = OutlineParallelLoops(**options)(module(text))
    assert tir.verify_well_formed(after)
    assert OutlineParallelLoops(**options)(after) is after
    assert_structural_equal(from_source(after.script()), after)
    return after


def names(mod):
    return [global_var.name_hint for global_var in mod.functions]


def check(text, *args):
    """Interpreted, interpreted lowered (forwards and backwards) and compiled, with the same results."""
    before = module(text)
    after = lower(before)
    assert tir.verify_well_formed(after)
    assert lower(after) is after
    assert_structural_equal(from_source(after.script()), after)
    expected = interpreted(before["main"], *args, module=before)
    for reverse in (False, True):
        same(interpreted(after["main"], *args, module=after, reverse_parallel=reverse), expected)
    same(compiled(before, *args), expected)
    return after


COPY = """
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"tir.noalias": True})
        for i in T.parallel(8):
            B[i] = A[i]
"""

COPY_OUTLINED = """
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"tir.noalias": True})
        T.parallel_for(cls.main_parallel(0, 8, B.data, A.data), 1)

    @T.prim_func(private=True)
    def main_parallel(begin: T.int32, end: T.int32, B: T.Buffer((8,), "float32"), A: T.Buffer((8,), "float32")):
        T.func_attr({"tir.noalias": True, "tir.parallel_body": "main"})
        for i in T.serial(begin, end, annotations={"tir.parallel_range": (0, 8)}):
            B[i] = A[i]
"""


def test_before_and_after():
    assert_structural_equal(outlined(COPY), module(COPY_OUTLINED))


SCALARS = """
    @T.prim_func
    def main(a: T.handle, b: T.handle, scale: T.float32, m: T.int32):
        n = T.int64()
        A = T.match_buffer(a, (n, 4))
        B = T.match_buffer(b, (n, 4))
        for t in range(m):
            C = T.allocate((n, 4))
            x: T.float32 = scale + T.Cast("float32", t)
            for i in T.parallel(n):
                for j in T.parallel(4):
                    C[i, j] = A[i, j] * x
            for i in T.parallel(n):
                for j in range(4):
                    B[i, j] = B[i, j] + C[i, j]
"""


@pytest.mark.parametrize("n", [0, 1, 5])
def test_sizes_scalars_and_allocations_are_passed(n):
    a, b = numbers(n, 4), np.zeros((n, 4), "float32")
    after = check(SCALARS, a, b, 2.5, 3)
    assert names(after) == ["main", "main_parallel", "main_parallel_1"]
    assert "T.parallel(" not in after.script()
    assert [p.name for p in after["main_parallel"].params] == ["begin", "end", "C", "A", "x"]
    assert after["main_parallel"].attrs == {"tir.parallel_body": "main"}


def test_a_name_in_use_is_not_taken():
    taken = COPY + COPY_OUTLINED[COPY_OUTLINED.index("    @T.prim_func(private") :]
    assert names(outlined(taken)) == ["main", "main_parallel", "main_parallel_1"]


VIEWS = """
    @T.prim_func
    def main(a: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, 4))
        flat = T.decl_buffer((n * 4,), data=A.data)
        for i in T.parallel(n * 4):
            flat[i] = flat[i] + T.float32(1)
        for i in T.parallel(n):
            A[i, 0] = flat[i * 4] * T.float32(2)
"""


@pytest.mark.parametrize("n", [0, 1, 3])
def test_views_are_declared_again(n):
    after = check(VIEWS, numbers(n, 4))
    assert "flat = T.decl_buffer((n * 4,), data=" in after["main_parallel"].script()


STRIDED = """
    @T.prim_func
    def main(a: T.handle, B: T.Buffer((3, 2), "int32")):
        s, t = T.int64(), T.int64()
        A = T.match_buffer(a, (3, 2), "int32", strides=(s, t))
        for i in T.parallel(3):
            for j in range(2):
                B[i, j] = A[i, j]
"""


def test_strides_are_passed():
    after = outlined(STRIDED)
    assert names(after) == ["main", "main_parallel"]
    data = np.arange(24, dtype="int32").reshape(6, 4)[::2, ::2]
    out = np.zeros((3, 2), "int32")
    interpret(after["main"], data, out, module=after)
    np.testing.assert_array_equal(out, data)


DECLINES = {
    "it does not start at 0": ("i in T.parallel(1, 8)", "A[i] = A[i] + T.float32(1)", ""),
    "": ('i in T.parallel(8, annotations={"wish": 1})', "A[i] = A[i] + T.float32(1)", ""),
    "a size of buffer V is read from memory": (
        "i in T.parallel(8)",
        "V[i] = T.float32(1)",
        'V = T.decl_buffer((T.Cast("int64", N[0]),), data=A.data)',
    ),
    "buffer O has an offset": ("i in T.parallel(8)", "O[i] = T.float32(1)", ""),
}


@pytest.mark.parametrize("reason", DECLINES)
def test_a_loop_stays_serial_and_says_why(reason):
    """A loop with annotations keeps them: code generation refuses those that no pass has read."""
    loop, body, before = DECLINES[reason]
    after = OutlineParallelLoops()(
        module(f"""
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), N: T.Buffer((1,), "int32"), o: T.handle):
        k = T.int64()
        O = T.match_buffer(o, (8,), elem_offset=k)
        {before}
        for {loop}:
            {body}
""")
    )
    assert names(after) == ["main"]
    (serial,) = nodes(after["main"], tir.For)
    assert serial.kind is tir.ForKind.SERIAL
    assert serial.annotations == ({NOT_PARALLEL: reason} if reason else {"wish": 1})


def test_a_let_bound_pointer_is_not_passed():
    a = tir.decl_buffer((8,), "float32", "A")
    pointer, handle, i = tir.Var("q", "handle"), tir.Var("a", "handle"), tir.Var("i", "int64")
    view = tir.Buffer(pointer, "float32", (tir.const(8, "int64"),), name="V")
    loop = tir.For(i, 0, 8, "parallel", tir.BufferStore(view, 1.0, [i]))
    body = tir.LetStmt(pointer, tir.address_of(a[0]), tir.DeclBuffer(view, loop))
    after = OutlineParallelLoops()(IRModule({"main": tir.PrimFunc((handle,), body, buffer_map={handle: a})}))
    assert names(after) == ["main"]
    (serial,) = nodes(after["main"], tir.For)
    assert serial.kind is tir.ForKind.SERIAL
    assert serial.annotations == {NOT_PARALLEL: "the pointer q is neither a parameter nor an allocation"}


def test_a_bare_pointer_that_is_a_parameter_is_passed():
    text = """
    @T.prim_func
    def main(p: T.handle):
        V = T.decl_buffer((8,), data=p)
        for i in T.parallel(8):
            V[i] = T.float32(3)
"""
    after = outlined(text)
    assert names(after) == ["main", "main_parallel"]
    data = np.zeros(8, "float32")
    interpret(after["main"], data, module=after)
    assert data.tolist() == [3] * 8


@pytest.mark.parametrize("target, count", [
    (None, 2), ("llvm", 2), ("llvm -num-cores=4", 2), ("llvm -num-cores=1", 1),
])  # fmt: skip
def test_a_target_of_one_core_has_serial_loops(target, count):
    for resolve in (Target, codegen.resolve) if target and "num" in target else (Target,):
        chosen = None if target is None else resolve(target)
        after = outlined(COPY, target=chosen)
        assert len(after.functions) == count
        assert len(lower(module(COPY), chosen).functions) == count


def test_arguments_that_overlap_are_refused_as_before():
    """What the loop writes is known of the call: tir.noalias is checked for it, and not for what is only read."""
    text = COPY.replace("A: T.Buffer", 'Z: T.Buffer((8,), "float32"), A: T.Buffer').replace("= A[i]", "= A[i] + Z[i]")
    before, messages = module(text), []
    after, one, other = lower(before), np.ones(8, "float32"), np.zeros(8, "float32")
    runs = (
        lambda *args: interpret(before["main"], *args),
        lambda *args: interpret(after["main"], *args, module=after),
        codegen.build_module(before, "llvm -num-cores=4")["main"],
    )
    for run in runs:
        run(one, one, other)
        np.testing.assert_array_equal(other, 2 * one)
        with pytest.raises(ValueError, match="overlaps") as caught:
            run(one, other, other)
        messages.append(str(caught.value))
    assert messages[1:] == messages[:1] * 2


def test_a_lone_function_keeps_its_parallel_loops():
    func = lower(module(COPY)["main"])
    assert nodes(func, tir.For)[0].kind is tir.ForKind.PARALLEL
    assert lower(func) is func


def test_a_parallel_for_takes_a_call_of_a_range():
    with pytest.raises(TypeError, match=r"parallel_for: expected a call f\(begin, end, ...\) of a function"):
        tir.parallel_for(tir.const(1, "int32"), 0)


# ------------------------------------------------------------------------------------- machine code

MATMUL = """
    @T.prim_func
    def main(a: T.handle, b: T.handle, c: T.handle):
        T.func_attr({{"tir.noalias": True}})
        n, m, k = T.int64(), T.int64(), T.int64()
        A = T.match_buffer(a, (n, k))
        B = T.match_buffer(b, (k, m))
        C = T.match_buffer(c, (n, m))
        for i in T.{kind}(n):
            for j in range(m):
                C[i, j] = T.float32(0)
                for r in range(k):
                    C[i, j] = C[i, j] + A[i, r] * B[r, j]
"""

ROWS = """
    @T.prim_func
    def main(A: T.Buffer((64, 256), "float32"), B: T.Buffer((64, 256), "float32")):
        T.func_attr({{"tir.noalias": True}})
        for i in T.{kind}(64):
            for jo, ji in T.grid(16, 16):
                B[i, jo * 16 + ji] = A[i, jo * 16 + ji] * T.float32(2) + T.float32(1)
"""


@pytest.mark.parametrize("text", [MATMUL, ROWS], ids=["matmul", "rows"])
def test_vectors_and_checks_are_those_of_a_serial_loop(text):
    counts = []
    for kind in ("serial", "parallel"):
        built = codegen.build_module(module(text.format(kind=kind)), "llvm -mcpu=x86-64-v3 -num-cores=4 "
                                     "-mtriple=x86_64-linux-gnu")  # fmt: skip
        code = re.sub(r"^;.*\n", "", built.get_source("opt"), flags=re.MULTILINE)
        assert not re.search(r"(define|call) [^\n]*main_parallel", code)  # inlined, and no function is left behind
        found = re.search(r"define [^\n]*@relax\.(?:region|body)[^}]*\n}", code)  # what runs the loop
        body = found.group()
        counts.append([len(re.findall(what, body)) for what in (r"f(?:mul|add)[^\n]*<\d+ x float>", "relax.raise")])
        assert counts[-1][0]
    assert counts[0] == counts[1]


def test_an_error_inside_names_the_function_of_the_loop():
    text = """
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), I: T.Buffer((8,), "int64")):
        for i in T.parallel(8):
            A[I[i]] = T.float32(1)
"""
    messages = []
    for kind in ("serial", "parallel"):
        built = codegen.build_module(module(text.replace("parallel", kind)), "llvm -num-cores=4")
        assert built.functions == ("main",)
        with pytest.raises(IndexError) as caught:
            built["main"](np.zeros(8, "float32"), np.full(8, 9))
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert messages[0].startswith("main: ")


NESTED = """
    @T.prim_func
    def main(a: T.handle, b: T.handle):
        T.func_attr({"tir.noalias": True})
        n, m = T.int64(), T.int64()
        A = T.match_buffer(a, (n, m))
        B = T.match_buffer(b, (n, m))
        for i in T.parallel(n):
            t = T.allocate((m,))
            scale: T.float32 = T.Cast("float32", i) + T.float32(1)
            for j in T.parallel(m, annotations={"tir.stays_parallel": True}):
                t[j] = A[i, j] * scale
            for j in T.parallel(m, annotations={"tir.stays_parallel": True}):
                B[i, j] = t[j] + t[m - 1 - j]
"""


@pytest.mark.parametrize("n, m", [(0, 3), (1, 1), (1, 40), (5, 7), (3, 0)])
def test_a_loop_inside_that_stays_parallel_is_a_function_of_its_own(n, m):
    a = numbers(n, m)
    after = check(NESTED, a, np.zeros((n, m), "float32"))
    assert names(after) == ["main", "main_parallel", "main_parallel_1", "main_parallel_2"]
    assert after["main"].script().count("parallel_for") == 1
    assert after["main_parallel"].script().count("parallel_for") == 2
    assert "stays_parallel" not in after.script()
    assert {after[name].attrs["tir.parallel_body"] for name in names(after)[1:]} == {"main"}


def test_no_loop_stays_parallel_on_one_core():
    after = outlined(NESTED, target=Target("llvm -num-cores=1"))
    assert names(after) == ["main"]
    assert "stays_parallel" not in after.script()


def test_a_loop_stays_parallel_inside_of_one_that_cannot_be():
    text = NESTED.replace("for i in T.parallel(n)", "for i in T.parallel(0, n, annotations={'tir.not_parallel': 'no'})")
    after = check(text, np.ones((3, 5), "float32"), np.zeros((3, 5), "float32"))
    assert names(after) == ["main", "main_parallel", "main_parallel_1"]
