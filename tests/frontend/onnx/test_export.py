"""to_onnx: a Relax function as an ONNX model, which ONNX Runtime runs as the interpreter does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import onnx_backend
import relax
from relax.frontend.onnx import from_onnx, save_onnx, to_onnx, writer
from relax.frontend.onnx.export.registry import WRITERS
from relax.op import Operator, operator
from relax.struct_info import TensorStructInfo
from support import module, numbers, values


def ran(model, *args):
    """The outputs of a model in ONNX Runtime, after the checker."""
    onnx.checker.check_model(model, full_check=True)
    session = onnx_backend.onnxruntime_session(model)
    names = [value.name for value in session.get_inputs()]
    return session.run(None, dict(zip(names, args, strict=True)))


def exported(mod, *args, **options):
    """The model of a module, whose outputs are those of the interpreter."""
    model = to_onnx(mod, **options)
    expected = values(relax.interpret(mod, "main", *args))
    wanted = list(expected) if isinstance(expected, (tuple, list)) else [expected]
    for found, right in zip(ran(model, *args), wanted, strict=True):
        np.testing.assert_allclose(found, right, 1e-5, 1e-6, strict=True)
    return model


def op_types(model):
    return [node.op_type for node in model.graph.node]


def shown(value):
    """The name and the dimensions of an input or output."""
    return value.name, [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]


# --------------------------------------------------------------------------------------------- functions

LINEAR = """
@R.function
def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 2), "float32")):
    with R.dataflow():
        h = R.matmul(x, w)
        y = R.nn.relu(h)
        R.output(y)
    return y
"""


@pytest.mark.parametrize("n", [0, 1, 3])
def test_names_dtypes_and_dimensions_are_kept(n):
    model = exported(module(LINEAR), numbers(n, 4), numbers(4, 2, seed=1))
    assert [shown(value) for value in model.graph.input] == [("x", ["n", 4]), ("w", [4, 2])]
    assert [shown(value) for value in model.graph.output] == [("y", ["n", 2])]
    assert op_types(model) == ["MatMul", "Max"]


def test_without_a_dataflow_block_and_with_constants():
    mod = module("""
    @R.function
    def main(x: R.Tensor(("n", 2), "float32")):
        y = R.add(x, R.const([1.0, 2.0], "float32"))
        return R.multiply(y, R.const(3.0, "float32"))
    """)
    model = exported(mod, numbers(3, 2))
    assert sorted(list(tensor.dims) for tensor in model.graph.initializer) == [[], [2]]


@pytest.mark.parametrize("n, m", [(1, 1), (2, 3), (4, 0)])
def test_derived_sizes_are_computed_in_the_graph(n, m):
    mod = module("""
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32")):
        n, m = T.int64(), T.int64()
        y = R.reshape(x, R.shape([m * n]))
        z = R.broadcast_to(R.const(1.0, "float32"), R.shape([T.max(n - 2, 0) + n // 2 + n % 3, 2 * m + 1]))
        return (y, z, R.shape([n + m, 3]))
    """)
    x = numbers(n, m)
    model = to_onnx(mod)
    y, z, shape = ran(model, x)
    assert y.shape == (n * m,)
    assert z.shape == (max(n - 2, 0) + n // 2 + n % 3, 2 * m + 1)
    assert shape.tolist() == [n + m, 3]


def test_parameters_that_are_tuples_shapes_and_scalars():
    mod = module("""
    @R.function
    def main(t: R.Tuple(R.Tensor(("n",), "float32"), R.Tensor((2,), "float32")), s: R.Shape(["m"]), size: R.Prim(value="k")):
        n, m, k = T.int64(), T.int64(), T.int64()
        a = R.sum(t[0])
        b = R.multiply(t[1], a)
        return (b, R.zeros(R.shape([m, k, n]), "int8"))
    """)
    model = to_onnx(mod)
    assert [value.name for value in model.graph.input] == ["t_0", "t_1", "s", "size"]
    first, zeros = ran(model, np.float32([1, 2]), np.float32([1, 10]), np.array([3]), np.array(4))
    assert first.tolist() == [3, 30]
    assert zeros.shape == (3, 4, 2)


def test_an_output_may_be_an_input_a_constant_or_twice_the_same():
    mod = module("""
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        y = R.exp(x)
        return (x, y, (y, R.const([1], "int64")))
    """)
    model = to_onnx(mod)
    x = numbers(2)
    same, first, second, one = ran(model, x)
    assert len({value.name for value in [*model.graph.input, *model.graph.output]}) == 5
    assert same.tolist() == x.tolist()
    assert first.tolist() == second.tolist()
    assert one.tolist() == [1]


def test_match_cast_binds_sizes_that_only_the_data_tell():
    mod = module("""
    @R.function
    def main(x: R.Tensor(("n",), "int64")):
        k = T.int64()
        found = R.nonzero(x)
        y = R.match_cast(found, R.Tensor((1, k), "int64"))
        return R.full(R.shape([k + 1]), R.const(7, "int32"), "int32")
    """)
    (found,) = ran(to_onnx(mod), np.array([0, 3, 0, 5]))
    assert found.tolist() == [7, 7, 7]


# --------------------------------------------------------------------------------------------- control flow

CHOICE = """
@R.function
def main(c: R.Tensor((), "bool"), x: R.Tensor(("n",), "float32")):
    n = T.int64()
    if c:
        a = R.exp(x)
        r = (a, R.zeros(R.shape([n + 1]), "float32"))
    else:
        b = R.negative(x)
        r = (b, R.ones(R.shape([n + 1]), "float32"))
    return r
"""


@pytest.mark.parametrize("condition", [True, False])
def test_if(condition):
    model = exported(module(CHOICE), np.array(condition), numbers(3))
    assert "If" in op_types(model)


def test_calls_are_inlined_each_with_sizes_of_its_own():
    mod = module(
        """
    @R.function(private=True)
    def doubled(y: R.Tensor(("k",), "float32")) -> R.Tensor(("2 * k",), "float32"):
        k = T.int64()
        return R.concat((y, R.zeros(R.shape([k]), "float32")), axis=0)
    """,
        """
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        cls = Module
        y = cls.doubled(x)
        return cls.doubled(y)
    """,
    )
    (found,) = ran(to_onnx(mod), np.float32([1, 2]))
    assert found.tolist() == [1, 2, 0, 0, 0, 0, 0, 0]


LOOP = """
@R.function
def main(count: R.Tensor((), "int64"), x: R.Tensor(("n",), "float32")):
    @R.function
    def loop(i: R.Tensor((), "int64"), s: R.Tensor(("m",), "float32")) -> R.Tensor(ndim=1, dtype="float32"):
        again = R.less(i, count)
        if again:
            j = R.add(i, R.const(1, "int64"))
            t = R.concat((s, s), axis=0)
            r = loop(j, t)
        else:
            r = R.negative(s)
        return r
    return loop(R.const(0, "int64"), x)
"""


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_function_that_calls_itself_at_its_end_is_a_loop(count):
    model = to_onnx(module(LOOP))
    assert "Loop" in op_types(model)
    (found,) = ran(model, np.array(count), np.float32([1, 2]))
    assert found.tolist() == [-1, -2] * 2**count


def test_a_loop_over_scalars():
    body = onnx.parser.parse_graph("""
    step (int64 i, bool c, float[n] s) => (bool d, float[n] t, float[n] row) {
        d = Identity (c)
        t = Add (s, s)
        row = Identity (t)
    }""")
    loop = onnx.helper.make_node("Loop", ["count", "go", "x"], ["last", "rows"], body=body)
    inputs = [
        onnx.helper.make_tensor_value_info(n, k, d) for n, k, d in (("count", 7, []), ("go", 9, []), ("x", 1, ["n"]))
    ]
    outputs = [onnx.helper.make_tensor_value_info(n, 1, None) for n in ("last", "rows")]
    graph = onnx.helper.make_graph([loop], "g", inputs, outputs)
    mod = from_onnx(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)]))
    model = to_onnx(mod)
    assert [value.name for value in model.graph.output] == ["last", "rows"]
    last, rows = ran(model, np.array(3), np.array(True), np.float32([1, 2]))
    assert last.tolist() == [8, 16]
    assert rows.tolist() == [[2, 4], [4, 8], [8, 16]]


# --------------------------------------------------------------------------------------------- meanings


@pytest.mark.parametrize(
    "call, x, expected",
    [
        ("R.max(x)", np.float32([1, np.nan, 2]), np.nan),
        ("R.argmax(x)", np.float32([1, np.nan, np.inf]), 1),
        ("R.astype(x, 'int8')", np.float32([300, -300, np.nan, 1.9]), [127, -128, 0, 1]),
        ("R.floor_divide(x, R.const(-2, 'int32'))", np.int32([7, -7, 6]), [-4, 3, -3]),
        ("R.divide(x, R.const(-1, 'int64'))", np.int64([-(2**63), 5]), [-(2**63), -5]),
        ("R.add(x, x)", np.int8([100, -100]), [-56, 56]),
        ("R.left_shift(x, R.const(9, 'int8'))", np.int8([1, 3]), [0, 0]),
        ("R.right_shift(x, R.const(1, 'int8'))", np.int8([-3, 3]), [-2, 1]),
        ("R.argsort(x)", np.float32([np.nan, 1, np.inf, 0]), [3, 1, 2, 0]),
        ("R.power(x, R.const(3, 'int32'))", np.int32([-3, 2000]), [-27, 8000000000 - 2**33]),
        ("R.round(x)", np.float32([0.5, 1.5, -2.5]), [0, 2, -2]),
        ("R.clip(x, 5, 3)", np.float32([1, 4, 9]), [3, 3, 3]),
        ("R.nn.max_pool1d(R.reshape(x, (1, 1, 4)), pool_size=2)", np.float32([0, np.nan, 1, 2]), [[[np.nan, np.nan, 2]]]),
    ],
)  # fmt: skip
def test_operators_mean_what_they_do_in_relax(call, x, expected):
    mod = module(f"""
    @R.function
    def main(x: R.Tensor({x.shape}, "{x.dtype}")):
        return {call}
    """)
    (found,) = ran(to_onnx(mod), x)
    np.testing.assert_array_equal(found, np.array(expected, found.dtype))
    np.testing.assert_array_equal(found, values(relax.interpret(mod, "main", x)))


def test_narrow_floats_are_rounded_once():
    mod = module("""
    @R.function
    def main(x: R.Tensor(("n",), "float16")):
        return R.sum(x)
    """)
    exported(mod, np.full(3000, 1, "float16"))


# --------------------------------------------------------------------------------------------- options


def test_the_opset_is_the_newest_that_runs():
    ranged = module("""
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), s: R.Tensor((), "float32"), z: R.Tensor((), "int8")):
        return R.quantize(x, s, z)
    """)
    (opset,) = (entry.version for entry in to_onnx(ranged).opset_import)
    assert opset <= onnx.defs.onnx_opset_version()
    ran(to_onnx(ranged), numbers(2, 3), np.array(0.5, np.float32), np.array(0, np.int8))


def test_opset_ir_version_and_name():
    model = to_onnx(module(LINEAR), opset=21, ir_version=10, name="linear")
    assert (model.opset_import[0].version, model.ir_version, model.graph.name) == (21, 10, "linear")


def test_weights_in_a_file_beside_the_model(tmp_path):
    mod = module(
        """
    @R.function
    def main(x: R.Tensor(("n", 64), "float32")):
        return R.matmul(x, w)
    """,
        w=relax.const(numbers(64, 64, seed=3)),
    )
    path = tmp_path / "model.onnx"
    save_onnx(mod, path, external_data=True)
    save_onnx(mod, path, external_data=True)  # again: the file of the weights does not grow
    assert path.stat().st_size < 1000
    assert (tmp_path / "model.onnx.data").stat().st_size == 64 * 64 * 4
    x = numbers(2, 64)
    (found,) = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    np.testing.assert_allclose(found, values(relax.interpret(mod, "main", x)), 1e-5, 1e-6)
    model = to_onnx(mod, external_data=tmp_path / "other.onnx")
    assert len(model.graph.initializer[0].raw_data) == 64 * 64 * 4
    assert (tmp_path / "other.onnx.data").exists()


def test_a_writer_of_ones_own():
    @operator("export_tests.twice")
    class Twice(Operator):
        """x + x."""

        def infer(self, x: TensorStructInfo) -> TensorStructInfo:
            return x

    @writer("export_tests.twice")
    def twice(graph, operator, x):
        return x + x

    mod = module("""
    @R.function
    def main(x: R.Tensor(("n",), "int8")):
        return R.export_tests.twice(x)
    """)
    (found,) = ran(to_onnx(mod), np.int8([3, 100]))
    assert found.tolist() == [6, -56]
    del WRITERS["export_tests.twice"]


# --------------------------------------------------------------------------------------------- refusals

KERNEL = """
@T.prim_func(private=True)
def kernel(a: T.Buffer((2,), "float32"), b: T.Buffer((2,), "float32")):
    for i in range(2):
        with T.block("b"):
            v = T.axis.spatial(2, i)
            b[v] = a[v] + T.float32(1)
"""


@pytest.mark.parametrize(
    "body, message",
    [
        ("R.call_tir(Module.kernel, (x,), R.Tensor((2,), 'float32'))", "main: ONNX cannot say the kernel kernel"),
        ("R.call_pure_packed('f', x, sinfo_args=R.Object)", "main: ONNX cannot say the packed function f"),
        ("R.print(x, format='')", "main: ONNX cannot say the operator print, which has an effect"),
        (
            "R.layout_transform(x, lambda i: (i // 2, i % 2))",
            "main: ONNX cannot say a layout transform by an index map",
        ),
        ("R.astype(x, 'float8_e3m4')", "main: ONNX cannot say the dtype float8_e3m4"),
    ],
)
def test_what_onnx_cannot_say(body, message):
    main = f"""
    @R.function(pure=False)
    def main(x: R.Tensor((2,), "float32")):
        y = {body}
        return y
    """
    with pytest.raises(relax.DiagnosticError) as error:
        to_onnx(module(KERNEL, main))
    (diagnostic,) = error.value.diagnostics
    assert (diagnostic.code, diagnostic.message) == ("E6008", message)
    assert diagnostic.span is not None
    assert diagnostic.hint


def test_recursion_is_no_loop():
    mod = module("""
    @R.function
    def main(x: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
        cls = Module
        more = R.greater(x, R.const(0, "int64"))
        if more:
            y = cls.main(R.subtract(x, R.const(1, "int64")))
            r = R.add(y, x)
        else:
            r = x
        return r
    """)
    with pytest.raises(relax.DiagnosticError, match="ONNX cannot say the recursive function main"):
        to_onnx(mod)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"entry": "nothing"}, "to_onnx: the module has no Relax function 'nothing'"),
        ({"opset": 9}, "to_onnx: opset must be in [21, "),
    ],
)
def test_arguments_that_do_not_fit(options, message):
    with pytest.raises(relax.DiagnosticError) as error:
        to_onnx(module(LINEAR), **options)
    (diagnostic,) = error.value.diagnostics
    assert diagnostic.code == "E6009"
    assert diagnostic.message.startswith(message)


def test_external_data_in_another_folder(tmp_path):
    with pytest.raises(relax.DiagnosticError, match="external_data must be the name of a file beside the model"):
        save_onnx(module(LINEAR), tmp_path / "model.onnx", external_data=str(Path("other") / "weights"))
