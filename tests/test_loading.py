"""Packages load their modules when a name is used (`relax.runtime.rooms`), and nobody sees a difference but in time."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from relax.ir import save_json
from relax.runtime.rooms import by_name

ROOT = Path(__file__).parents[1]

FIRST_BUILD = """
import json, sys
import relax
program = '''
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32")):
        return R.exp(x)
'''
executable = relax.build(relax.script.from_source(program), "llvm")
print(json.dumps([name for name in sys.modules if name.split(".")[0] in ("relax", "rich", "llvmlite")]))
"""


def run(program: str, **environment: str) -> str:
    """The output of a program, run by a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def tool():
    import make_homes

    return make_homes


def packages() -> list[str]:
    """The packages (and modules) that load names when they are used."""
    paths = (path.relative_to(ROOT / "src").with_suffix("") for path, _ in tool().owners())
    return [".".join(part for part in path.parts if part != "__init__") for path in paths]


def test_a_first_build_loads_little(tmp_path):
    """A program that the cache has needs its parser, its checks and the runtime: no pass, no schedule, no LLVM.

    A module takes about a millisecond to load. There are 800 below `relax`; the bound leaves room for a dozen more. If
    the test fails after a change of imports, `python -X importtime` says who loads what.
    """
    environment = {"RELAX_CACHE_DIR": str(tmp_path), "RELAX_CACHE_PROGRAMS": "1"}
    run(FIRST_BUILD, **environment)
    loaded = set(json.loads(run(FIRST_BUILD, **environment)))
    for room in ("schedules", "relay", "frontend", "dpl", "interpreter", "codegen.module", "optimize.pipeline"):
        assert f"relax.{room}" not in loaded
    assert not {"relax.tir.schedule", "relax.tir.transform.lower", "relax.script.printer", "rich"} & loaded
    assert "llvmlite.binding" not in loaded
    assert "relax.op.unary" in loaded
    assert "relax.op.nn.convolution" not in loaded
    assert len([name for name in loaded if name.startswith("relax")]) < 300


def test_tables_are_as_they_would_be_written():
    command = [sys.executable, str(ROOT / "tools" / "make_homes.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_stale_table_is_found(tmp_path):
    texts = {tmp_path / name: "new\n" for name in ("a.py", "b.py", "c.py")}
    (tmp_path / "a.py").write_text("new\n")
    (tmp_path / "b.py").write_text("older\n")
    assert [path.name for path in tool().stale(texts)] == ["b.py", "c.py"]


@pytest.mark.parametrize("package", packages())
def test_every_name_is_found(package):
    module = importlib.import_module(package)
    for name in by_name(importlib.import_module(f"{package.removesuffix('._api')}._homes").HOMES):
        assert getattr(module, name) is not None
        assert name in dir(module)
    assert set(module.__all__) <= set(dir(module))
    with pytest.raises(AttributeError):
        module.no_such_name


def test_a_function_comes_before_the_module_of_its_name():
    program = """
import relax, types
from relax.prim.simplify import Simplifier
import relax.tir.layout, relax.tir.transform.lower, relax.te.create_prim_func
from relax.vm.find_nan import NaNReport
shown = relax.tir.layout, relax.tir.transform.lower, relax.te.create_prim_func, relax.vm.find_nan, relax.prim.simplify
print([type(value).__name__ for value in shown], relax.prim.simplify.__module__)
"""
    assert run(program) == f"{['function'] * 5} relax.prim.analyzer\n"


def test_modules_of_a_package_are_attributes_of_it():
    program = "import relax; print(relax.transform.legalize_ops, relax.op.nn.pooling, relax.tir.functor)"
    assert run(program).count("<module 'relax.") == 3


def test_every_operator_is_found_whatever_was_imported():
    """Of each way to an operator, in a process that has not loaded it."""
    for expression in (
        "relax.ir.Op.get('relax.nn.conv2d').get_attr('operator_class').op_name",
        "relax.op.nn.conv2d.__module__",
        "relax.ir.op.close_names('relax.conv2d')",
        "'relax.nn.conv2d' in relax.ir.Op.list_op_names()",
        "relax.ir.Op.exists('relax.nn.conv2d')",
        "relax.ir.Op.get('tir.exp')",
        "'conv2d' in dir(relax.op.nn)",
        "[name for name in ('nn', 'add', 'conv2d') if name in dir(relax.op)]",
    ):
        assert run(f"import relax; print(bool({expression}))") == "True\n", expression


CONVERTERS = """
import sys
from relax.frontend.onnx import registry
from relax.runtime.rooms import load_whole
if sys.argv[1:] == ["all"]:
    load_whole("relax.frontend.onnx.operators")
domains = ("", "ai.onnx.ml", "ai.onnx.preview.training", "com.microsoft")
for domain, name in [(domain, name) for domain in domains for name in registry.names_in(domain)]:
    for objects in (False, True):
        for opset in range(25):
            entry = registry.find(domain, name, opset, objects)
            print(domain, name, opset, objects, entry and (entry.function.__module__, entry.function.__qualname__))
"""


def test_every_converter_is_found_by_its_operator():
    """The families of ONNX operators are imported one by one, as by `names_in`, or all at first."""
    one_by_one = run(CONVERTERS)
    assert one_by_one.count("relax.frontend.onnx.operators.math") > 1000
    assert one_by_one == run(f"import sys; sys.argv[1:] = ['all']\n{CONVERTERS}")


def test_a_converter_needs_its_family_only():
    loaded = run("""
import sys
from relax.frontend.onnx import registry
print(registry.find("", "Relu", 20).name, *sorted(m for m in sys.modules if m.startswith("relax.frontend.onnx.oper")))
""")
    package = "relax.frontend.onnx.operators"
    assert loaded.split() == ["Relu", package, f"{package}._homes", f"{package}.activation"]


def test_a_converter_of_ones_own_stays():
    program = """
from relax.frontend.onnx import converter, registry
@converter("Relu", since=6)
def mine(g, x: "Tensor"): ...
registry.names_in("")
print(*[registry.find("", "Relu", opset).function.__name__ for opset in (5, 6)])
"""
    assert run(program).split()[1] == "mine"


def test_methods_whose_code_stands_higher_load_it():
    program = """
import relax
x = relax.Var("x", relax.TensorStructInfo((4,), "float32"))
print((x + x).op.name, (-x).op.name, x.astype("int32").op.name)
print(relax.ObjectStructInfo().is_base_of(x.struct_info))
print(relax.const(1.0).struct_info)
print(relax.ir.GlobalVar("f")(x).op.name_hint)
a = relax.te.placeholder((4,), "float32")
print((a + a).ndim, a.astype("int32").dtype)
"""
    assert run(program).splitlines() == [
        "relax.add relax.negative relax.astype",
        "True",
        'R.Tensor((), dtype="float32")',
        "f",
        "1 int32",
    ]


def test_a_saved_program_finds_its_classes():
    from relax.script import ir as I
    from relax.script import relax as R

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((1, 3, 8, 8), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
            return R.nn.conv2d(x, w)

    program = f"import relax; print(relax.ir.load_json({save_json(Module)!r}).script())"
    assert run(program) == Module.script() + "\n"
    with pytest.raises(ValueError, match=r"KeyError: 'frontend\.Nothing'"):
        importlib.import_module("relax.ir").load_json(save_json(Module).replace("op.Conv2d", "frontend.Nothing"))


def test_a_fact_registered_on_an_operator_that_was_not_loaded_stays():
    program = """
import relax
relax.ir.register_op("relax.nn.conv2d", note="mine")
op = relax.ir.Op.get("relax.nn.conv2d")
import relax.op.nn.convolution
print(op.get_attr("note"), op is relax.ir.Op.get("relax.nn.conv2d"), op.get_attr("operator_class").__name__)
"""
    assert run(program).split() == ["mine", "True", "Conv2d"]


def test_a_module_when_used_is_imported_by_its_first_attribute(monkeypatch):
    from relax.runtime.rooms import ModuleWhenUsed

    module = types.ModuleType("relax_test_module_when_used")
    module.answer = 42
    late = ModuleWhenUsed(module.__name__)
    with pytest.raises(ModuleNotFoundError):
        late.answer
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert late.answer == 42


def test_the_support_code_is_read_once(tmp_path):
    """Its scripts are parsed by the first build after an installation; others find the objects in the cache."""
    environment = {"RELAX_CACHE_DIR": str(tmp_path)}
    other = FIRST_BUILD.replace("R.exp(x)", "R.sin(x)")
    run(FIRST_BUILD, **environment)
    loaded = json.loads(run(other, **environment))
    assert "relax.codegen.module" in loaded
    assert not [name for name in loaded if name.startswith("relax.codegen.support.")]
