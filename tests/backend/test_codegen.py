"""Libraries: registered in Python, matched by patterns, saved in executables, loaded where the program runs."""

from __future__ import annotations

import subprocess
import sys
from typing import ClassVar

import numpy as np
import pytest

import relax
from relax.backend import (
    get_pattern,
    get_patterns_with_prefix,
    json_codegen,
    json_graph,
    partition,
    register_codegen,
    register_patterns,
)
from relax.dpl import is_op, wildcard
from relax.ir import DiagnosticError, assert_structural_equal
from relax.runtime import Executable, ExecutableError
from relax.runtime.json_graph import JSONRuntime, read_graph
from relax.runtime.modules import Module, register_loader
from relax.script import from_source
from support import numbers, same

MODES = ["compiled", "bytecode"]
RUNS = []


class Npu(JSONRuntime):
    """The runtime of a library for tests: it computes with NumPy, and notes what it is asked for."""

    operators: ClassVar = {
        "toy.dense": lambda node, x, w: np.maximum(x @ w, 0),
        "toy.add": lambda node, a, b: a + b,
        "toy.sum": lambda node, x: x.sum(node.integers("axis")),
        "toy.split": lambda node, x: tuple(np.split(x, 2, 0)),
        "toy.reshape": lambda node, x: x.reshape(-1),
    }

    def run(self, *args):
        RUNS.append([node.name for node in self.graph.nodes if node.op == "kernel"])
        super().run(*args)


PATTERNS = [
    ("toy.reshape", is_op("relax.reshape")(wildcard(), wildcard())),
    ("toy.split", is_op("relax.split")(wildcard())),
    ("toy.sum", is_op("relax.sum")(wildcard())),
    ("toy.add", is_op("relax.add")(wildcard(), wildcard())),
    ("toy.dense", is_op("relax.nn.relu")(is_op("relax.matmul")(wildcard(), wildcard()))),
]
register_codegen("toy", patterns=PATTERNS, codegen=json_codegen("toy"), runtime=Npu.load, override=True)


def parse(params, *body, result="y", ret=""):
    """A program with one dataflow block."""
    lines = "\n".join(f"            {line}" for line in body)
    return from_source(
        "from relax.script import ir as I, relax as R, tir as T\n@I.ir_module\nclass M:\n    @R.function\n"
        f"    def main({params}){ret}:\n        n = T.int64()\n        with R.dataflow():\n{lines}\n"
        f"            R.output({result})\n        return {result}\n"
    )


MODEL = parse(
    'x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 2), "float32")',
    "a = R.nn.relu(R.matmul(x, w))",
    "b = R.add(a, R.const([1.0, 2.0]))",
    "c = R.exp(b)",
    "y = R.sum(R.add(c, c), axis=[0])",
)


def check(mod, *args):
    """A partitioned program gives what the program gives: interpreted, compiled, saved and loaded, text and JSON."""
    expected = relax.interpret(mod, "main", *args)
    split = partition(mod, "toy")
    assert_structural_equal(partition(split, "toy"), split)
    same(relax.interpret(split, "main", *args), expected)
    assert_structural_equal(
        from_source("from relax.script import ir as I, relax as R, tir as T\n" + split.script(show_meta=True)), split
    )
    assert_structural_equal(relax.ir.load_json(relax.ir.save_json(split)), split)
    for mode in MODES:
        executable = relax.build(split, exec_mode=mode)
        for program in (executable, Executable.from_bytes(executable.to_bytes())):
            RUNS.clear()
            same(relax.VirtualMachine(program)["main"](*args), expected)
            assert RUNS
    return split


@pytest.mark.parametrize("n", [0, 1, 3])
def test_a_library_runs_what_its_patterns_match(n):
    x = numbers(n, 4)
    x[:1, :1] = np.nan
    split = check(MODEL, x, numbers(4, 2))
    assert RUNS == [["toy.dense", "toy.add"], ["toy.add", "toy.sum"]]
    assert split.script().count("R.call_dps_packed") == 2
    assert [module.kind for module in relax.build(split).modules] == ["toy", "toy"]


def test_several_results_and_shapes():
    mod = parse(
        'x: R.Tensor((4, 4), "float32")',
        "t = R.split(R.add(x, x), 2, axis=0)", "u = R.negative(t[0])", "y = R.reshape(R.add(t[1], u), R.shape([8]))",
    )  # fmt: skip
    check(mod, numbers(4, 4))


@pytest.mark.parametrize(
    "body",
    [
        ["y = R.add(x, x)"],
        ["a = R.add(x, x)", "b = R.add(a, x)", "y = R.multiply(a, b)"],  # a value that is used outside too
        ["a = R.add(x, x)", "b = R.abs(a)", "y = R.add(a, b)"],  # which must not become a circle
    ],
)
def test_what_is_used_outside_stays_available(body):
    check(parse('x: R.Tensor(("n", 2), "float32")', *body), numbers(3, 2))


def test_effects_stay_in_order():
    mod = from_source("""from relax.script import ir as I, relax as R, tir as T
@I.ir_module
class M:
    @R.function(pure=False)
    def main(x: R.Tensor((2,), "float32")):
        with R.dataflow():
            a = R.add(x, x)
            R.output(a)
        _ = R.call_packed("test.backend.double", a, sinfo_args=R.Object)
        with R.dataflow():
            y = R.add(a, x)
            R.output(y)
        return y
""")
    check(mod, numbers(2))


@relax.register_func("test.backend.double", override=True)
def double(tensor):
    tensor.copyfrom(2 * tensor.numpy())


def test_the_graph():
    (function,) = [f for f in partition_without_codegen(MODEL).functions.values() if "toy" == f.attrs.get("Codegen")][
        :1
    ]
    text, constants = json_graph(function)
    graph = read_graph(text)
    assert [(node.op, node.name) for node in graph.nodes] == [
        ("input", "fused_relax_matmul_relax_nn_relu_fused_relax_add_toy_0"),
        ("input", "fused_relax_matmul_relax_nn_relu_fused_relax_add_toy_1"),
        ("kernel", "toy.dense"),
        ("const", "fused_relax_matmul_relax_nn_relu_fused_relax_add_toy_const_0"),
        ("kernel", "toy.add"),
    ]
    assert [node.inputs for node in graph.nodes[2::2]] == [((0, 0), (1, 0)), ((2, 0), (3, 0))]
    assert graph.inputs == (0, 1)
    assert graph.heads == ((4, 0),)
    assert list(constants) == [graph.nodes[3].name]
    assert '"shape": [[["n", 4]]]' in text
    empty = parse('x: R.Tensor((0, 2), "float32")', "y = R.add(x, x)")
    assert '"shape": [[[0, 2]]]' in json_graph(empty["main"])[0]
    assert '"node_row_ptr": [0, 1, 2, 3, 4, 5]' in text


def partition_without_codegen(mod):
    """The program with functions for the library, before its code generator runs."""
    fused = relax.transform.FuseOpsByPattern(get_patterns_with_prefix("toy."))(mod)
    return relax.transform.MergeCompositeFunctions()(fused)


def test_patterns_by_name():
    assert [pattern.name for pattern in get_patterns_with_prefix("toy.")] == [name for name, _ in reversed(PATTERNS)]
    assert get_pattern("toy.add").pattern is PATTERNS[3][1]
    assert get_pattern("toy.none") is None
    register_patterns([("other.add", PATTERNS[3][1])])
    assert [pattern.name for pattern in get_patterns_with_prefix("other.")] == ["other.add"]


def test_a_fresh_process_runs_a_saved_program_without_the_compiler(tmp_path):
    executable = relax.build(partition(MODEL, "toy"))
    executable.save(tmp_path / "model.rxe")
    code = f"""
import sys
import numpy as np
import relax
from relax.runtime.json_graph import JSONRuntime
from relax.runtime.modules import register_loader

class Npu(JSONRuntime):
    operators = {{
        "toy.dense": lambda node, x, w: np.maximum(x @ w, 0),
        "toy.add": lambda node, a, b: a + b,
        "toy.sum": lambda node, x: x.sum(node.integers("axis")),
    }}

if len(sys.argv) > 1:
    register_loader("toy", Npu.load)
main = relax.VirtualMachine(relax.runtime.load_module({str(tmp_path / "model.rxe")!r}))["main"]
print(main(np.ones((2, 4), "float32"), np.ones((4, 2), "float32")).numpy().tolist())
assert "relax.ir" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code, "toy"], capture_output=True, text=True, check=False)
    expected = relax.interpret(MODEL, "main", np.ones((2, 4), "float32"), np.ones((4, 2), "float32")).numpy()
    np.testing.assert_allclose(eval(done.stdout), expected, 1e-6)
    failed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "no loader of modules of kind 'toy' is known; install the package that has it" in failed.stderr


def test_programs_of_the_cache_have_their_modules():
    split = partition(MODEL, "toy")
    args = numbers(2, 4), numbers(4, 2)
    for _ in range(2):
        executable = relax.build(split)
        assert len(executable.modules) == 2
        same(relax.VirtualMachine(executable)["main"](*args), relax.interpret(MODEL, "main", *args), 1e-6)
    assert "module            toy, 1 function" in executable.stats()
    assert "# module toy: fused_relax_matmul" in executable.as_text()


def test_a_shared_library_cannot_have_modules(tmp_path):
    with pytest.raises(ExecutableError, match=r"its modules \(toy\) are loaded by Python; save it, and load it there"):
        relax.build(partition(MODEL, "toy")).export_library(tmp_path / "model.so")


def test_a_module_comes_before_builtins_and_registered_functions():
    relax.register_func("test.backend.f", lambda x, y: y.copyfrom(np.zeros(2, "float32")), override=True)
    register_loader("constant", lambda module: {"test.backend.f": lambda x, y: y.copyfrom(module.constants["c"])})
    mod = from_source("""from relax.script import ir as I, relax as R, tir as T
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        y = R.call_dps_packed("test.backend.f", (x,), out_sinfo=R.Tensor((2,), "float32"))
        return y
""")
    module = Module("constant", b"", ("test.backend.f",), {"c": numbers(2)})
    with_module = relax.extern_modules.with_extern_modules(mod, [module])
    for mode in MODES:
        same(relax.VirtualMachine(relax.build(mod, exec_mode=mode))["main"](numbers(2)), np.zeros(2, "float32"))
        same(relax.VirtualMachine(relax.build(with_module, exec_mode=mode))["main"](numbers(2)), numbers(2))
    same(relax.interpret(with_module, "main", numbers(2)), numbers(2))


@pytest.mark.parametrize(
    ("loader", "message"),
    [
        (lambda module: {}, "its loader returned no function f"),
        (lambda module: 1 // 0, "ZeroDivisionError: integer division or modulo by zero"),
        (lambda module: __import__("no_such_library"), "No module named 'no_such_library'"),
    ],
)
def test_modules_that_cannot_be_loaded(loader, message):
    register_loader("broken", loader, override=True)
    with pytest.raises(
        ExecutableError, match=f"cannot load the module of kind 'broken' with the functions f: {message}"
    ):
        Module("broken", b"", ("f",)).functions()


def test_what_is_registered_twice_or_wrongly():
    with pytest.raises(ValueError, match="there is a code generator 'toy' already; override=True replaces it"):
        register_codegen("toy", patterns=[], codegen=json_codegen("toy"))
    with pytest.raises(ValueError, match="modules of kind 'toy' have a loader already; override=True replaces it"):
        register_loader("toy", Npu.load)
    with pytest.raises(ValueError, match=r"the name of the pattern 'a.b' must begin with 'new.'"):
        register_codegen("new", patterns=[("a.b", wildcard())], codegen=json_codegen("new"))
    register_loader("loaded", Npu.load, override=True)
    with pytest.raises(ValueError, match="modules of kind 'loaded' have a loader already"):
        register_codegen("loaded", patterns=[], codegen=json_codegen("loaded"), runtime=Npu.load)
    with pytest.raises(ValueError, match="no library 'loaded' is registered; there is: "):
        partition(MODEL, ["toy", "loaded"])
    with pytest.raises(TypeError, match="the data of a module must be bytes, not str"):
        Module("toy", "", ("f",))
    with pytest.raises(TypeError, match="the constant 'c' of a module must be a tensor, not int"):
        Module("toy", b"", ("f",), {"c": 1})


def test_libraries_of_the_package_register_themselves():
    code = "import relax; from relax.backend import partition; print(partition(relax.IRModule(), 'openblas'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "value", ["3", '[{"kind": "toy"}]', '[{"kind": "toy", "data": 1, "symbols": [], "constants": {}}]']
)
def test_an_attribute_that_holds_no_modules(value):
    mod = from_source(f"""from relax.script import ir as I, relax as R
@I.ir_module
class M:
    I.module_attrs({{"external_mods": {value}}})

    @R.function
    def main(x: R.Tensor((2,), "float32")):
        return x
""")
    with pytest.raises(DiagnosticError, match=r"E4018.*'external_mods' is no list of modules") as caught:
        relax.build(mod)
    assert caught.value.diagnostics[0].span is not None
    with pytest.raises(DiagnosticError, match=r"E4018.*'external_mods' is no list of modules"):
        relax.extern_modules.with_extern_modules(mod, [Module("toy", b"", ())])


@pytest.mark.parametrize("result", [1, [Module("toy", b"", ()), "text"]])
def test_a_code_generator_that_returns_no_module(result):
    register_codegen(
        "bad", patterns=[("bad.add", PATTERNS[3][1])], codegen=lambda functions, options, names: result, override=True
    )
    with pytest.raises(
        DiagnosticError, match=r"E4014.*the code generator bad returned a (int|str), which is no module"
    ):
        partition(MODEL, "bad")


def test_a_size_that_is_known_at_run_time():
    mod = parse('x: R.Tensor(("n", 4), "float32")', "y = R.reshape(R.add(x, x), R.shape([n * 4]))")
    with pytest.raises(DiagnosticError, match=r"E4014.*a value that is known at run time only: shape"):
        partition(mod, "toy")


def test_the_target_of_a_reshape_is_beside_the_shape_of_the_result():
    """A node's "shape" is that of its outputs, so the operand has TVM's name."""
    mod = parse('x: R.Tensor((6,), "float32")', "y = R.reshape(x, R.shape([2, 3]))")
    text, _ = json_graph(mod["main"])
    assert read_graph(text).nodes[-1].texts("newshape") == ("T.int64(2)", "T.int64(3)")


def test_what_a_graph_cannot_say():
    mod = from_source("""from relax.script import ir as I, relax as R, tir as T
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor((2,), "float32"), c: R.Tensor((), "bool")):
        y = M.outside(x, c)
        return y

    @R.function
    def outside(x: R.Tensor((2,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((2,), "float32"):
        R.func_attr({"Codegen": "toy"})
        if c:
            y = R.exp(x)
        else:
            y = R.negative(x)
        return y
""")
    with pytest.raises(
        DiagnosticError, match="E4014.*outside: a JSON graph cannot say this: If is no tensor"
    ) as caught:
        relax.transform.RunCodegen()(mod)
    assert caught.value.diagnostics[0].span.line == 12
