"""The forms of the script language, as a type checker must take them: it reports nothing here (see tools/check_types.py)."""

import numpy as np

import relax
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T


@I.ir_module
class Model:
    @T.prim_func(private=True)
    def halve(a: T.handle, b: T.handle, k: T.int32):
        n = T.int64()
        A = T.match_buffer(a, (n, 4), "float32")
        B = T.match_buffer(b, (n, 4))
        C = T.alloc_buffer((n, 4), "float32")
        for i, j in T.grid(n, 4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(A[vi, vj])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = T.exp(A[vi, vj]) * T.float32(0.5) + T.max(A[vi, vj], T.float32(0))
        for i in T.serial(n):
            for j in range(n // 2):
                B[i, j] = C[i, j] + T.cast(k, "float32") + B.vload([i, j])

    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), s: R.Shape(["n", 4]), o: R.Object) -> R.Tensor(("n", 4), "float32"):
        n = T.int64()
        cls = Model
        with R.dataflow():
            y: R.Tensor(("n", 4), "float32") = R.call_tir(cls.halve, (x,), out_sinfo=R.Tensor((n, 4), "float32"))
            z = R.nn.relu(R.matmul(y, R.const(np.ones((4, 4), "float32"))) + 1.0)
            w = R.match_cast(R.image.resize2d(z, (2, 2)), R.Tensor((n, 4), "float32"))
            R.output(w)
        if R.prim_value(n > 2):
            v = R.add(w * 2 - 1, z - y)
        else:
            v = Model.main(w)
        R.print(v, format="{}")
        return R.reshape(v, (n * 4,))


@R.function(private=True)
def alone(t: R.Tuple(R.Tensor, R.Prim("int64")), f: R.Callable((R.Object,), R.Object)):
    return t[0]


@T.prim_func
def spelled(A: T.Buffer((8,), "float32"), p: T.Ptr[T.float32]):
    T.func_attr({"global_symbol": "spelled"})
    with T.allocate([8], "float32", "global") as scratch, T.launch_thread("threadIdx.x", 8) as tx:
        scratch[tx] = A[tx]
        with T.LetStmt(scratch[tx]) as value, T.Assert(value > T.float32(0), "positive"):
            A[tx] = T.if_then_else(value > T.float32(1), value, T.float32(1), dtype="float32")


@T.macro(hygienic=False)
def fill(A, value):
    for i in T.vectorized(8):
        A[i] = value


def use() -> None:
    module: relax.IRModule = Model
    built: relax.Executable = relax.build(Model, target="llvm", params={"w": np.ones(4)})
    vm = relax.VirtualMachine(built, relax.cpu())
    print(vm["main"](np.ones((2, 4), "float32")), module["main"].params, Model.script())
    function: relax.Function = alone
    function.show()
    kernel: relax.tir.PrimFunc = spelled
    print(kernel.params, relax.IRModule.from_expr(kernel))
    x = relax.Var("x", R.Tensor(("n", 4), "float32"))
    call: relax.Call = relax.op.nn.softmax(relax.op.add(x, x) * 2 - 1, axis=-1)
    bb = relax.BlockBuilder()
    with bb.function("main", [x]), bb.dataflow():
        y = bb.emit(relax.op.concat([x, call], axis=0))
        out = bb.emit_output(relax.op.memory.alloc_tensor(y, 0, (4,), "float32"))
    bb.emit_func_output(out)
