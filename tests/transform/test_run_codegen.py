"""RunCodegen: functions with the attribute "Codegen" go to registered code generators, and become packed functions."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.analysis import assert_well_formed
from relax.dpl import is_op, wildcard
from relax.ir import DiagnosticError, IRModule, assert_structural_equal
from relax.script import ir as I
from relax.script import relax as R
from relax.transform import FuseOpsByPattern, PassContext, RunCodegen, VerifyInstrument
from support import PLAIN_LOOPS

GIVEN = []


def kernel(module, symbol):
    """A packed function that interprets a function, and writes its outputs."""

    def run(*values):
        result = relax.interpret(module, symbol, *values[: len(module[symbol].params)])
        outputs = values[len(module[symbol].params) :]
        for output, value in zip(outputs, result if isinstance(result, (tuple, list)) else [result], strict=True):
            output[:] = value.numpy()

    return run


@relax.register_func("relax.ext.tested", override=True)
def generate(functions, options, constant_names):
    GIVEN.append(([f.attrs["global_symbol"] for f in functions], dict(options), dict(constant_names)))
    for function in functions:
        symbol = function.attrs["global_symbol"]
        attrs = {key: value for key, value in function.attrs.items() if key != "Codegen"}
        module = IRModule({symbol: function.replace(attrs=attrs)})
        relax.register_func(symbol, kernel(module, symbol), override=True)


def run(mod, **options):
    """The module after the pass, which keeps its promises and changes nothing the second time."""
    GIVEN.clear()
    step = RunCodegen(**options)
    with PassContext(instruments=[VerifyInstrument(assert_well_formed)]):
        after = step(mod)
        assert step(after) is after
    return after


@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 8), "float32")):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.nn.relu(a)
            y = R.add(b, b)
            R.output(y)
        return y


def test_what_a_pattern_matches_is_run_outside():
    dense = is_op("relax.nn.relu")(is_op("relax.matmul")(wildcard(), wildcard()))
    fused = FuseOpsByPattern([("tested.dense", dense)], annotate_codegen=True)(Model)
    after = run(fused, target_options={"tested": {"level": 3}, "other": {}}, entry_functions=None)
    assert [g.name_hint for g in after.functions] == ["main"]
    ((symbols, options, constants),) = GIVEN[:1]
    assert (len(symbols), options, constants) == (1, {"level": 3}, {})
    assert f'R.call_dps_packed("{symbols[0]}", (x, w), out_sinfo=R.Tensor((n, 8), dtype="float32"))' in after.script()
    main = relax.VirtualMachine(relax.build(after, PLAIN_LOOPS))["main"]
    for n in (0, 1, 3):
        x, w = np.random.default_rng(n).standard_normal((n, 4), "float32"), np.ones((4, 8), "float32")
        x[:1, :1] = np.nan
        expected = relax.interpret(Model, "main", x, w).numpy()
        np.testing.assert_allclose(main(x, w).numpy(), expected, 1e-6)
        np.testing.assert_allclose(relax.interpret(after, "main", x, w).numpy(), expected, 1e-6)


@I.ir_module
class Several:
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        a = Several.outside_f(x)
        b = Several.outside_f(a[0])
        c = Several.g(b[1])
        return c

    @R.function
    def outside_f(x: R.Tensor((2,), "float32")):
        R.func_attr({"Codegen": "tested"})
        y = Several.helper(x)
        return (y, x)

    @R.function
    def g(x: R.Tensor((2,), "float32")):
        R.func_attr({"Codegen": "tested"})
        y = R.negative(x)
        return y

    @R.function(private=True)
    def helper(x: R.Tensor((2,), "float32")):
        y = R.exp(x)
        return y


def test_several_outputs_and_functions_of_one_generator():
    after = run(Several)

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            a = R.call_dps_packed("outside_f", (x,), out_sinfo=[R.Tensor((2,), "float32"), R.Tensor((2,), "float32")])
            t = a[0]
            b = R.call_dps_packed("outside_f", (t,), out_sinfo=[R.Tensor((2,), "float32"), R.Tensor((2,), "float32")])
            u = b[1]
            c = R.call_dps_packed("g", (u,), out_sinfo=R.Tensor((2,), "float32"))
            return c

    assert [sorted(symbols) for symbols, *_ in GIVEN] == [["g", "outside_f"]]
    assert_structural_equal(after, Expected)


@I.ir_module
class AsValue:
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        f = AsValue.f
        y = f(x)
        return y

    @R.function
    def f(x: R.Tensor((2,), "float32")):
        R.func_attr({"Codegen": "tested"})
        y = R.exp(x)
        return y


def test_functions_that_are_values_and_programs_without_any_stay():
    assert run(AsValue) is AsValue
    assert run(Model) is Model
    assert not GIVEN


def test_what_cannot_be_handed_over_is_an_error():
    other = IRModule({
        g: f.replace(attrs={**f.attrs, "Codegen": "nowhere"}) if "Codegen" in f.attrs else f
        for g, f in Several.functions.items()
    })  # fmt: skip
    with pytest.raises(
        DiagnosticError, match=r'E4014.*no code generator is registered as "relax.ext.nowhere"'
    ) as error:
        RunCodegen()(other)
    assert len(error.value.diagnostics) == 1

    @I.ir_module
    class Unknown:
        @R.function
        def main(x: R.Tensor(ndim=1, dtype="float32")):
            y = Unknown.f(x)
            return y

        @R.function
        def f(x: R.Tensor(ndim=1, dtype="float32")):
            R.func_attr({"Codegen": "tested"})
            y = R.exp(x)
            return y

    with pytest.raises(DiagnosticError, match="E4014.*the outputs of f must be tensors of known shapes") as error:
        RunCodegen()(Unknown)
    assert error.value.diagnostics[0].span is not None
