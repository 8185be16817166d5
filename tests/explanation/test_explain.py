"""Explanations of machine code: what is counted in each loop, and why a loop is not vectorised."""

from __future__ import annotations

import re
import sys

import pytest

import relax
from relax import te, tir
from relax.codegen.module import kernel_texts
from relax.explanation import explain
from relax.explanation.assembly import Instruction, machine_loops
from relax.explanation.instructions import effect_of
from relax.explanation.lines import with_lines
from relax.explanation.remarks import read_remarks, reason_of
from relax.farm import worker
from relax.farm.host import resolve
from relax.farm.objects import machine_of
from relax.ir import DiagnosticError, IRModule
from relax.script import from_source
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T

AVX512 = "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512"
NEON = "llvm -mtriple=aarch64-linux-gnu"


def gemm(rows, vectors, lanes=16):
    """A matrix product whose innermost loop adds up a tile of rows x vectors in registers."""
    width = vectors * lanes

    @T.prim_func
    def gemm(
        A: T.Buffer((rows * 8, 64), "float32"),
        B: T.Buffer((2, 64, width), "float32"),
        C: T.Buffer((rows * 8, width * 2), "float32"),
    ):
        T.func_attr({"tir.noalias": True})
        for jo in range(2):
            for io in range(8):
                acc = T.alloc_buffer((rows, width), "float32", scope="local")
                for i in T.unroll(rows):
                    for v in T.unroll(vectors):
                        for l in T.vectorized(lanes):
                            acc[i, v * lanes + l] = T.float32(0)
                for k in range(64):
                    for i in T.unroll(rows):
                        for v in T.unroll(vectors):
                            for l in T.vectorized(lanes):
                                acc[i, v * lanes + l] = (
                                    acc[i, v * lanes + l] + A[io * rows + i, k] * B[jo, k, v * lanes + l]
                                )
                for i in T.unroll(rows):
                    for v in T.unroll(vectors):
                        for l in T.vectorized(lanes):
                            C[io * rows + i, jo * width + v * lanes + l] = acc[i, v * lanes + l]

    return gemm


def test_a_tile_in_registers():
    """The acceptance of register blocking: nothing but multiply-adds, and no register goes to the stack."""
    [report] = explain(gemm(6, 4), AVX512).loops
    main = report.main
    assert report.name == "gemm: jo > io > k"
    assert report.is_vectorised is True
    assert main.vector_bits == 512
    assert main.fmas == 24
    assert main.flops == 24 * 16 * 2
    assert (main.spills, main.reloads, main.stores, main.shuffles, main.gathers) == (0, 0, 0, 0, 0)
    assert main.loads == 4 + 6
    assert report.loads_per_flop == 10 / 768
    assert report.stores_per_flop == 0
    assert main.cycles == 12
    assert report.reason == ""


def test_a_tile_that_is_too_large_for_the_registers():
    explanation = explain(gemm(12, 4), AVX512)
    [report] = explanation.loops
    assert report.main.fmas == 48
    assert report.main.spills > 0
    assert report.main.reloads > 0
    assert f"too few registers: {report.main.spills} writes to the stack" in str(explanation)


@T.prim_func
def functions(A: T.Buffer((640,), "float32"), B: T.Buffer((640,), "float64"), S: T.Buffer((1,), "float32")):
    T.func_attr({"tir.noalias": True})
    for i in range(640):
        S[0] = S[0] + T.exp(A[i])
    for j in range(640):
        B[j] = T.pow(B[j], B[j])


def test_exp_of_float32_is_computed_in_vectors_and_pow_of_float64_by_the_library():
    exp, power = explain(functions, AVX512).loops
    assert exp.is_vectorised
    assert (exp.lanes, exp.main.calls) == (16, ())
    assert exp.main.fmas >= 5
    assert exp.main.stores == 0
    assert not power.is_vectorised
    assert power.main.calls == ("pow",)
    assert power.main.cycles is None
    assert power.reason == "it calls pow, element by element"


@T.prim_func
def strided(A: T.Buffer((640, 64), "float32"), B: T.Buffer((640,), "float32")):
    T.func_attr({"tir.noalias": True})
    for i in range(640):
        B[i] = A[i, 0] + A[i, 17]


def test_a_stride_is_gathered_or_read_element_by_element():
    [report] = explain(strided, AVX512).loops
    assert report.main.gathers > 0
    [report] = explain(strided, NEON).loops
    assert report.main.gathers == 0
    assert report.is_vectorised is False
    assert report.reason == "LLVM expects vectors to be no faster"


@T.prim_func
def reasons(a: T.handle, b: T.handle, C: T.Buffer((64,), "float32"), D: T.Buffer((64,), "int64")):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in range(n):
        B[i] = A[i] * C[i * i % 64]
    for j in range(1, 64):
        C[j] = C[j - 1] * T.float32(3)
    for k in range(64):
        C[D[k]] = T.float32(k)


def test_reasons():
    overlap, dependence, early = explain(reasons, AVX512).loops
    assert overlap.reason == (
        "a buffer that is written may overlap one that is read, and their bounds in the loop are not known; "
        'if they never overlap, say so: T.func_attr({"tir.noalias": True})'
    )
    assert dependence.reason == "an iteration may read what an earlier one wrote"
    assert early.reason == f"{overlap.reason}; it may end early: a check may fail in it"
    assert [report.main.exits for report in (overlap, dependence, early)] == [0, 0, 1]
    overlap, dependence, early = explain(reasons.with_attr("tir.noalias", True), AVX512).loops
    assert overlap.is_vectorised  # as the reason says
    assert dependence.reason == "an iteration may read what an earlier one wrote"
    assert early.reason == "it may end early: an index that depends on data is checked against its bounds"


def test_the_level_of_optimisation_is_a_reason():
    [report] = explain(strided, f"{AVX512} -opt-level=1").loops
    assert report.is_vectorised is False
    assert report.reason.startswith("the target's opt-level is below 2")


def test_all_reasons_are_about_remarks_of_llvm():
    text = "remark: kernel:3:0: loop not vectorized: call instruction cannot be vectorized\nnoise\n"
    remarks = read_remarks(text + "remark: kernel:1:0: loop not vectorized: outside of loops\n")
    assert list(remarks) == [1]
    assert reason_of(remarks[1].refusals) == "it calls a function that has no form for vectors"
    assert reason_of(["something new"]) == "LLVM: something new"
    assert reason_of([]) == ""


@T.prim_func
def gone(A: T.Buffer((640,), "float32"), B: T.Buffer((640,), "float32"), C: T.Buffer((4,), "float32")):
    T.func_attr({"tir.noalias": True})
    for i in range(640):
        A[i] = T.float32(0)
    for j in range(640):
        B[j] = A[j]
    for k in range(4):
        C[k] = A[k] * B[k] + T.float32(3)


def test_loops_that_are_gone():
    explanation = explain(gone, AVX512)
    assert [report.main for report in explanation.loops] == [None] * 3
    assert [report.reason for report in explanation.loops] == [
        "replaced by memset", "replaced by memcpy", "unrolled completely: 4 iterations"
    ]  # fmt: skip
    assert [report.loads_per_flop for report in explanation.loops] == [None] * 3
    assert "for k in range(4):  # unrolled completely: 4 iterations" in explanation.script()
    assert "gone: k: unrolled completely: 4 iterations" in str(explanation)
    assert "replaced by memcpy" in explanation.html()


@T.prim_func
def nested(A: T.Buffer((64, 100), "float32"), B: T.Buffer((64, 100), "float32")):
    T.func_attr({"tir.noalias": True})
    for i in T.parallel(64):
        for j in range(100):
            B[i, j] = A[i, j] * T.float32(3)


@T.prim_func
def searching(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32"), C: T.Buffer((1,), "int32")):
    while A[C[0]] != 0:
        C[0] = C[0] + 1
    for i, j in T.grid(8, 8):
        B[i * 8 + j] = A[i + j * 8]


def test_parallel_loops_and_other_kinds():
    explanation = explain(IRModule({"nested": nested, "searching": searching}), AVX512)
    assert [report.name for report in explanation.loops[:2]] == ["nested: i > j", "searching: while"]
    assert explanation.loops[0].is_vectorised
    assert not explanation.loops[1].is_vectorised
    assert explanation.loops[1].reason
    lines = explanation.script().splitlines()
    assert [line.partition("  #")[0].strip() for line in lines if "  # " in line] == [
        "while A[C[0]] != 0:", "for j in range(8):", "for j in range(100):"
    ]  # fmt: skip


def test_long_functions_are_explained_in_all_their_parts():
    """Code generation writes many loops as several LLVM functions."""
    loops = "\n".join(f"    for i{n} in range(64):\n        A[i{n}] = A[i{n}] * T.float32({n})" for n in range(70))
    func = from_source(f'@T.prim_func\ndef many(A: T.Buffer((64,), "float32")):\n{loops}\n', name="many.py")
    reports = explain(func, AVX512).loops
    assert [report.path for report in reports] == [(f"i{n}",) for n in range(70)]


def test_sizes_are_no_matter():
    """Size 0 has no loop; size 1 is no loop."""

    @T.prim_func
    def empty(A: T.Buffer((0,), "float32"), B: T.Buffer((1,), "float32")):
        for i in range(0):
            A[i] = T.float32(0)
        for j in range(1):
            B[j] = T.float32(0)

    explanation = explain(empty, AVX512)
    assert explanation.loops == ()
    assert "no loops" in explanation.html()


def test_neon():
    [report] = explain(gemm(4, 2, 4), NEON).loops
    assert report.main.vector_bits == 128
    assert report.main.fmas == 8
    assert report.main.flops == 8 * 4 * 2
    assert (report.main.spills, report.main.stores) == (0, 0)


def test_other_machines():
    """Loops and spills are known, instructions are not told apart; the rest says that it is not known."""
    explanation = explain(strided, "llvm -mtriple=riscv64-linux-gnu")
    [report] = explanation.loops
    assert report.main.instructions > 0
    assert report.is_vectorised is None
    assert (report.main.flops, report.loads_per_flop) == (None, None)
    assert str(explanation).splitlines()[1].split()[2] == "?"
    with pytest.raises(
        ValueError, match="target llvm .*: its machine code is not read; that of aarch64, riscv64, x86_64 is"
    ):
        explain(strided, "llvm -mtriple=loongarch64-linux-gnu")


def test_lines_do_not_change_the_code():
    target = resolve(AVX512)
    lowered = tir.lower(IRModule({"nested": nested, "functions": functions, "reasons": reasons}), target)
    funcs = {g.name_hint: f for g, f in lowered.functions.items()}
    machine = machine_of(target)
    for plain, marked in zip(kernel_texts(funcs, target), kernel_texts(funcs, target, mark_loops=True), strict=True):
        assert "!loop" in marked.text
        texts = (plain.text, with_lines(marked.text))
        with_and_without = [instructions(worker.emit_assembly(text, machine)) for text in texts]
        assert with_and_without[0] == with_and_without[1]


def instructions(assembly):
    """The instructions of the code, without what describes them."""
    lines = (line.partition("#")[0].strip() for line in assembly.splitlines())
    return [line for line in lines if line and not re.match(r"\.|[\w.]+:$", line)]


# ------------------------------------------------------------------------------------- how it is shown

HEADER = "loop vectors instructions flops FMAs loads/flop stores/flop spills gathers shuffles least cycles"


def test_the_table():
    explanation = explain(strided, AVX512)
    [report] = explanation.loops
    header, row, note, *_ = str(explanation).splitlines()
    assert header.split() == HEADER.split()
    main = report.main
    assert row.split() == [
        "strided:", "i", "512", "bits", str(main.instructions), str(main.flops), "0",
        f"{main.loads / main.flops:.3g}", f"{main.stores / main.flops:.3g}", "0", str(main.gathers),
        str(main.shuffles), f"{main.cycles:.3g}",
    ]  # fmt: skip
    assert note == f"strided: i: an iteration computes {report.interleaved} x {report.lanes} elements"


def test_show(capsys):
    explanation = explain(strided, AVX512)
    explanation.show()
    shown = capsys.readouterr().out
    assert f"for i in range(640):  # vectorised: 512 bits, {explanation.loops[0].main.instructions} inst" in shown
    assert str(explanation) in shown


def test_show_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    explain(functions, AVX512).show()
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert re.search(r"^ *functions: i +512 bits", shown, re.MULTILINE)
    assert "functions: j: not vectorised: it calls pow, element by element" in shown


def test_the_page(tmp_path):
    explanation = explain(functions, AVX512)
    explanation.save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page == explanation.html()
    assert not re.search(r"@\w+@", page)
    for element in ("html", "main", "pre", "section", "details", "span", "a", "dl", "p"):
        assert len(re.findall(rf"<{element}\b", page)) == page.count(f"</{element}>"), element
    assert '<h2><a href="#line1">2</a> functions: j</h2>' in page
    anchor = '<a id="line1" class="scalar" href="#loop1">2</a>'
    assert f'<span class="loop">        for j in range(640): {anchor}</span>' in page
    assert "callq pow" in page
    assert explanation._repr_html_().startswith("<iframe srcdoc=")


def test_public_names():
    assert relax.tir.explain is explain
    with pytest.raises(AttributeError, match="module 'relax.tir' has no attribute 'explane'"):
        _ = relax.tir.explane


# ------------------------------------------------------------------------------------- errors


def test_what_cannot_be_explained():
    with pytest.raises(DiagnosticError, match="explain takes a PrimFunc or a module of PrimFuncs, found int"):
        explain(3)

    @I.ir_module
    class Graph:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            return R.exp(x)

    with pytest.raises(DiagnosticError, match="the module has no PrimFunc") as caught:
        explain(Graph)
    assert "= help: run LegalizeOps first" in str(caught.value)

    @T.prim_func
    def bound(A: T.Buffer((64,), "float32")):
        for i in T.thread_binding(64, thread="threadIdx.x"):
            A[i] = T.float32(0)

    with pytest.raises(DiagnosticError, match="E5906"):
        explain(bound)


def test_code_that_llvm_does_not_accept(monkeypatch):
    monkeypatch.setattr(sys.modules[explain.__module__], "with_lines", lambda text: f"{text}nonsense")
    with pytest.raises(
        DiagnosticError, match="(?s)E5909.*LLVM does not accept the code that was generated: LLVM IR parsing error"
    ):
        explain(strided, AVX512)


def test_functions_of_formulas():
    x = te.placeholder((128, 64), "float32", "x")
    doubled = te.compute((128, 64), lambda i, j: x[i, j] * 2.0, "doubled")
    [report] = explain(te.create_prim_func([x, doubled]), AVX512).loops
    assert report.is_vectorised


# ------------------------------------------------------------------------------------- instructions

X86, ARM = "x86_64-linux-gnu", "aarch64-linux-gnu"


@pytest.mark.parametrize(
    "triple, text, expected",
    [
        (X86, "vmovups (%rdi,%rax,4), %zmm0", {"loads": 1, "vector_bits": 512}),
        (X86, "vmovups %ymm0, (%rsi)", {"stores": 1, "vector_bits": 256}),
        (X86, "vmovaps %zmm20, %zmm16", {}),
        (X86, "movups %xmm0, 8(%rsp)", {"stores": 1, "stack": True, "vector_bits": 128}),
        (X86, "vfmadd231ps (%rdi){1to16}, %zmm1, %zmm2", {"loads": 1, "flops": 32, "fmas": 1, "vector_bits": 512}),
        (X86, "vfnmadd213sd %xmm0, %xmm1, %xmm2", {"flops": 2, "fmas": 1, "is_scalar_float": True}),
        (X86, "mulpd %xmm0, %xmm1", {"flops": 2, "vector_bits": 128}),
        (X86, "vdivss %xmm0, %xmm1, %xmm2", {"flops": 1, "divisions": 1, "is_scalar_float": True}),
        (X86, "vaddph %zmm0, %zmm1, %zmm2", {"flops": 32, "vector_bits": 512}),
        (X86, "addss (%rdi), %xmm0", {"loads": 1, "flops": 1, "is_scalar_float": True}),
        (X86, "movss %xmm0, (%rdi)", {"stores": 1, "is_scalar_float": True}),
        (X86, "vpaddd %ymm0, %ymm1, %ymm2", {"vector_bits": 256}),
        (X86, "vcvttps2dq %zmm0, %zmm1", {"vector_bits": 512}),
        (X86, "vextractf64x4 $1, %zmm12, %ymm13", {"is_shuffle": True}),
        (X86, "vpermt2ps %zmm0, %zmm1, %zmm2", {"is_shuffle": True}),
        (X86, "vbroadcastss (%rdi), %zmm1", {"loads": 1, "vector_bits": 512}),
        (X86, "vgatherqps (%r12,%zmm2,4), %ymm3 {%k1}",
         {"loads": 1, "is_gather": True, "lanes_apart": 8, "vector_bits": 256}),
        (X86, "vpgatherdd (%rax,%ymm1,4), %ymm2 {%k1}",
         {"loads": 1, "is_gather": True, "lanes_apart": 8, "vector_bits": 256}),
        (X86, "vscatterdps %zmm0, (%rax,%zmm1,4) {%k1}",
         {"stores": 1, "is_scatter": True, "lanes_apart": 16, "vector_bits": 512}),
        (X86, "leaq 8(%rdi,%rax), %rcx", {}),
        (X86, "addq $1, (%rdi)", {"loads": 1, "stores": 1}),
        (X86, "addq (%rdi), %rax", {"loads": 1}),
        (X86, "cmpq %rax, (%rdi)", {"loads": 1}),
        (X86, "imulq (%rdi), %rax", {"loads": 1}),
        (X86, "idivq (%rdi)", {"loads": 1}),
        (X86, "movq %rax, (%rdi)", {"stores": 1}),
        (X86, "sete (%rdi)", {"stores": 1}),
        (X86, "prefetcht0 (%rdi)", {}),
        (X86, "pushq %rax", {"stores": 1, "stack": True}),
        (X86, "popq %rax", {"loads": 1, "stack": True}),
        (X86, "callq powf@PLT", {"callee": "powf"}),
        (X86, "callq *8(%rax)", {"callee": "*8(%rax)", "loads": 1}),
        (X86, "jb .LBB0_3", {"target": ".LBB0_3", "is_conditional": True}),
        (ARM, "ldr q0, [x0, x8]", {"loads": 1, "vector_bits": 128}),
        (ARM, "ldr s0, [x0, x8]", {"loads": 1, "is_scalar_float": True}),
        (ARM, "ldp q0, q1, [x9], #32", {"loads": 1, "vector_bits": 128}),
        (ARM, "ld1r { v0.4s }, [x9]", {"loads": 1, "vector_bits": 128}),
        (ARM, "str q0, [sp, #16]", {"stores": 1, "stack": True, "vector_bits": 128}),
        (ARM, "str x8, [x0]", {"stores": 1}),
        (ARM, "fmla v0.4s, v1.4s, v2.s[0]", {"flops": 8, "fmas": 1, "vector_bits": 128}),
        (ARM, "fmadd d0, d1, d2, d3", {"flops": 2, "fmas": 1, "is_scalar_float": True}),
        (ARM, "fdiv v0.2d, v1.2d, v2.2d", {"flops": 2, "divisions": 1, "vector_bits": 128}),
        (ARM, "fadd s0, s1, s2", {"flops": 1, "is_scalar_float": True}),
        (ARM, "add v0.16b, v1.16b, v2.16b", {"vector_bits": 128}),
        (ARM, "zip1 v0.4s, v1.4s, v2.4s", {"is_shuffle": True}),
        (ARM, "ld1w { z0.s }, p0/z, [x0, z1.s, sxtw]", {"loads": 1, "is_gather": True, "vector_bits": 128}),
        (ARM, "add x8, x8, #1", {}),
        (ARM, "bl expf", {"callee": "expf"}),
        (ARM, "b.ne .LBB0_2", {"target": ".LBB0_2", "is_conditional": True}),
        (ARM, "b .LBB0_2", {"target": ".LBB0_2"}),
        (X86, "jmp .LBB0_2", {"target": ".LBB0_2"}),
        (ARM, "cbnz x8, .LBB0_2", {"target": ".LBB0_2", "is_conditional": True}),
    ],
)  # fmt: skip
def test_instructions(triple, text, expected):
    mnemonic, _, operands = text.partition(" ")
    effect = effect_of(Instruction(mnemonic, operands, "", 0), triple)
    shown = {name: getattr(effect, name) for name in effect.__slots__}
    assert {name: value for name, value in shown.items() if value} == expected


def test_loops_in_assembly():
    """A block of a loop may stand before its header, and outer loops are left out."""
    text = """
relax.body.0:                           # @relax.body.0
.LBB0_1:                                # %for1
                                        # =>This Loop Header: Depth=1
                                        #     Child Loop BB0_3 Depth 2
	.loc	1 2 0                   # kernel:2
	movq	%rax, %rcx
.LBB0_2:                                # %next
                                        #   in Loop: Header=BB0_3 Depth=2
	.loc	1 3 0                   # kernel:3
	incq	%rax
.LBB0_3:                                # %for2
                                        #   Parent Loop BB0_1 Depth=1
                                        # =>  This Inner Loop Header: Depth=2
	jb	.LBB0_2
# %bb.4:                                # %done
                                        #   in Loop: Header=BB0_1 Depth=1
	jb	.LBB0_1
# %bb.5:
	retq
"""
    [loop] = machine_loops(text, X86)
    assert loop.symbol == "relax.body.0"
    assert loop.header == ".LBB0_3"
    assert [(i.text, i.line) for i in loop.instructions] == [("incq %rax", 3), ("jb .LBB0_2", 3)]
    assert loop.labels == {".LBB0_2", ".LBB0_3"}
    with pytest.raises(ValueError, match="the assembly of sparc is not read"):
        machine_loops(text, "sparc-linux-gnu")
