"""Mistakes that a type checker reports: each at its line, under the rule in the comment (see tools/check_types.py)."""

import relax
from relax.op import matmull  # noqa: F401  # reportAttributeAccessIssue
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T


@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32")):
        with R.dataflow():
            y = R.matmull(x, x)  # reportAttributeAccessIssue
            z = R.nn.sofmax(y)  # reportAttributeAccessIssue
            w = R.nn.softmax(z, axes=-1)  # reportCallIssue
            R.output(w)
        return R.reshape(w)  # reportCallIssue

    @T.prim_func
    def kernel(a: T.handle):
        A = T.match_bufer(a, (4,))  # reportAttributeAccessIssue
        A[0] = T.exp(A[0], A[1])  # reportCallIssue


@R.function(pur=True)  # reportCallIssue
def alone(x: R.Tensor((4,), "float32"), shape: R.Tensor((4,), dtyp="float32")):  # reportCallIssue
    return R.mean(x, axis="last")  # reportArgumentType


relax.bild(Model)  # reportAttributeAccessIssue
relax.op.nn.softmax("x")  # reportArgumentType
relax.tir.transfrom  # reportAttributeAccessIssue
