"""Every operator through the kernels of the library, against its reference."""

from __future__ import annotations

import pytest
from op_harness import all_cases, assert_close, reference, variant

import relax
from relax.codegen import resolve
from relax.expr import Tuple, Var
from relax.ir import Op
from relax.ir.transform import Sequential
from relax.library import CallLibrary, Library
from relax.transform import Normalize

CASES = {}
for _case in all_cases():
    if Op.get(_case.op).get_attr("operator_class").has_lowering() and not _case.op.startswith("relax.inspect."):
        CASES.setdefault(_case.op, []).append(_case)

LIBRARY = Library(resolve("llvm"))


def module(case, symbolic):
    """A function of a case's arrays that calls its operator."""
    made = variant(case, symbolic)
    builder = relax.BlockBuilder()
    with builder.function("main", [var for arg in made.call.args for var in variables(arg)]):
        with builder.dataflow():
            result = builder.emit_output(made.call)
        builder.emit_func_output(result)
    return made, builder.get()


def variables(arg):
    if isinstance(arg, Tuple):
        return [var for field in arg.fields for var in variables(field)]
    return [arg] if isinstance(arg, Var) else []


def arrays(value):
    return [array for field in value for array in arrays(field)] if isinstance(value, tuple) else [value.numpy()]


def compare(case, made, run):
    if case.raises:
        with pytest.raises(case.raises[0], match=case.raises[1] or None):
            run(*made.arrays)
        return
    for found, wanted in zip(arrays(run(*made.arrays)), reference(case, made.operator), strict=True):
        assert_close(found, wanted, case.tolerance, case.tails)


@pytest.mark.parametrize("name", CASES)
def test_interpreted(name):
    for case in CASES[name]:
        made, mod = module(case, False)
        called = Sequential([Normalize(), CallLibrary(LIBRARY)])(mod)
        compare(case, made, lambda *values, called=called: relax.interpret(called, "main", *values))


def check_compiled(name, target):
    for case in {0: CASES[name][0], 1: CASES[name][-1]}.values():
        made, mod = module(case, False)
        program = relax.VirtualMachine(relax.build(mod, target, tier="now"))
        compare(case, made, program["main"])


SOME = [
    "relax.add", "relax.exp", "relax.reshape", "relax.concat", "relax.split", "relax.matmul", "relax.sum", "relax.take",
    "relax.strided_slice", "relax.nn.softmax", "relax.nn.conv2d", "relax.nn.layer_norm", "relax.topk", "relax.where",
    "relax.astype", "relax.broadcast_to", "relax.nn.attention", "relax.image.resize2d", "relax.permute_dims",
]  # fmt: skip


@pytest.mark.parametrize("name", SOME)
def test_some_compiled(name):
    check_compiled(name, "llvm -opt-level=1")


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_compiled(name):
    check_compiled(name, "llvm")
