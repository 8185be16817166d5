"""CallLibrary: views, operators of others, and what the pass returns."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.analysis import assert_well_formed
from relax.codegen import resolve
from relax.expr import Constant
from relax.ir import assert_structural_equal
from relax.library import FORM, CallLibrary, Library
from relax.runtime import nd
from relax.tir import PrimFunc
from relax.transform import BindParams, Normalize
from support import PLAIN_LOOPS, main, same

LIBRARY = Library(resolve("llvm"))
X = np.arange(12, dtype="float32").reshape(3, 4)


def called(mod):
    return CallLibrary(LIBRARY)(Normalize()(mod))


def forms(mod):
    """The general forms of a module's kernels."""
    return [str(func.attrs[FORM]) for func in mod.functions.values() if FORM in func.attrs]


BODY = """
with R.dataflow():
    a = R.reshape(x, (n * 4,))
    b = R.exp(a)
    y = R.add(R.reshape(b, (n, 4)), x)
    R.output(y)
return y
"""
SEEN = """
with R.dataflow():
    y = R.reshape(x, (n * 4,))
    R.output(y)
return y
"""
PARAMS = 'x: R.Tensor(("n", 4), "float32")'


def test_the_result_is_well_formed_and_computes_the_same():
    mod = main(BODY, PARAMS)
    new = called(mod)
    assert_well_formed(new)
    same(relax.interpret(new, "main", X), relax.interpret(mod, "main", X), 1e-6)


def test_twice_changes_nothing_more():
    once = called(main(BODY, PARAMS))
    assert_structural_equal(CallLibrary(LIBRARY)(once), once)


def test_views_between_kernels_stay():
    text = called(main(BODY, PARAMS))["main"].script()
    assert text.count("R.reshape") == 2
    assert text.count("R.call_tir") == 2


@pytest.mark.parametrize("expression", ["R.reshape(x, (n * 4,))", "R.flatten(x)", "R.expand_dims(x, 0)"])
@pytest.mark.parametrize("dataflow", [True, False])
def test_a_view_that_would_be_seen_outside_is_a_copy(expression, dataflow):
    body = SEEN.replace("R.reshape(x, (n * 4,))", expression) if dataflow else f"y = {expression}\nreturn y"
    x = nd.array(X)
    program = relax.VirtualMachine(relax.build(main(body, PARAMS), "llvm -opt-level=1", tier="now"))
    assert not np.shares_memory(program["main"](x).numpy(), x.numpy())


def test_a_reshaped_constant_is_a_constant():
    mod = main(BODY.replace("(n", "(3"), PARAMS.replace('"n"', "3"))
    bound = called(BindParams("main", {"x": X})(mod))
    constants = [value for value in _constants(bound["main"]) if value.shape == (12,)]
    assert len(constants) == 1
    same(relax.interpret(bound, "main"), np.exp(X) + X, 1e-6)


def test_a_reshaped_constant_is_not_copied_when_it_is_read():
    body = "with R.dataflow():\n    y = R.add(R.reshape(w, (2, 6)), x)\n    R.output(y)\nreturn y"
    mod = main(body, 'x: R.Tensor((2, 6), "float32"), w: R.Tensor((3, 4), "float32")')
    program = relax.build(BindParams("main", {"w": X})(mod), PLAIN_LOOPS, tier="now")
    assert "copy_tensor" not in program.as_text()
    x = np.ones((2, 6), "float32")
    same(relax.VirtualMachine(program)["main"](x), X.reshape(2, 6) + 1)


def _constants(func):
    found = []
    relax.analysis.post_order_visit(func, lambda e: found.append(e.content) if isinstance(e, Constant) else None)
    return found


def test_calls_of_one_form_share_a_function():
    body = "a = R.nn.relu(x)\nb = R.nn.relu(w)\nreturn (a, b)"
    new = called(main(body, 'x: R.Tensor((3, 4), "float32"), w: R.Tensor((5, 6), "float32")'))
    assert len([f for f in new.functions.values() if isinstance(f, PrimFunc)]) == 1
    same(relax.interpret(new, "main", X, np.ones((5, 6), "float32")), [X, np.ones((5, 6), "float32")])


def test_sizes_of_1_on_equal_axes_are_those_of_a_general_kernel():
    """A batch of 1 is a batch, but the last axis of the other operand is broadcast."""
    body = "a = R.subtract(x, y)\nb = R.subtract(v, w)\nreturn (a, b)"
    shapes = {"x": (1, 3, 4), "y": (1, 3, 1), "v": (2, 5, 6), "w": (2, 5, 1)}
    params = ", ".join(f'{name}: R.Tensor({shape}, "float32")' for name, shape in shapes.items())
    new = called(main(body, params))
    assert len(forms(new)) == 1
    arrays = [np.arange(np.prod(shape), dtype="float32").reshape(shape) for shape in shapes.values()]
    x, y, v, w = arrays
    same(relax.interpret(new, "main", *arrays), [x - y, v - w])


def test_a_pointwise_convolution_is_a_product():
    mod = main(
        "y = R.nn.conv2d(x, w)\nreturn y", 'x: R.Tensor((1, 3, 4, 5), "float32"), w: R.Tensor((2, 3, 1, 1), "float32")'
    )
    new = called(mod)
    assert any(g.name_hint.startswith("matmul") for g in new.functions)
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(shape).astype("float32") for shape in ((1, 3, 4, 5), (2, 3, 1, 1))]
    same(relax.interpret(new, "main", *args), relax.interpret(mod, "main", *args), 1e-5, 1e-6)


def test_an_operator_with_another_lowering_is_not_taken_from_the_library():
    operator = relax.ir.Op.get("relax.nn.relu")
    own = operator.get_attr("FLegalize")
    operator.set_attr("FLegalize", lambda builder, call: builder.call_te(relax.topi.negative, call.args[0]))
    try:
        new = called(main("y = R.nn.relu(x)\nreturn y", PARAMS))
        assert not forms(new)
        same(relax.interpret(new, "main", X), -X)
    finally:
        operator.set_attr("FLegalize", own)
    assert len(forms(called(main("y = R.nn.relu(x)\nreturn y", PARAMS)))) == 1


def test_calls_that_are_chosen_at_run_time_get_no_kernel_of_the_library():
    mod = main("y = R.nn.relu(x)\nreturn y", 'x: R.Tensor("float32", ndim=2)')
    assert not forms(called(mod))
    program = relax.VirtualMachine(relax.build(mod, "llvm -opt-level=1", tier="now"))
    same(program["main"](-X), np.maximum(-X, 0))


def test_a_convolution_of_single_pixels_is_a_product_between_views():
    mod = relax.script.from_source(
        "from relax.script import ir as I, relax as R\n@I.ir_module\nclass M:\n    @R.function\n"
        "    def main(x: R.Tensor((1, 4, 5, 5), 'float32'), w: R.Tensor((6, 4, 1, 1), 'float32')):\n"
        "        with R.dataflow():\n            y = R.nn.conv2d(x, w)\n            z = R.nn.relu(y)\n            R.output(z)\n"
        "        return z\n"
    )
    called = CallLibrary(Library(resolve("llvm")))(Normalize()(mod))
    assert {global_var.name_hint for global_var in called.functions} == {"main", "matmul", "relu"}
