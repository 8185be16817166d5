"""Functions of torch by their names: `R.call_packed("torch.unique", x)`, as the RFC of Relax has it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import relax
import relax.runtime.libraries.torch_functions as torch_functions
from relax.runtime import Executable
from relax.script import from_source
from support import numbers

torch = pytest.importorskip("torch")


def parse(params, *body, pure=True):
    lines = "\n".join(f"        {line}" for line in body)
    return from_source(
        "from relax.script import ir as I, relax as R, tir as T\n@I.ir_module\nclass M:\n"
        f"    @R.function(pure={pure})\n    def main({params}):\n{lines}\n        return y\n"
    )


def flat(value):
    return [leaf for item in value for leaf in flat(item)] if isinstance(value, (list, tuple)) else [value.numpy()]


def results(mod, *args):
    """What a program returns, by the interpreter, as bytecode and compiled; all are the same."""
    every = [flat(relax.interpret(mod, "main", *args))]
    for mode in ("bytecode", "compiled"):
        executable = Executable.from_bytes(relax.build(mod, exec_mode=mode).to_bytes())
        every.append(flat(relax.VirtualMachine(executable)["main"](*args)))
    for other in every[1:]:
        for found, first in zip(other, every[0], strict=True):
            assert found.dtype == first.dtype
            np.testing.assert_array_equal(found, first)
    return every[0]


def test_the_example_of_the_rfc():
    mod = parse('x: R.Tensor(("n",), "float32")', 'y = R.call_packed("torch.unique", x, sinfo_args=R.Tensor("float32", ndim=1))',
                pure=False)  # fmt: skip
    for n in (7, 1, 0):
        x = (np.arange(n) % 3).astype("float32")
        (found,) = results(mod, x)
        np.testing.assert_array_equal(found, np.unique(x))


def test_results_in_tuples_and_numbers_as_arguments():
    infos = 'R.Tuple(R.Tensor("float32", ndim=2), R.Tensor("int64", ndim=2))'
    mod = parse(
        'x: R.Tensor(("n", 5), "float32")', f'y = R.call_pure_packed("torch.topk", x, 2, -1, sinfo_args={infos})'
    )
    x = numbers(3, 5)
    values, indices = results(mod, x)
    np.testing.assert_array_equal(values, -np.sort(-x, 1)[:, :2])
    np.testing.assert_array_equal(indices, np.argsort(-x, 1)[:, :2])


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("torch.reshape", "x, R.shape([n * 3])", lambda x: x.reshape(-1)),
        ("torch.nn.functional.elu", "x, 0.5", lambda x: np.where(x > 0, x, 0.5 * np.expm1(x))),
        ("torch.linalg.norm", "x", lambda x: np.linalg.norm(x)),
        ("torch.special.expit", "x", lambda x: 1 / (1 + np.exp(-x))),
        ("torch.ops.aten.mul", "x, x", lambda x: x * x),
        ("torch.cat", "(x, x), 1", lambda x: np.concatenate((x, x), 1)),
        ("torch.t", "x", np.transpose),
        ("torch.isnan", "x", np.isnan),
    ],
)
def test_names_and_arguments(name, args, expected):
    mod = parse(
        'x: R.Tensor(("n", 3), "float32")',
        "n = T.int64()",
        f'y = R.call_pure_packed("{name}", {args}, sinfo_args=R.Tensor)',
    )
    for n in (2, 1, 0):
        x = numbers(n, 3)
        (found,) = results(mod, x)
        np.testing.assert_allclose(found, expected(x), 1e-5, 1e-6)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "bool", "uint8", "int64"])
def test_dtypes(dtype):
    mod = parse(
        f'x: R.Tensor(("n",), "{dtype}")',
        f'y = R.call_pure_packed("torch.flip", x, R.shape([0]), sinfo_args=R.Tensor("{dtype}", ndim=1))',
    )
    x = numbers(4, dtype=dtype)
    (found,) = results(mod, x)
    np.testing.assert_array_equal(found, x[::-1])


def test_destination_passing_in_a_dataflow_block():
    mod = parse(
        'x: R.Tensor(("n", 5), "float32"), low: R.Tensor((5,), "float32")', "n = T.int64()", "with R.dataflow():",
        '    c = R.call_dps_packed("torch.clamp", (x, low), R.Tensor((n, 5), "float32"))',
        '    y = R.call_dps_packed("torch.topk", (c, 2), [R.Tensor((n, 2), "float32"), R.Tensor((n, 2), "int64")])',
        "    R.output(y)",
    )  # fmt: skip
    for n in (3, 0):
        x, low = numbers(n, 5), numbers(5, seed=1)
        clipped = np.maximum(x, low)
        values, indices = results(mod, x, low)
        np.testing.assert_array_equal(values, -np.sort(-clipped, 1)[:, :2])
        np.testing.assert_array_equal(np.take_along_axis(clipped, indices, 1), values)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ('"torch.fft.fft", x', "torch.fft.fft returned a tensor of torch.complex64, which no value of a program is"),
        ('"torch.ops.aten.to_sparse", x', "torch.ops.aten.to_sparse returned a tensor of layout torch.sparse_coo"),
    ],
)
def test_results_that_are_no_values_of_a_program(call, message):
    mod = parse('x: R.Tensor((2, 3), "float32")', f"y = R.call_pure_packed({call}, sinfo_args=R.Object)")
    for run in (relax.VirtualMachine(relax.build(mod))["main"], lambda x: relax.interpret(mod, "main", x)):
        with pytest.raises(TypeError, match=message):
            run(numbers(2, 3))


def test_a_dtype_as_argument():
    call = 'y = R.call_pure_packed("torch.softmax", x, -1, R.dtype("{}"), sinfo_args=R.Tensor)'
    x = numbers(2, 3)
    (found,) = results(parse('x: R.Tensor((2, 3), "float32")', call.format("float64")), x)
    assert found.dtype == "float64"
    np.testing.assert_allclose(found.sum(1), 1, 1e-12)
    mod = parse('x: R.Tensor((2, 3), "float32")', call.format("float4_e2m1fn"))
    with pytest.raises(TypeError, match="torch has no dtype float4_e2m1fn"):
        relax.interpret(mod, "main", x)


def test_a_result_that_is_an_argument_is_copied():
    mod = parse(
        'x: R.Tensor((2, 3), "float32")',
        'v = R.call_pure_packed("torch.ops.aten.view", x, R.shape([6]), sinfo_args=R.Tensor((6,), "float32"))',
        'w = R.call_pure_packed("torch.exp", v, sinfo_args=R.Tensor((6,), "float32"))', "y = (v, w)",
    )  # fmt: skip
    x = numbers(2, 3)
    run = relax.VirtualMachine(relax.build(mod))["main"]
    v, w = run(x)
    np.testing.assert_array_equal(v.numpy(), x.reshape(6))
    v.numpy()[...] = 0
    assert x.any()
    np.testing.assert_allclose(w.numpy(), np.exp(x.reshape(6)), 1e-6)


def test_what_torch_says_is_an_error():
    mod = parse('x: R.Tensor((2, 3), "float32")', 'y = R.call_pure_packed("torch.mm", x, x, sinfo_args=R.Tensor)')
    for run in (relax.VirtualMachine(relax.build(mod))["main"], lambda x: relax.interpret(mod, "main", x)):
        with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
            run(numbers(2, 3))


@pytest.mark.parametrize(
    "name",
    ["torch.load", "torch.hub.load", "torch.uniq", "torch._C.mm", "torch.Tensor", "torch.os.system", "torch.save"],
)
def test_names_that_are_not_known(name):
    assert torch_functions.resolve(name) is None
    mod = parse('x: R.Tensor((2,), "float32")', f'y = R.call_pure_packed("{name}", x, sinfo_args=R.Tensor)')
    with pytest.raises(
        relax.runtime.LinkError, match=f"{name}. Packed functions are made known by relax.register_func"
    ):
        relax.VirtualMachine(relax.build(mod))


def test_a_fresh_process_imports_them_or_is_told_to(tmp_path):
    mod = parse(
        'x: R.Tensor(("n",), "float32")',
        'y = R.call_pure_packed("torch.unique", x, sinfo_args=R.Tensor("float32", ndim=1))',
    )
    path = tmp_path / "model.rxe"
    relax.build(mod).save(path)
    code = f"""
import sys
import numpy as np, relax
try:
    relax.VirtualMachine(relax.runtime.load_module({str(path)!r}))
except relax.runtime.LinkError as error:
    print(error)
import relax.runtime.libraries.torch_functions
main = relax.VirtualMachine(relax.runtime.load_module({str(path)!r}))["main"]
print(main(np.array([2, 1, 2], "float32")).numpy().tolist())
assert "relax.ir" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    message, values = done.stdout.splitlines()
    assert "made known by importing relax.runtime.libraries.torch_functions." in message
    assert values == "[1.0, 2.0]"


def test_without_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="it needs the library torch: pip install torch"):
        torch_functions.resolve("torch.unique")
