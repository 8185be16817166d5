"""Section 8: the machine: four instructions, packed functions for all else, and a shape heap."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from programs import floats, machine, module, ones, packed

import relax
from relax import runtime
from support import PLAIN_LOOPS

PROGRAM = """
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32"), c: R.Tensor((), "bool")) -> R.Tensor(("n * m",), "float32"):
        n, m = T.int64(), T.int64()
        if c:
            y = R.reshape(R.add(x, R.const(1, "float32")), (n * m,))
        else:
            y = R.zeros((n * m,), "float32")
        z = R.multiply(y, R.const(2, "float32"))
        return z
"""


@packed("language.machine.same")
def _same(value):
    return value


def instructions(executable):
    """The instructions in the text of an executable: (word, the rest)."""
    return re.findall(r"^ +\d+  (\w+) +(.*)$", executable.as_text(), re.MULTILINE)


def test_there_are_four_instructions():
    """Four instructions: call, ret, if, goto."""
    executable = relax.build(module(PROGRAM), PLAIN_LOOPS)
    assert {word for word, _ in instructions(executable)} == {"call", "ret", "if", "goto"}


def test_an_executable_prints_as_text():
    """An Executable prints as text: functions, instructions, constants."""
    text = relax.build(module(PROGRAM), PLAIN_LOOPS).as_text()
    assert "@main(%0: x, %1: c):" in text
    assert re.search(r"^c\d+ = 'main: parameter x'$", text, re.MULTILINE)
    assert re.search(r"^ +\d+  call  %\d+ = vm.builtin.alloc_tensor\(%\d+, dtype float32\)$", text, re.MULTILINE)


def test_everything_else_is_a_packed_function():
    """Everything else is a packed function: vm.builtin.*, kernels, functions of the process."""
    calls = [rest for word, rest in instructions(relax.build(module(PROGRAM), PLAIN_LOOPS)) if word == "call"]
    called = {re.sub(r"^%\d+ = ", "", call).partition("(")[0] for call in calls}
    assert called >= {"vm.builtin.alloc_shape_heap", "vm.builtin.match", "vm.builtin.make_shape", "add"}
    assert {name for name in called if name.startswith("vm.") and not name.startswith("vm.builtin.")} == set()


def test_shape_arithmetic_goes_through_the_shape_heap():
    """The shape heap: matching stores dimensions in slots, compiled code computes others, shapes are made of slots."""
    text = relax.build(module(PROGRAM), PLAIN_LOOPS).as_text()
    assert "shape_func" in text
    vm = machine(PROGRAM)
    for n, m in ((0, 3), (1, 1), (2, 3)):
        assert vm["main"](ones(n, m), np.array(True)).numpy().tolist() == [4] * (n * m)
        assert vm["main"](ones(n, m), np.array(False)).numpy().tolist() == [0] * (n * m)


def test_only_the_branch_that_is_taken_runs(run):
    """If cond, false_offset: one of two stretches of code runs."""
    for chosen, value in ((True, 4), (False, 0)):
        assert run(PROGRAM, "main", ones(1, 1), np.array(chosen)).numpy().tolist() == [value]


def test_an_executable_is_saved_and_loaded(tmp_path):
    """An Executable saves and loads; what is loaded is the same and does the same."""
    executable = relax.build(module(PROGRAM), PLAIN_LOOPS)
    executable.save(tmp_path / "program.relax")
    loaded = relax.Executable.load(tmp_path / "program.relax")
    assert loaded.as_text() == executable.as_text()
    x = floats(1, 2).reshape(1, 2)
    assert relax.VirtualMachine(loaded)["main"](x, np.array(True)).numpy().tolist() == [4, 6]
    with pytest.raises(ValueError, match="main: parameter x: expected rank 2"):
        relax.VirtualMachine(loaded)["main"](floats(1), np.array(True))


def test_an_executable_runs_without_the_compiler(tmp_path):
    """An Executable runs without the compiler installed."""
    relax.build(module(PROGRAM), PLAIN_LOOPS).save(tmp_path / "program.relax")
    script = textwrap.dedent(f"""
        import sys
        for name in ("llvmlite", "rich", "relax.vm", "relax.expr", "relax.script", "relax.codegen", "relax.tir"):
            sys.modules[name] = None
        import numpy as np
        from relax import runtime
        vm = runtime.VirtualMachine(runtime.Executable.load({str(tmp_path / "program.relax")!r}), runtime.cpu())
        print(vm["main"](np.ones((1, 2), "float32"), np.array(True)).numpy().tolist())
    """)
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[4.0, 4.0]"


def test_programs_can_be_written_for_the_machine():
    """A register machine: a program may be written instruction by instruction."""
    ib = relax.ExecBuilder()
    with ib.function("main", num_inputs=1):
        ib.emit_call("language.machine.same", args=[ib.r(0)], dst=ib.r(1))
        ib.emit_ret(ib.r(1))
    vm = runtime.VirtualMachine(ib.get(), runtime.cpu())
    assert vm["main"](5) == 5
