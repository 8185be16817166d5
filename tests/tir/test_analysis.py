"""tir.analysis: questions about expressions, statements and functions."""

from __future__ import annotations

import pytest

from relax import te, tir
from relax.ir import DiagnosticError, IRModule
from relax.prim import simplify
from relax.tir import analysis
from relax.tir.analysis import CallEffectKind
from support import nodes

HEAD = """
@T.prim_func
def f(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32"), m: T.int32):
"""


def blocks(func):
    return {block.name_hint: block for block in nodes(func.body, tir.Block)}


# ---------------------------------------------------------------------------------------------- regions


def test_regions_of_a_block(parse):
    func = parse(
        HEAD
        + """
    for i in range(4):
        with T.block("b"):
            v = T.axis.spatial(4, i)
            A[v] = B[v * 2] + B[v * 2 + 1]
            T.evaluate(T.call_extern("int32", "g", A.data))
"""
    )
    by_data = {buffer.data: buffer for buffer in func.buffer_map.values()}
    block = blocks(func)["b"]
    reads, writes, opaque = analysis.get_block_access_region(block, by_data)
    text = [
        [f"{r.buffer.name}{r.region[0].min}:{r.region[0].extent}" for r in part] for part in (reads, writes, opaque)
    ]
    assert text == [["Bv * 2:2"], ["Av:1"], ["AT.int64(0):T.int64(16)"]]
    reads, writes = analysis.get_block_read_write_region(block, by_data)
    assert [r.buffer.name for r in reads] == ["B", "A"]
    assert [str(r.region[0].extent) for r in writes] == ["T.int64(16)"]


def test_the_smallest_statement_around_all_accesses(parse):
    func = parse(
        HEAD
        + """
    t = T.alloc_buffer((4, 4))
    u = T.alloc_buffer((4,))
    for i in range(4):
        for j in range(4):
            with T.block("t"):
                vi, vj = T.axis.remap("SS", [i, j])
                t[vi, vj] = A[vi * 4 + vj]
        for j in range(4):
            with T.block("u"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    u[vi] = T.float32(0)
                u[vi] = u[vi] + t[vi, vj]
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = B[vi] + T.float32(1)
"""
    )
    lca = analysis.detect_buffer_access_lca(func)
    names = {
        buffer.name: None if stmt is None else getattr(stmt, "name_hint", None) or stmt.loop_var.name
        for buffer, stmt in lca.items()
    }
    assert names == {"A": None, "B": None, "t": "i", "u": "i"}


# ---------------------------------------------------------------------------------------------- memory and work


def test_bytes(parse):
    func = parse(
        HEAD
        + """
    with T.allocate((10,), "int8") as a:
        with T.allocate((3, 4)) as b:
            a[0] = T.int8(1)
            b[0, 0] = T.float32(1)
        with T.allocate((30,), scope="local") as c:
            c[0] = T.float32(1)
        with T.allocate((T.Cast("int64", m),)) as d:
            A[0] = T.float32(1)
"""
    )
    assert analysis.calculate_workspace_bytes(func, 1) == 10 + 120
    assert analysis.calculate_workspace_bytes(func, 64) == 64 + 128
    assert analysis.calculate_allocated_bytes(func) == {"main": {"global": 58, "local": 120}}
    assert analysis.calculate_allocated_bytes(IRModule({"g": func})) == {"g": {"global": 58, "local": 120}}
    with pytest.raises(ValueError, match="the alignment is a positive number of bytes, found 0"):
        analysis.calculate_workspace_bytes(func, 0)


def matmul(n, m, k):
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), "r")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    d = te.compute((n, m), lambda i, j: te.max(c[i, j], tir.const(0.0, "float32")), name="D")
    return te.create_prim_func([a, b, d])


def test_operations():
    func = matmul(128, 128, 128)
    assert analysis.estimate_tir_flops(IRModule({"main": func})) == 2 * 128**3 + 128**2
    assert analysis.estimate_tir_flops(func.with_attr("estimated_flops", 32)) == 32


@pytest.mark.parametrize(
    "body, flops",
    [
        ("for i in range(8):\n        with T.LetStmt(i + 8) as j:\n            A[j] = B[j]", 8),
        (
            "for i in range(16):\n        if i % 2 == 0:\n            A[i] = B[i]\n        else:\n            A[i] = B[i] + B[0]",
            16,
        ),
        ("for i in range(4):\n        for j in range(i):\n            A[j] = A[j] + B[j]", 12),
        ("for i in range(m):\n        A[i] = -B[i] * T.exp(B[0] - B[1])", 3),
        ("A[T.Ramp(0, 1, 4)] = B[T.Ramp(0, 1, 4)] * B[T.Ramp(4, 1, 4)]", 4),
        ("while A[0] < B[0]:\n        A[0] = A[0] + B[1]", 1),
    ],
)
def test_operations_of_statements(parse, body, flops):
    assert analysis.estimate_tir_flops(parse(HEAD + "    " + body).body) == flops


@pytest.mark.parametrize(
    "body, count",
    [
        ("A[0] = B[0] + B[1]", "T.int64(1)"),
        ("for i in range(m):\n        A[i] = A[i] + B[i] * B[0]", "m * 2"),
        ("for i, j in T.grid(m, 4):\n        A[j] = A[j] + B[i]", "m * 4"),
        ("for i in range(m):\n        A[i] = -A[i]\n    for i in range(m):\n        A[i] = A[i] * B[i] + B[0]", "m * 3"),
        ("for i in range(m):\n        for j in range(m):\n            A[j] = A[j] + B[i]", "m * m"),
        ("for i in range((m + 3) // 4):\n        A[i] = A[i] + B[i]", 'T.Cast("int64", (m + 3) // 4)'),
        ("for i in range(m):\n        if i > 2:\n            A[i] = A[i] + B[i] + B[0]\n        else:\n            A[i] = B[i] + B[0]", "m * 2"),
        ("for i in range(4):\n        for j in range(i):\n            A[j] = A[j] + B[j]", None),
        ("while A[0] < B[0]:\n        A[0] = A[0] + B[1]", None),
    ],
)  # fmt: skip
def test_operations_as_an_expression_of_sizes(parse, body, count):
    found = analysis.operation_count(parse(HEAD + "    " + body))
    assert (None if found is None else str(simplify(found)).replace('T.Cast("int64", m)', "m")) == count


def test_a_count_beyond_int64_is_not_known(parse):
    loops = "for i, j, k in T.grid(1 << 30, 1 << 30, 8):\n        A[0] = A[0] + B[0]"
    assert analysis.operation_count(parse(HEAD + "    " + loops)) is None


def test_a_count_that_is_given():
    func = matmul(4, 5, 6).with_attr("estimated_flops", 32)
    assert str(analysis.operation_count(func)) == "T.int64(32)"


# ---------------------------------------------------------------------------------------------- blocks


def test_blocks():
    func = matmul(4, 5, 6)
    found = blocks(func)
    assert analysis.find_anchor_block(IRModule({"main": func})) is found["C"]
    assert analysis.is_output_block(func, found["D"])
    assert not analysis.is_output_block(func, found["C"])
    with pytest.raises(ValueError, match="block D is not in the function"):
        analysis.is_output_block(matmul(4, 5, 6), found["D"])
    assert analysis.find_anchor_block(func.replace(body=tir.Evaluate(0))) is None


@pytest.mark.parametrize(
    "body, branches",
    [
        ("A[0] = B[0]", False),
        ("if m > 0: A[0] = B[0]", True),
        ("A[0] = T.if_then_else(m > 0, B[0], B[1])", True),
        ("A[0] = T.Select(m > 0, B[0], B[1])", True),
        (
            "for i in range(16):\n        with T.block('b'):\n            v = T.axis.spatial(16, i)\n            A[v] = B[v]",
            False,
        ),
        (
            "for i in range(16):\n        with T.block('b'):\n            v = T.axis.spatial(16, i)\n"
            "            T.where(i < m)\n            A[v] = B[v]",
            True,
        ),
    ],
)
def test_branches(parse, body, branches):
    assert analysis.has_if_then_else(parse(HEAD + "    " + body).body) is branches


# ---------------------------------------------------------------------------------------------- effects


def test_effects_of_expressions():
    x, a = tir.Var("x", "float32"), tir.decl_buffer((4,), name="A")
    cases = [
        (x + 1, CallEffectKind.Pure),
        (tir.exp(x), CallEffectKind.Pure),
        (a[0] * 2, CallEffectKind.ReadState),
        (tir.call_extern("float32", "g", x) + a[0], CallEffectKind.Opaque),
        (tir.call_pure_extern("float32", "g", x), CallEffectKind.Pure),
        (tir.assume(x > 0), CallEffectKind.EmbedInfo),
        (tir.ret(x), CallEffectKind.ControlJump),
    ]
    assert [analysis.side_effect(expr) for expr, _ in cases] == [kind for _, kind in cases]


def test_pure_functions(parse):
    pure = parse(HEAD + "    with T.allocate((4,)) as t:\n        t[0] = A[0]")
    assert analysis.is_pure_function(pure)
    assert analysis.assert_pure_function(pure)
    impure = parse(HEAD + "    A[0] = B[0]\n    T.evaluate(T.call_extern('int32', 'g', m))")
    assert not analysis.is_pure_function(impure)
    with pytest.raises(DiagnosticError) as caught:
        analysis.assert_pure_function(impure)
    messages = [(d.code, d.message, d.span.line) for d in caught.value.diagnostics]
    assert messages == [
        ("E5021", "f is not pure: it stores to A, which it does not allocate", 5),
        ("E5021", "f is not pure: it calls call_extern", 6),
    ]


def test_a_view_of_a_parameter_is_no_storage_of_its_own(parse):
    func = parse(HEAD + "    v = T.decl_buffer((4,), data=A.data)\n    v[0] = B[0]")
    assert not analysis.is_pure_function(func)


# ---------------------------------------------------------------------------------------------- bindings


def test_ssa(parse):
    func = parse(HEAD + "    for i in range(4):\n        A[i] = B[i]")
    assert analysis.verify_ssa(func)
    assert analysis.verify_ssa(IRModule({"f": func}))
    assert not analysis.verify_ssa(IRModule({"f": func, "g": func}))
    assert not analysis.verify_ssa(func.replace(body=tir.SeqStmt((func.body, func.body))))
    n = tir.Var("n", "int64")
    a, b = tir.decl_buffer((n,), name="a"), tir.decl_buffer((n, n), name="b")
    p, q = tir.Var("p", "handle"), tir.Var("q", "handle")
    assert analysis.verify_ssa(tir.PrimFunc((p, q), tir.Evaluate(0), buffer_map={p: a, q: b}))


def test_undefined_vars():
    x, y, a = tir.Var("x"), tir.Var("y"), tir.decl_buffer((4,), "int32", name="a")
    stmt = tir.LetStmt(x, y + 1, tir.BufferStore(a, x, (y,)))
    assert list(map(id, analysis.undefined_vars(stmt))) == [id(y), id(a.data)]
    assert list(map(id, analysis.undefined_vars(stmt, [y]))) == [id(a.data)]
    assert analysis.expr_deep_equal(x + y, x + y)
    assert not analysis.expr_deep_equal(x + y, y + x)
