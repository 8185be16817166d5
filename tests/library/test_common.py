"""The calls that `relax cache warm` compiles: each has a general form, whose code serves other sizes."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.codegen import build as kernels
from relax.codegen import resolve
from relax.expr import Call
from relax.library import CallLibrary, Library, common_calls, module_of
from relax.op import operator_of
from relax.rewrite import bindings_in
from relax.transform import Normalize
from relax.vm.warm import warm_for
from support import PLAIN_LOOPS, parse, same

VIEWS = {"relax.call_tir", "relax.reshape"}
"""Calls of kernels, and views between them."""
LIBRARY = Library(resolve(PLAIN_LOOPS))


@pytest.mark.parametrize("first", range(0, len(common_calls()), 40))
def test_each_line_has_a_general_form(first):
    lines = common_calls()[first : first + 40]
    mod = CallLibrary(LIBRARY)(Normalize()(module_of(lines)))
    for i, line in enumerate(lines):
        left = [b.value for b in bindings_in(mod[f"call{i}"]) if isinstance(b.value, Call) and operator_of(b.value)]
        names = {operator_of(call).op_name for call in left}
        assert not names - VIEWS, line


def test_lines_are_different_calls():
    assert len(common_calls()) == len(set(common_calls()))


WARM = ["nn.relu | a b |", "add | a b, b |", "matmul | m k, k n |", "nn.softmax | a b | axis=-1"]
PROGRAM = """
@R.function
def main(x: R.Tensor((5, 17), "float32"), w: R.Tensor((17, 9), "float32"), b: R.Tensor((9,), "float32")):
    with R.dataflow():
        y = R.nn.softmax(R.nn.relu(R.add(R.matmul(x, w), b)), axis=-1)
        R.output(y)
    return y
"""


def test_a_warmed_cache_serves_programs_of_other_sizes(tmp_path, monkeypatch):
    monkeypatch.setenv("RELAX_CACHE_DIR", str(tmp_path))
    assert warm_for(module_of(WARM), PLAIN_LOOPS) > 0
    assert warm_for(module_of(WARM), PLAIN_LOOPS) == 0
    before = kernels.statistics.llvm_runs
    mod = parse(PROGRAM)
    program = relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS, tier="now"))
    assert kernels.statistics.llvm_runs == before
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(shape).astype("float32") for shape in ((5, 17), (17, 9), (9,))]
    same(program["main"](*args), relax.interpret(mod, "main", *args), 1e-5, 1e-6)
