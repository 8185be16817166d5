"""Gradient: functions with their gradients, compared with central differences of the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from gradients import check_gradients, flat, values

import relax
from relax import topi
from relax.ir import DiagnosticError
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.training.utils import register_te_gradient
from relax.transform import EliminateCommonSubexpr, Gradient


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


# ------------------------------------------------------------------------------------------ the rewrite


@I.ir_module
class Product:
    @R.function
    def main(x: R.Tensor((3, 3), "float32"), y: R.Tensor((3, 3), "float32")):
        with R.dataflow():
            lv = R.multiply(x, y)
            gv = R.sum(lv)
            R.output(gv)
        return gv


def test_a_function_gets_an_adjoint(check):
    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((3, 3), "float32"), y: R.Tensor((3, 3), "float32")):
            with R.dataflow():
                lv = R.multiply(x, y)
                gv = R.sum(lv)
                R.output(gv)
            return gv

        @R.function
        def main_adjoint(x: R.Tensor((3, 3), "float32"), y: R.Tensor((3, 3), "float32")):
            with R.dataflow():
                lv = R.multiply(x, y)
                gv = R.sum(lv)
                gv_adjoint = R.ones(R.shape([]), "float32")
                lv_adjoint = R.broadcast_to(gv_adjoint, R.shape([3, 3]))
                x_adjoint = R.multiply(lv_adjoint, y)
                y_adjoint = R.multiply(lv_adjoint, x)
                x_adjoint_out = x_adjoint
                y_adjoint_out = y_adjoint
                R.output(gv, x_adjoint_out, y_adjoint_out)
            return (gv, (x_adjoint_out, y_adjoint_out))

    after = check(Gradient("main"), Product, Expected)
    assert after["main_adjoint"].attrs["global_symbol"] == "main_adjoint"
    assert [p.name_hint for p in after["main_adjoint"].params] == ["x", "y"]


def test_gradients_by_some_parameters():
    y = Product["main"].params[1]
    adjoint = Gradient("main", y)(Product)["main_adjoint"]
    assert len(adjoint.ret_struct_info.fields[1].fields) == 1
    assert "x_adjoint" not in adjoint.script()
    relax.ir.assert_structural_equal(adjoint, Gradient("main", [y])(Product)["main_adjoint"])


def test_uses_are_summed_and_tuples_taken_apart():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((4, 3), "float64"), p: R.Tuple(R.Tensor((2, 3), "float64"), R.Tensor((3,), "float64"))):
            with R.dataflow():
                parts = R.split(x, 2, axis=0)
                first = parts[0]
                pair = (first, p)
                nested = pair[1]
                a = R.multiply(first, nested[0])
                b = R.add(R.multiply(a, a), nested[1])
                joined = R.concat((a, b, first), axis=1)
                loss = R.sum(R.tanh(joined))
                R.output(loss)
            return loss

    x_grad, (_, vector) = check_gradients(Mod, normal(4, 3), (normal(2, 3, seed=1), normal(3, seed=2)))
    assert (x_grad[2:] == 0).all()  # the part that is not used
    assert vector.shape == (3,)


def test_one_of_several_results_is_the_target():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((3,), "float64"), unused: R.Tensor((2,), "float64")):
            with R.dataflow():
                y = R.exp(x)
                loss = R.mean(y)
                out = (y, loss)
                R.output(out)
            return out

    slope, zeros = check_gradients(Mod, normal(3), normal(2), target=1)
    np.testing.assert_allclose(slope, np.exp(normal(3)) / 3)
    assert zeros.tolist() == [0.0, 0.0]


def test_bindings_outside_of_dataflow_blocks():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor(("n",), "float64")):
            y = R.multiply(x, x)
            with R.dataflow():
                z = R.exp(y)
                R.output(z)
            n = T.int64()
            again = R.match_cast(z, R.Tensor((n,), "float64"))
            loss = R.sum(again)
            return loss

    check_gradients(Mod, normal(4))
    (block,) = Gradient("main")(Mod)["main_adjoint"].body.blocks
    assert isinstance(block, relax.DataflowBlock)


def test_what_was_broadcast_is_summed_at_run_time():
    """Whether m is n or 1 is known when the function runs."""

    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor(("n", 3), "float64"), y: R.Tensor(("m", 3), "float64")):
            k = T.int64()
            with R.dataflow():
                both = R.match_cast(R.multiply(x, y), R.Tensor((k, 3), "float64"))
                loss = R.sum(R.multiply(both, both))
                R.output(loss)
            return loss

    for n, m in ((4, 1), (4, 4), (1, 1), (0, 0), (1, 0)):
        check_gradients(Mod, normal(n, 3), normal(m, 3, seed=1))


def test_no_gradient_through_no_grad():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((), "float64")):
            with R.dataflow():
                constant = R.grad.no_grad(R.exp(x))
                loss = R.multiply(constant, x)
                R.output(loss, constant)
            return loss, constant

    adjoint = Gradient("main")(Mod)
    (loss, constant), (slope,) = values(relax.interpret(adjoint, "main_adjoint", np.array(2.0)))
    assert loss == 2 * constant
    assert slope == constant == np.exp(2.0)
    assert "no_grad" not in adjoint["main_adjoint"].script()


# ------------------------------------------------------------------------------------------ checkpoints


@I.ir_module
class Checkpointed:
    @R.function
    def main(x: R.Tensor((2, 3), "float64"), w: R.Tensor((3, 3), "float64")):
        with R.dataflow():
            start = R.grad.start_checkpoint(x)
            hidden = R.tanh(R.matmul(start, w))
            second = R.sin(R.multiply(hidden, hidden))
            end = R.grad.end_checkpoint(second)
            loss = R.sum(R.exp(end))
            R.output(loss)
        return loss


def test_values_in_a_checkpoint_are_computed_again(check):
    check_gradients(Checkpointed, normal(2, 3), normal(3, 3, seed=1), compiled=True)
    adjoint = EliminateCommonSubexpr()(Gradient("main")(Checkpointed))
    text = adjoint["main_adjoint"].script()
    assert text.count("R.tanh(") == 2
    assert text.count("R.sin(") == 1  # its result is kept, and nothing else needs it
    backward = text[text.index("R.ones(") :]
    assert backward.index("R.grad.start_checkpoint(x)") < backward.index("R.tanh(")
    assert "(hidden," not in backward  # the value of the first half is not kept


def test_checkpoints_change_no_gradient():
    marks = {"start": "x", "end": "second"}
    plain = Checkpointed["main"].script()
    for mark, operand in marks.items():
        plain = plain.replace(f"R.grad.{mark}_checkpoint({operand})", operand)
    assert "checkpoint" not in plain
    mod = relax.IRModule({"main": relax.script.from_source(f"{plain}")})
    arrays = normal(2, 3), normal(3, 3, seed=1)
    results = [values(relax.interpret(Gradient("main")(each), "main_adjoint", *arrays)) for each in (mod, Checkpointed)]
    for a, b in zip(*map(flat, results), strict=True):
        np.testing.assert_array_equal(a, b)


# ------------------------------------------------------------------------------------------ whole models


def test_a_perceptron_with_a_symbolic_batch():
    @I.ir_module
    class Mod:
        @R.function
        def main(
            x: R.Tensor(("n", 4), "float64"),
            w: R.Tensor((4, 5), "float64"),
            b: R.Tensor((5,), "float64"),
            gamma: R.Tensor((5,), "float64"),
            beta: R.Tensor((5,), "float64"),
        ):
            with R.dataflow():
                hidden = R.nn.gelu(R.add(R.matmul(x, w), b))
                normed = R.nn.layer_norm(hidden, gamma, beta, axes=[-1])
                loss = R.mean(R.nn.log_softmax(normed))
                R.output(loss)
            return loss

    weights = normal(4, 5, seed=1), normal(5, seed=2), normal(5, seed=3), normal(5, seed=4)
    check_gradients(Mod, normal(3, 4), *weights, compiled=True)
    check_gradients(Mod, normal(1, 4), *weights)


def test_a_convolution_network():
    @I.ir_module
    class Mod:
        @R.function
        def main(
            x: R.Tensor((1, 2, 6, 6), "float64"),
            k: R.Tensor((3, 2, 3, 3), "float64"),
            gamma: R.Tensor((3,), "float64"),
            beta: R.Tensor((3,), "float64"),
            mean: R.Tensor((3,), "float64"),
            var: R.Tensor((3,), "float64"),
        ):
            with R.dataflow():
                conv = R.nn.conv2d(x, k, padding=1)
                normed = R.nn.batch_norm(conv, gamma, beta, mean, var, training=True)
                pooled = R.nn.max_pool2d(R.nn.relu(normed[0]), (2, 2), strides=2)
                means = R.nn.avg_pool2d(pooled, (2, 2))
                statistics = R.add(R.sum(R.exp(normed[1])), R.sum(R.sqrt(normed[2])))
                loss = R.add(R.sum(R.multiply(means, means)), statistics)
                R.output(loss)
            return loss

    vectors = [normal(3, seed=seed) ** 2 + 0.5 for seed in range(1, 5)]
    check_gradients(Mod, normal(1, 2, 6, 6), normal(3, 2, 3, 3, seed=5), *vectors, compiled=True)


def loss_of(operation, *infos):
    """The module of Σ weight · result of an operator, with parameters of float64."""
    builder = relax.BlockBuilder()
    params = [relax.Var(f"x{i}", relax.TensorStructInfo(shape, "float64")) for i, shape in enumerate(infos)]
    with builder.function("main", params):
        with builder.dataflow():
            result = builder.emit(operation(*params))
            if isinstance(result.struct_info, relax.TupleStructInfo):
                parts = [builder.emit(relax.TupleGetItem(result, i)) for i in range(len(result.struct_info.fields))]
            else:
                parts = [result]
            total = relax.const(0.0, "float64")
            for part in parts:
                total = relax.op.add(total, relax.op.sum(relax.op.sin(part)))
            loss = builder.emit_output(total)
        builder.emit_func_output(loss)
    return builder.get()


NORMALISED = {
    "layer_norm": (lambda x, g, b: relax.op.nn.layer_norm(x, g, b, axes=[-1, 1]), (2, 3, 4), (4, 3), (4, 3)),
    "no scale": (lambda x, g, b: relax.op.nn.layer_norm(x, g, b, axes=[1], scale=False), (2, 3), (3,), (3,)),
    "no centre": (lambda x, g, b: relax.op.nn.layer_norm(x, g, b, axes=[0], center=False), (2, 3), (2,), (2,)),
    "rms_norm": (lambda x, w: relax.op.nn.rms_norm(x, w, axes=[2, 0]), (2, 3, 4), (4, 2)),
    "group_norm": (
        lambda x, g, b: relax.op.nn.group_norm(x, g, b, num_groups=2, channel_axis=1, axes=[2, 3]),
        (2, 4, 2, 3),
        (4,),
        (4,),
    ),
    "instance_norm": (
        lambda x, g, b: relax.op.nn.instance_norm(x, g, b, channel_axis=-1, axes=[1]),
        (2, 3, 2),
        (2,),
        (2,),
    ),
    "batch_norm": (relax.op.nn.batch_norm, (2, 3, 2), (3,), (3,), (3,), (3,)),
    "batch statistics": (
        lambda *operands: relax.op.nn.batch_norm(*operands, axis=2, training=True, momentum=0.3),
        (2, 2, 3),
        *[(3,)] * 4,
    ),
}


@pytest.mark.parametrize("name", NORMALISED)
def test_normalisation(name):
    operation, *shapes = NORMALISED[name]
    arrays = [normal(*shapes[0]), *(normal(*s, seed=i) ** 2 + 0.5 for i, s in enumerate(shapes[1:], 1))]
    check_gradients(loss_of(operation, *shapes), *arrays)


SLICED = {
    "max": lambda x: relax.op.max(x, axis=[0, 2]),
    "min": lambda x: relax.op.min(x, axis=1, keepdims=True),
    "all": relax.op.max,
    "cumsum": lambda x: relax.op.cumsum(x, axis=1, exclusive=True),
    "flat": relax.op.cumsum,
    "strided_slice": lambda x: relax.op.strided_slice(x, [2, 0], [1, -1], [4, 9], [2, 1]),
    "repeat": lambda x: relax.op.repeat(x, 2, axis=1),
    "all repeated": lambda x: relax.op.repeat(x, 3),
    "stop_lift_params": relax.op.builtin.stop_lift_params,
    "tile": lambda x: relax.op.tile(x, (2, 1, 3, 2)),
    "adaptive": lambda x: relax.op.nn.adaptive_avg_pool1d(x, 3, out_layout="NWC"),
    "means": lambda x: relax.op.nn.adaptive_avg_pool1d(x, 1),
    "layout_transform": lambda x: relax.op.layout_transform(x, lambda n, c, w: (w % 2, n, c, w // 2)),
    "packed convolution": lambda x: relax.op.nn.conv1d(
        relax.op.layout_transform(x, lambda n, c, w: (n, c // 3, w, c % 3)),
        relax.const(normal(1, 3, 2, 2)),
        data_layout="NCW3c",
        kernel_layout="OIW2o",
        out_layout="NCW2c",
    ),
    "packed transposed convolution": lambda x: relax.op.nn.conv1d_transpose(
        x, relax.const(normal(3, 2, 2)), out_layout="NWC2c", strides=2
    ),
    "packed maxima": lambda x: relax.op.nn.max_pool2d(relax.op.expand_dims(x, [1, 2]), (1, 2), layout="NCHW4c"),
    "packed averages": lambda x: relax.op.nn.avg_pool2d(
        relax.op.expand_dims(x, [1, 2]), (1, 2), strides=(1, 2), padding=(0, 1), layout="NCHW4c", out_layout="NHWC"
    ),
    "packed means": lambda x: relax.op.nn.adaptive_avg_pool1d(x, 2, out_layout="NCW3c"),
    "mean": lambda x: relax.op.mean(x, axis=[1], keepdims=True),
    "sum": lambda x: relax.op.sum(x, axis=[-1, 0]),
}


@pytest.mark.parametrize("name", SLICED)
def test_reductions_and_slices(name):
    check_gradients(loss_of(SLICED[name], (2, 3, 4)), normal(2, 3, 4))


def test_equal_extrema_share_their_gradient():
    mod = Gradient("main")(
        relax.script.from_source(
            """
from relax.script import ir as I, relax as R
@I.ir_module
class Mod:
    @R.function
    def main(x: R.Tensor((3,), "float64")):
        with R.dataflow():
            gv = R.max(x)
            R.output(gv)
        return gv
"""
        )
    )
    _, (slope,) = values(relax.interpret(mod, "main_adjoint", np.array([2.0, 1.0, 2.0])))
    assert slope.tolist() == [0.5, 0.0, 0.5]


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("ignored", [-100, 1])
def test_gradients_of_nll_loss(reduction, ignored):
    targets = relax.const(np.array([[0, 1], [2, 0]]), "int64")

    def operation(x, weights):
        return relax.op.nn.nll_loss(x, targets, weights, reduction=reduction, ignore_index=ignored)

    check_gradients(loss_of(operation, (2, 3, 2), (3,)), normal(2, 3, 2), normal(3, seed=1) ** 2 + 0.5)


# ------------------------------------------------------------------------------------------ kernels


@register_te_gradient("test.scaled_product_grad")
def scaled_product_grad(grad, a, b, scale):
    return [topi.multiply(topi.multiply(grad, b), scale), topi.multiply(topi.multiply(grad, a), scale)]


@I.ir_module
class Kernel:
    @T.prim_func(private=True)
    def scaled_product(a: T.handle, b: T.handle, c: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float64")
        B = T.match_buffer(b, (n,), "float64")
        C = T.match_buffer(c, (n,), "float64")
        for i in range(n):
            with T.block("product"):
                v = T.axis.spatial(n, i)
                C[v] = A[v] * B[v] * T.float64(3)

    @R.function
    def main(x: R.Tensor(("n",), "float64"), y: R.Tensor(("n",), "float64")):
        n = T.int64()
        cls = Kernel
        with R.dataflow():
            z = R.call_tir_with_grad(
                cls.scaled_product,
                (x, y),
                R.Tensor((n,), "float64"),
                te_grad_name="test.scaled_product_grad",
                te_grad_kwargs={"scale": 3.0},
            )
            loss = R.sum(z)
            R.output(loss)
        return loss


def test_the_gradient_of_a_kernel_is_a_kernel():
    check_gradients(Kernel, normal(4), normal(4, seed=1), compiled=True)
    relax.ir.assert_structural_equal(relax.script.from_source(Kernel.script()), Kernel)
    adjoint = Gradient("main")(Kernel)
    kernels = {var.name_hint for var in adjoint.functions} - {"main", "main_adjoint"}
    assert kernels == {"scaled_product", "test_scaled_product_grad"}


def test_gradients_of_kernels_that_do_not_fit():
    def complaint(name, *tensors):
        register_te_gradient("test.other_grad", lambda grad, a, b: [b, b][: len(tensors)])
        text = Kernel.script().replace("test.scaled_product_grad", name).replace('{"scale": 3.0}', "None")
        mod = relax.script.from_source(text)
        with pytest.raises(DiagnosticError) as error:
            Gradient("main")(mod)
        return str(error.value)

    missing = complaint("test.no_such_grad")
    assert "call_tir_with_grad names the gradient 'test.no_such_grad': no gradient of this name" in missing
    assert "register it: @relax.training.utils.register_te_gradient(name)" in missing
    assert "it gives 1 gradients for 2 arguments" in complaint("test.other_grad", "a")


# ------------------------------------------------------------------------------------------ complaints


def complaint(mod, *args, **options):
    with pytest.raises(DiagnosticError) as error:
        Gradient(*args, **options)(mod)
    text = str(error.value)
    assert "E4012" in text
    return text


def test_wrong_requests():
    x, _ = Product["main"].params
    assert "'other' is no Relax function" in complaint(Product, "other")
    assert "stray in require_grads is no parameter" in complaint(Product, "main", relax.Var("stray"))
    assert "x is twice in require_grads" in complaint(Product, "main", [x, x])
    assert "target_index is 1, but the function returns 1 values" in complaint(Product, "main", target_index=1)
    changed = Product.with_function("main_adjoint", Product["main"].with_attr("global_symbol", "main_adjoint"))
    assert "the module has another function 'main_adjoint'" in complaint(changed, "main")


def test_what_has_no_gradient():
    @I.ir_module
    class Mod:
        @R.function
        def matrix(x: R.Tensor((3, 3), "float32")):
            return x

        @R.function
        def labels(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "int64")):
            loss = R.sum(x)
            return loss

        @R.function
        def local(x: R.Tensor((), "float32")):
            @R.function
            def inner(y: R.Tensor((), "float32")) -> R.Tensor((), "float32"):
                return R.exp(y)

            y = inner(x)
            return y

        @R.function(private=True)
        def helper(x: R.Tensor((), "float32")) -> R.Tensor((), "float32"):
            y = R.exp(x)
            return y

        @R.function
        def several(x: R.Tensor((3,), "float32"), shapeless: R.Tensor(ndim=1, dtype="float32")):
            a = R.sum(
                R.nn.lstm(
                    R.reshape(x, R.shape([3, 1, 1])),
                    R.ones((1, 4, 1), "float32"),
                    R.ones((1, 4, 1), "float32"),
                    clip=1.0,
                )[0]
            )
            b = R.sum(R.add(shapeless, x))
            c = R.add(a, b)
            d = Mod.helper(c)
            return d

        @R.function
        def unknown(x: R.Tensor((3,), "float32")):
            y = R.call_pure_packed("f", x, sinfo_args=R.Tensor((3,)))
            z = R.match_cast(R.sum(y), R.Tensor((), "float32"))
            return z

    assert 'the target must be a scalar of floats, found R.Tensor((3, 3), "float32")' in complaint(Mod, "matrix")
    text = complaint(Mod, "labels")
    assert 'the gradient by y is required, which is R.Tensor((3,), "int64")' in text
    assert "require_grads=[...]" in text
    adjoint = Gradient("labels", Mod["labels"].params[0])(Mod)["labels_adjoint"]
    assert len(adjoint.ret_struct_info.fields[1].fields) == 1
    assert "a function with local functions has no gradient" in complaint(Mod, "local")
    text = complaint(Mod, "several")
    assert "nn.lstm has no gradient for these operands and attributes" in text
    assert "sum has no gradient for these operands and attributes" in text
    assert "is not known: match_cast it" in text
    assert "no gradient where the dtype of" in complaint(Mod, "unknown")
