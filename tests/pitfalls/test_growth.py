"""Time that must grow no faster than the program: functions, kernels, operands, loops, match_casts, bindings.

Nothing here looks at a clock: calls of Python functions are counted. From N to 2N and from 2N to 4N of a thing they grow by
a number each; the second is twice the first where work is linear, four times where it is quadratic. What LLVM
does cannot be counted; there the size of what it gets in one piece is.
"""

from __future__ import annotations

import gc
import importlib.util
import itertools
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import relax
from relax import tir
from relax.codegen import build_module, resolve
from relax.codegen.module import module_text
from relax.farm import worker
from relax.farm.objects import machine_of
from relax.farm.worker_processes import emit_objects
from relax.ir import IRModule, structural_hash
from relax.prim import Analyzer
from relax.rewrite import Rewriter
from relax.script import from_source
from relax.tir import PrimFunc
from support import calls

_PATH = Path(__file__).parents[2] / "benchmarks" / "growth.py"
_SPEC = importlib.util.spec_from_file_location("growth_benchmark", _PATH)
growth = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(growth)

LINEAR = 2.3
"""Twice, and something for what is logarithmic."""


def compiled_texts(mod):
    """The texts that LLVM gets of a program."""
    seen = []
    emit = worker.emit_object

    def noted(text, machine):
        seen.append(text)
        return emit(text, machine)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RELAX_CACHE", "0")
        patch.setenv("RELAX_JOBS", "1")
        patch.setattr(worker, "emit_object", noted)
        relax.build(mod, "llvm")
    return seen


def step(make, n):
    """How much faster the number of calls grows from 2n to 4n than from n to 2n; ``make(n)`` gives what is counted."""
    calls(make(n))  # what is imported once, or remembered for ever
    first, second, third = (calls(make(size)) for size in (n, 2 * n, 4 * n))
    return (third - second) / (second - first)


@pytest.mark.parametrize("kind", growth.KINDS)
def test_parsing(kind):
    def make(n):
        text = growth.KINDS[kind](n)
        return lambda: from_source(text)

    assert step(make, 20) < LINEAR


@pytest.mark.parametrize("kind", growth.KINDS)
def test_building(kind):
    def make(n):
        mod = from_source(growth.KINDS[kind](n))
        return lambda: relax.build(mod, "llvm")

    assert step(make, 12) < LINEAR


@pytest.mark.parametrize("kind", growth.KINDS)
def test_printing_hashing_and_loading(kind):
    def make(n):
        mod = from_source(growth.KINDS[kind](n))
        executable = relax.build(mod, "llvm")

        def run():
            mod.script()
            structural_hash(mod)
            relax.VirtualMachine(executable, relax.cpu())

        return run

    assert step(make, 12) < LINEAR


def test_functions_of_one_name_in_a_builder():
    """Each gets a name of its own, without a look at all the names before it."""

    def make(n):
        def run():
            bb = relax.BlockBuilder()
            for i in range(n):
                x = relax.Var("x", relax.TensorStructInfo((i + 1,), "float32"))
                with bb.function("f", [x], private=True):
                    bb.emit_func_output(bb.emit(relax.op.exp(x)))
            assert len(bb.get().functions) == n

        return run

    assert step(make, 12) < LINEAR


def test_bindings_in_a_builder():
    def make(n):
        def run():
            bb = relax.BlockBuilder()
            x = y = relax.Var("x", relax.TensorStructInfo((8,), "float32"))
            with bb.function("main", [x]):
                for _ in range(n):
                    y = bb.emit(relax.op.add(y, x))
                bb.emit_func_output(y)
            bb.get()

        return run

    assert step(make, 50) < LINEAR


def test_building_an_adjoint():
    """The results of all layers are alive at once; each is placed on top of one other and compared with that alone."""

    def make(n):
        weights = "".join(f', w{i}: R.Tensor((4, 4), "float32")' for i in range(n))
        layers = [f"a{i + 1} = R.nn.relu(R.matmul(a{i}, w{i}))" for i in range(n)]
        lines = ["@R.function", f'def main(a0: R.Tensor((4, 4), "float32"){weights}):', "    with R.dataflow():"]
        lines += [f"        {line}" for line in [*layers, f"loss = R.sum(a{n})", "R.output(loss)"]]
        mod = from_source("\n".join(["from relax.script import relax as R", "", *lines, "    return loss", ""]))
        mod = relax.transform.Gradient("main")(IRModule({"main": mod}))
        plan = relax.transform.StaticPlanBlockMemory()
        lower = [relax.transform.Normalize(), relax.transform.LegalizeOps(), relax.transform.ToNonDataflow()]
        for lowering in [*lower, relax.transform.CallTIRRewrite()]:
            mod = lowering(mod)
        return lambda: plan(mod)

    assert step(make, 16) < LINEAR


def test_equations_that_bind_a_size_each():
    """What is known of other sizes is not rewritten."""

    def make(n):
        sizes = [tir.SizeVar(f"n{i}", "int64") for i in range(n)]

        def run():
            analyzer = Analyzer()
            for a, b in itertools.pairwise(sizes):
                analyzer.assume(tir.EQ(a * 2, b * 2))
                assert analyzer.can_prove(tir.EQ(b, sizes[0]))

        return run

    assert step(make, 12) < LINEAR


def test_a_function_name_is_found_without_a_search():
    def make(n):
        mod = from_source(growth.functions(n))

        def run():
            for i in range(n):
                assert f"f{i}" in mod
                assert mod.get_global_var(f"f{i}").name_hint == f"f{i}"
                assert mod[f"f{i}"] is mod.get(f"f{i}")

        return run

    assert step(make, 12) < LINEAR


# ------------------------------------------------------------------------------ pieces that LLVM gets


def kernel(text):
    """The PrimFuncs of a module, lowered."""
    mod = from_source(text)
    return {g.name_hint: f for g, f in mod.functions.items() if isinstance(f, PrimFunc)}


def largest(text):
    """Blocks of the largest LLVM function."""
    bodies = re.findall(r"^define [^\n]*\{\n(.*?)^\}", module_text(kernel(text), resolve("llvm")), re.M | re.S)
    return max(len(re.findall(r"^[\w.]+:", body, re.M)) for body in bodies)


def test_loops_in_parts():
    """LLVM takes time quadratic in the loops of one function."""
    assert largest(growth.loops(400)) == largest(growth.loops(200)) < 200
    assert "relax.part" not in module_text(kernel(growth.loops(30)), resolve("llvm"))


PARTS = """
from relax.script import tir as T

@T.prim_func
def k(A: T.Buffer(("n", 3), "float32"), B: T.Buffer(("n", 3), "float32"), s: T.int32, f: T.float32):
    n = T.int64()
    W = T.alloc_buffer((n, 3), "float32")
    for i in range(n):
        for j in range(3):
            W[i, j] = A[i, j] * f
    for r in range(2):
        with T.LetStmt(T.Cast("int64", s) + T.int64(r)) as at:
{loops}
"""


def test_parts_take_what_they_use(tmp_path):
    """Sizes, numbers, loop variables, allocations; and an error in a part is the function's."""
    count = 70
    lines: list[str] = []
    for i in range(count):
        lines += [f"            for i{i} in range(n):"]
        lines += [f"                B[i{i}, at] = B[i{i}, at] + W[i{i}, at] + T.float32({i})"]
    func = from_source(PARTS.format(loops="\n".join(lines)))
    built = build_module(IRModule({"k": func}), "llvm")
    assert built.get_source().count("define internal i32 @relax.part") >= 3
    a = np.arange(12, dtype="float32").reshape(4, 3)
    b = np.zeros_like(a)
    built["k"](a, b, 1, 2.0)
    wanted = np.zeros_like(a)
    wanted[:, 1:] = count * 2 * a[:, 1:] + count * (count - 1) / 2
    np.testing.assert_array_equal(b, wanted)
    with pytest.raises(IndexError, match=r"k: buffer \w+: index 3 is out of bounds for dimension 1 of size 3"):
        built["k"](a, b, 2, 2.0)


def test_captures_of_a_parallel_loop():
    """The type of what a loop takes is written once, not for each value that it takes."""

    def size(count):
        buffers = ", ".join(f'A{i}: T.Buffer(("n",), "float32")' for i in range(count))
        total = " + ".join(f"A{i}[i]" for i in range(count))
        func = from_source(
            f'from relax.script import tir as T\n\n@T.prim_func\ndef k({buffers}, B: T.Buffer(("n",), "float32")):\n'
            f"    n = T.int64()\n    for i in T.parallel(n):\n        B[i] = {total}\n"
        )
        text = build_module(IRModule({"k": func}), "llvm").get_source("ll")
        assert "relax.region" in text
        return len(text)

    assert size(80) - size(40) < LINEAR * (size(40) - size(20))


@pytest.mark.parametrize("name", ["DivisionToMultiplication", "OneHotMatmulToTake", "ConvTransposeToConv"])
def test_functions_without_the_operators_of_a_pass_are_not_walked(name, monkeypatch):
    """The program has neither quotients nor comparisons nor convolutions; the next one has each of them."""
    walked = []
    function = Rewriter.function
    monkeypatch.setattr(Rewriter, "function", lambda self, f: walked.append(f) or function(self, f))
    step = relax.ir.transform.pass_by_name(name)
    mod = relax.transform.Normalize()(from_source(growth.functions(20)))
    assert step(mod) is mod
    assert not walked

    text = """
from relax.script import ir as I, relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 2, 4), "float32"), w: R.Tensor((2, 2, 3), "float32")):
        y = R.nn.conv1d_transpose(R.divide(x, x), w)
        return R.equal(y, y)
"""
    step(relax.transform.Normalize()(from_source(text)))
    assert len(walked) == 1


def test_reads_are_counted_only_where_there_are_convolutions(monkeypatch):
    module = sys.modules["relax.transform.fold_batchnorm_to_conv2d"]
    count, counted = module.read_counts, []
    monkeypatch.setattr(module, "read_counts", lambda function: counted.append(function) or count(function))
    mod = relax.transform.Normalize()(from_source(growth.functions(5)))
    assert relax.transform.FoldBatchnormToConv2D()(mod) is mod
    assert not counted


class _Measured(str):
    """A text that counts how often its length is asked for."""

    asked = 0

    def __len__(self):
        _Measured.asked += 1
        return super().__len__()


def test_the_longest_text_is_found_without_a_look_at_all_others(monkeypatch):
    """Texts that wait for a compiler: their lengths are asked for once or twice each, and not once for each other."""
    monkeypatch.setattr("relax.farm.worker.emit_object", lambda text, machine: text[:4].encode())
    target = resolve("llvm")

    def asked(n):
        _Measured.asked = 0
        texts = [_Measured(f"{i:04d}{'.' * (i * 7 % 13)}") for i in range(n)]
        assert emit_objects(texts, machine_of(target), jobs=1) == [f"{i:04d}".encode() for i in range(n)]
        return _Measured.asked

    assert 0 < asked(400) <= 2 * asked(200) + 4


def test_llvm_derives_nothing_of_many_parameters():
    """Its passes over all functions would look at every operand of a call again for each one that they learn of."""
    n = 100
    mod = from_source(growth.operands(n))
    text = "\n".join(compiled_texts(mod))
    assert len(re.findall(r"^define weak hidden i32 @relax\.body", text, re.MULTILINE)) == 1
    few = "\n".join(compiled_texts(from_source(growth.operands(3))))
    assert "define weak hidden" not in few
    arrays = [np.float32([i, -i]) for i in range(n)]
    vm = relax.VirtualMachine(relax.build(mod, "llvm"), relax.cpu())
    np.testing.assert_array_equal(vm["main"](*arrays).numpy(), np.concatenate(arrays))


def test_the_collector_hardly_runs_while_a_program_is_loaded():
    executable = relax.build(from_source(growth.functions(100)), "llvm")
    runs = []

    def note(phase, info):
        if phase == "start":
            runs.append(info)

    gc.collect()
    gc.callbacks.append(note)
    try:
        machine = relax.VirtualMachine(executable, relax.cpu())
    finally:
        gc.callbacks.remove(note)
    assert len(runs) <= 2
    x = np.zeros((2, 4), "float32")
    np.testing.assert_allclose(machine["f0"](x).numpy(), np.exp(x))


def test_a_build_leaves_few_cycles_for_the_collector():
    """They keep what is compiled in memory, which the collector looks at until the build ends."""

    def left(n):
        mod = from_source(growth.functions(n))
        gc.collect()
        gc.disable()
        try:
            relax.build(mod, "llvm")
            return gc.collect()
        finally:
            gc.enable()

    left(5)
    few, many = left(20), left(60)
    assert (many - few) / 40 < 150  # objects: those of a function as it was lowered, not of all its forms
