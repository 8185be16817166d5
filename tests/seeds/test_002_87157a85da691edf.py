"""The programs of the Relax upstreaming RFC (seed 002), as written there: only the imports say `relax`."""

from __future__ import annotations

import numpy as np
import pytest

import relax

IMPORTS = "from relax.script import ir as I, relax as R, tir as T\nimport relax.script\n"

USER_FACING = """
# Relax IRModule written in TVMScript
@relax.script.ir_module
class MyIRModule:
    # This is a TIR PrimFunc which calls the TIR intrinsic T.exp
    @T.prim_func
    def tir_exp_func(x: T.handle, y: T.handle): ## <= D2
        X = T.match_buffer(x, (n,), "float32")
        Y = T.match_buffer(y, (n,), "float32")
        with T.grid(n) as i:
            Y[i] = T.exp(X[i])

    @R.function
    def relax_func(x: R.Tensor[(n, k), "float32"], w: R.Tensor[_, "float32"]):
    # n, k above are implicitly defined within the function signature
    # so we will be able to refer to n, k within all of relax_func
        with R.dataflow(): ## <= D2
            lv0 = R.match_shape(w, (k, m)) ## <= D1
            lv1: R.Tensor[(n, m), "float32"] = R.dot(x, lv0)
            lv2: R.Tensor[(n * m,), "float32"] = R.flatten(lv1) ## <= D1
            lv3: R.Shape = (n * m,)  ## <= D1
            gv0 = R.call_tir(tir_exp_func, [lv2], lv3, dtype="float32") ## <= D0
            R.outputs(gv0)

        R.call_packed("custom_inplace_update", gv0) ## <= D0, D2
        return gv0
"""

CROSS_LEVEL = """
@relax.script.ir_module
class MyIRModule:
    # define a PrimFunc to do matrix multiply
    # note TIR PrimFunc is in DPS, here z is the output
    @T.prim_func
    def tir_matmul(x: T.handle, y: T.handle, z: T.handle) -> None:
        m = T.var("int32")
        n = T.var("int32")
        k = T.var("int32")
        A = T.match_buffer(x, (m, n))
        B = T.match_buffer(y, (n, k))
        C = T.match_buffer(z, (m, k))

        for (i0, j0, k0) in T.grid(m, n, k):
            with T.block():
                i, j, k = T.axis.remap("SSR", [i0, j0, k0])
                with T.init():
                    C[i, j] = 0.0
                C[i, j] += A[i, k] * B[j, k]

    @R.function
    def relax_func(x: R.Tensor[(m, n), "float32"], y: R.Tensor[(n, k), "float32"]):
        with R.dataflow():
            # call_tir calls into a PrimFunc, and returns the matrix multiplication result
            gv0 = R.call_tir(tir_matmul, (x, y), (m, k), dtype="float32")
            R.outputs(gv0)

        # call into a PackedFunc to print the value of gv0
        R.call_packed("custom_print", gv0)

        # call the registered "custom_add" non-DPS PackedFunc and return the result
        gv1 = R.call_packed("custom_add", gv0, gv0)

        # call the registered "custom_tile" DPS PackedFunc and return the result
        gv2 = R.call_dps_packed("custom_tile", (gv1), (m, k * 2), dtype="float32")
        return gv2
"""

SHAPE_EXAMPLE = """
@R.function
def shape_example(x: R.Tensor[(n, 2, 2), "float32"]):
    with R.dataflow():
        # V0: symbolic and static shape deduction
        lv0: R.Tensor[(n, 4), "float32"] = R.reshape(x, (n, 4))
        lv1: R.Tensor[(n * 4,), "float32"] = R.flatten(lv0)
        lv2: R.Shape = (n * 4,)

        # V1: external opaque shape function
        lv3: R.Shape = R.call_packed("myshape_func", lv2)
        lv4 = R.call_tir("custom_func", (lv1,), lv3, dtype="float32")

        # V2: runtime dependent case: _ is used to represent RuntimeDepShape
        lv5: R.Tensor[_, "float32"] = R.unique(lv4)

        # re-match shape
        lv6: R.Tensor[(m,), "float32"] = R.match_shape(lv5, (m,))
        lv7: R.Shape = R.match_shape(lv3, (m,))

        gv0: R.Tensor[(m,), "float32"] = R.exp(lv6)
        R.outputs(gv0)

    return gv0
"""

DATAFLOW = """
@I.ir_module
class Module:
    @T.prim_func
    def linear(x: T.Buffer((1, 784), "float32"), w: T.Buffer((128, 784), "float32"),
               b: T.Buffer((128,), "float32"), y: T.Buffer((1, 128), "float32")):
        for i, j, k in T.grid(1, 128, 784):
            with T.block():
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    y[vi, vj] = b[vj]
                y[vi, vj] += x[vi, vk] * w[vj, vk]

    @T.prim_func
    def linear1(x: T.Buffer((1, 128), "float32"), w: T.Buffer((128, 128), "float32"),
                b: T.Buffer((128,), "float32"), y: T.Buffer((1, 128), "float32")):
        for i, j, k in T.grid(1, 128, 128):
            with T.block():
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    y[vi, vj] = b[vj]
                y[vi, vj] += x[vi, vk] * w[vj, vk]

    @T.prim_func
    def relu(x: T.Buffer((1, 128), "float32"), y: T.Buffer((1, 128), "float32")):
        for i, j in T.grid(1, 128):
            y[i, j] = T.max(x[i, j], T.float32(0))

    @R.function
    def main(x: R.Tensor((1, 784), "float32"),
             w: R.Tensor((128, 784), "float32"),
             b: R.Tensor((128,), "float32")):

        with R.dataflow():
            # linear and relu are PrimFuncs in the same IRModule
            lv0 = R.call_tir(linear, (x, w, b), (1, 128), dtype="float32")
            gv0 = R.call_tir(relu, (lv0,), (1, 128), dtype="float32")
            R.output(gv0)

        R.call_packed("custom_inplace_update", gv0)
        gv1 = R.read_tensor_from_file("tensor.txt")

        with R.dataflow():
            out = R.call_tir(linear1, (gv0, gv1, b), (1, 128), dtype="float32")
            R.output(out)
        return out
"""

PROGRAMS = {
    "user_facing": USER_FACING,
    "cross_level": CROSS_LEVEL,
    "shape_example": SHAPE_EXAMPLE,
    "dataflow": DATAFLOW,
}

printed: list[np.ndarray] = []


@relax.register_func("custom_inplace_update", override=True)
def custom_inplace_update(tensor):
    tensor.copyfrom(tensor.numpy() * 2)
    return tensor


# Non-DPS PackedFunc with return
@relax.register_func("custom_add", override=True)
def add_packed(a, b):
    ret = a.numpy() + b.numpy()
    return relax.nd.array(ret)


# Non-DPS PackedFunc without return
@relax.register_func("custom_print", override=True)
def print_packed(a):
    printed.append(a.numpy().copy())


# DPS PackedFunc
@relax.register_func("custom_tile", override=True)
def tile_packed(a, b):
    b[:] = relax.nd.array(np.tile(a.numpy(), (1, 2)))


@relax.register_func("myshape_func", override=True)
def myshape_func(shape):
    """Half as many, so that the second match of m can succeed."""
    return relax.ShapeTuple([shape[0] // 2])


@relax.register_func("custom_func", override=True)
def custom_func(x, out):
    """The distinct first half, shuffled."""
    out.copyfrom(x.numpy()[: out.shape[0]][::-1])


def parse(source):
    program = relax.script.from_source(IMPORTS + source)
    return program if isinstance(program, relax.IRModule) else relax.IRModule.from_expr(program)


def virtual_machine(source):
    return relax.VirtualMachine(relax.build(parse(source), relax.target.Target("llvm")), relax.cpu())


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore::relax.ir.RelaxWarning")
def test_parses_and_prints(name):
    mod = parse(PROGRAMS[name])
    relax.ir.assert_structural_equal(relax.script.from_source(mod.script()), mod)
    mod.show()


@pytest.mark.filterwarnings("ignore::relax.ir.RelaxWarning")
def test_user_facing_interface():
    vm = virtual_machine(USER_FACING)
    rng = np.random.default_rng(0)
    for n, k, m in [(2, 3, 4), (1, 1, 1), (0, 3, 2), (3, 0, 2), (2, 3, 0), (16, 8, 5)]:
        x = rng.standard_normal((n, k), dtype="float32")
        w = rng.standard_normal((k, m), dtype="float32")
        result = vm["relax_func"](x, w).numpy()
        np.testing.assert_allclose(result, 2 * np.exp((x @ w).reshape(-1)), rtol=1e-5)


def test_user_facing_interface_checks_what_it_matches():
    vm = virtual_machine(USER_FACING)
    with pytest.raises(ValueError, match="dimension 0 is 4, expected k = 3"):
        vm["relax_func"](np.zeros((2, 3), "float32"), np.zeros((4, 2), "float32"))


@pytest.mark.parametrize("m, n", [(2, 3), (1, 1), (0, 3), (3, 0), (0, 0), (5, 4)])
def test_cross_level(m, n):
    """As written, the loops run j to n and k to k and read A[i, k]: the program makes sense where k is n."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((m, n), dtype="float32")
    y = rng.standard_normal((n, n), dtype="float32")
    printed.clear()
    result = virtual_machine(CROSS_LEVEL)["relax_func"](x, y).numpy()
    np.testing.assert_allclose(printed[0], x @ y.T, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(result, np.tile(2 * (x @ y.T), (1, 2)), rtol=1e-5, atol=1e-6)


def test_cross_level_reads_out_of_bounds_where_k_is_not_n():
    with pytest.raises(IndexError, match="index"):
        virtual_machine(CROSS_LEVEL)["relax_func"](np.zeros((2, 3), "float32"), np.zeros((3, 5), "float32"))


@pytest.mark.parametrize("n", [0, 1, 2, 5])
@pytest.mark.filterwarnings("ignore::relax.ir.RelaxWarning")
def test_shape_example(n):
    x = np.random.default_rng(0).permutation(4 * n).astype("float32").reshape(n, 2, 2)
    result = virtual_machine(SHAPE_EXAMPLE)["shape_example"](x).numpy()
    np.testing.assert_allclose(result, np.exp(np.unique(x.reshape(-1)[: 2 * n])), rtol=1e-5)


@pytest.mark.filterwarnings("ignore::relax.ir.RelaxWarning")
def test_shape_example_checks_the_second_match():
    x = np.zeros((2, 2, 2), "float32")  # one distinct value, but myshape_func says four
    with pytest.raises(ValueError, match="expected m = 1"):
        virtual_machine(SHAPE_EXAMPLE)["shape_example"](x)


def test_dataflow_blocks_around_effects(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    x, w, w1 = (rng.standard_normal(s, dtype="float32") for s in [(1, 784), (128, 784), (128, 128)])
    b = rng.standard_normal(128, dtype="float32")
    np.savetxt(tmp_path / "tensor.txt", w1)
    monkeypatch.chdir(tmp_path)
    result = virtual_machine(DATAFLOW)["main"](x, w, b).numpy()
    hidden = 2 * np.maximum(x @ w.T + b, 0)
    np.testing.assert_allclose(result, hidden @ w1.T + b, rtol=1e-3, atol=1e-2)
