"""ConvertSSA: every binding has a variable of its own, in the function and in the module."""

from __future__ import annotations

from relax import tir
from relax.ir import IRModule, assert_structural_equal
from relax.tir.transform import ConvertSSA

HEAD = """
@T.prim_func
def f(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
"""


def test_a_loop_twice(check, parse):
    func = parse(HEAD + "    for i in range(4):\n        A[i] = B[i] + i")
    twice = func.replace(body=tir.SeqStmt((func.body, func.body)))
    other = parse(
        HEAD + "    for i in range(4):\n        A[i] = B[i] + i\n    for i in range(4):\n        A[i] = B[i] + i"
    )
    assert not tir.analysis.verify_ssa(twice)
    check(ConvertSSA, twice, other)
    check(ConvertSSA, other, None)
    done = ConvertSSA()(IRModule({"f": twice}))["f"]
    assert tir.analysis.verify_ssa(done)
    first, second = done.body.seq
    assert first is func.body
    assert second.loop_var is not first.loop_var


def test_shadowing(check, parse):
    """An inner loop over the variable of the outer one, which is not well-formed."""
    a, b = (tir.decl_buffer((4,), "int32", name=name) for name in "AB")
    i, p, q = tir.Var("i", "int32"), tir.Var("a", "handle"), tir.Var("b", "handle")
    inner = tir.For(i, 0, 4, "serial", tir.BufferStore(b, i + 1, (i,)))
    body = tir.For(i, 0, 4, "serial", tir.SeqStmt((inner, tir.BufferStore(a, i, (i,)))))
    func = tir.PrimFunc((p, q), body, buffer_map={p: a, q: b})
    assert not tir.verify_well_formed(func, assert_mode=False)
    expected = parse(
        HEAD + "    for i in range(4):\n        for j in range(4):\n            B[j] = j + 1\n        A[i] = i"
    )
    result = ConvertSSA()(IRModule({"f": func}))["f"]
    assert_structural_equal(result, expected.replace(attrs={}))
    tir.verify_well_formed(result)


def test_storage_lets_and_blocks(check, parse):
    body = """
    with T.block("root"):
        with T.allocate((4,), "int32") as t:
            v = T.decl_buffer((2,), "int32", data=t.data)
            with T.LetStmt(A[0] + 1) as x:
                t[x % 4] = x
                for i in range(2):
                    with T.block("b"):
                        k = T.axis.spatial(2, i)
                        u = T.alloc_buffer((4,), "int32")
                        w = T.match_buffer(B[k : k + 2], (2,), "int32", offset_factor=1)
                        u[k] = v[k] + w[1]
                        A[k] = u[k] + x
"""
    func = parse(HEAD + body)
    twice = func.replace(body=tir.SeqStmt((func.body, func.body)))
    written_twice = parse(HEAD + body + body)  # which the parser puts into a root block
    check(ConvertSSA, twice, written_twice.replace(body=written_twice.body.block.body))
    assert tir.analysis.verify_ssa(ConvertSSA()(IRModule({"f": twice}))["f"])


def test_functions_of_a_module(parse):
    func = parse(
        "@T.prim_func\ndef f(A: T.Buffer(('n',), 'int32')):\n    n = T.int64()\n    for i in range(n): A[i] = 1"
    )
    module = IRModule({"f": func, "g": func})
    result = ConvertSSA()(module)
    assert result["f"] is func
    assert result["g"] is not func
    assert_structural_equal(result["g"], func)
    bound = [{*f.params, *f.buffer_map.values(), *f.buffer_map[f.params[0]].shape} for f in result.functions.values()]
    assert not bound[0] & bound[1]
    assert ConvertSSA()(result) is result
