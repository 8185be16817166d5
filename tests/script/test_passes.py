"""What the passes of the default pipeline leave behind prints, and parses to the same program."""

from __future__ import annotations

import warnings

import pytest

from relax.ir import assert_structural_equal
from relax.optimize.pipeline import default_build_pipeline
from relax.script import from_source

PROGRAM = """@I.ir_module
class M:
    @T.prim_func(private=True)
    def scale(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, 8), "float32")
        B = T.match_buffer(b, (n, 8), "float32")
        for i, j in T.grid(n, 8):
            with T.block("s"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
    @R.function(pure=False)
    def main(x: R.Tensor(("n", 4), "float32"), c: R.Tensor((), "bool"), w: R.Tensor((4, 8), "float32")):
        n = T.int64()
        with R.dataflow():
            lv = R.matmul(x, w)
            lv1 = lv + 1.0
            gv = R.nn.softmax(lv1, axis=1)
            g2 = R.call_tir(cls.scale, (gv,), out_sinfo=R.Tensor((n, 8), "float32"))
            g3 = R.reshape(g2, (8, n))
            R.output(gv, g3)
        @R.function
        def inner(y: R.Tensor((n, 8), "float32")) -> R.Tensor((n, 8), "float32"):
            return R.add(y, gv)
        if c:
            z = inner(gv)
        else:
            z = R.exp(gv)
        R.print(z)
        q = R.unique(z)
        m = T.int64()
        q2 = R.match_cast(q, R.Tensor((m,), "float32"))
        return (z, g3, R.add(q2, q2), R.shape([n * m]))
"""


@pytest.mark.filterwarnings("ignore::relax.ir.RelaxWarning")
def test_after_every_pass():
    mod = from_source(PROGRAM)
    for step in default_build_pipeline().passes:
        mod = step(mod)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            again = from_source(mod.script(show_meta=True), check_well_formed=False)
        assert_structural_equal(again, mod)
