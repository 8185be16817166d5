"""Passes as users write them."""

from __future__ import annotations

import pytest

import relax
from relax import ir, tir
from relax.ir import IRModule
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.transform import (
    FuncPass,
    ModulePass,
    PassContext,
    Sequential,
    dataflowblock_pass,
    function_pass,
    module_pass,
)


@I.ir_module
class Program:
    @R.function
    def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((4,), "float32"):
        if c:
            with R.dataflow():
                lv = R.exp(x)
                gv = R.exp(lv)
                R.output(gv)
            r = gv
        else:
            r = x
        return r

    @T.prim_func
    def kernel(A: T.Buffer((4,), "float32")):
        for i in range(4):
            A[i] = T.float32(0)


def test_a_module_pass_in_both_styles():
    @module_pass(opt_level=0)
    def tvm_style(mod, ctx):
        assert isinstance(ctx, PassContext)
        return mod.with_attr("seen", True)

    assert isinstance(tvm_style, ModulePass)
    assert tvm_style(Program).attrs["seen"] is True

    @module_pass
    def OurStyle(mod, key="seen"):
        """Marks a module."""
        return mod.with_attr(key, True)

    assert OurStyle("other")(Program).attrs == {"other": True}
    assert OurStyle.__doc__ == "Marks a module."


def one(mod):
    return mod.with_attr("seen", "default")


def one_with_context(mod, ctx):
    return mod.with_attr("seen", "default" if isinstance(ctx, PassContext) else "no context")


def one_with_option(mod, key="default"):
    return mod.with_attr("seen", key)


def one_with_both(module, ctx, key="default"):
    return module.with_attr("seen", key if isinstance(ctx, PassContext) else "no context")


@pytest.mark.parametrize("rewrite", [one, one_with_context, one_with_option, one_with_both])
@pytest.mark.parametrize(
    "decorate", [module_pass, module_pass(), module_pass(opt_level=1, name="Named")], ids=["bare", "called", "options"]
)
def test_every_form_of_a_module_pass_is_used_in_the_same_ways(decorate, rewrite):
    step = decorate(rewrite)
    for run in (step, step(), Sequential([step]), Sequential([step()])):
        assert run(Program).attrs["seen"] == "default"
    assert isinstance(step, ModulePass)
    assert isinstance(step(), ModulePass)
    assert step.info == step().info
    if "key" in step.options:
        assert step(key="given")(Program).attrs["seen"] == step("given")(Program).attrs["seen"] == "given"
        assert step.key == "default"
    else:
        with pytest.raises(TypeError, match="IRModule"):
            step(Program["main"])


def two(func, mod):
    return func.with_attr("seen", mod is Program)


def two_with_context(func, mod, ctx):
    return func.with_attr("seen", mod is Program and isinstance(ctx, PassContext))


def two_with_both(func, mod, ctx, key=True):
    return func.with_attr("seen", mod is Program and isinstance(ctx, PassContext) and key)


@pytest.mark.parametrize("rewrite", [two, two_with_context, two_with_both])
@pytest.mark.parametrize(
    "decorator, name",
    [
        (function_pass, "main"),
        (tir.transform.prim_func_pass, "kernel"),
        (ir.transform.function_pass, "main"),
        (ir.transform.function_pass, "kernel"),
    ],
)
def test_every_form_of_a_function_pass_is_used_in_the_same_ways(decorator, name, rewrite):
    for step in (decorator(rewrite), decorator(opt_level=0)(rewrite), decorator(rewrite)()):
        assert step(Program)[name].attrs["seen"] is True
    if rewrite is two_with_both:
        assert decorator(rewrite)(key=False)(Program)[name].attrs["seen"] is False


def test_methods_of_pass_classes_may_leave_out_the_context():
    @module_pass
    class Mark:
        def transform_module(self, mod):
            return mod.with_attr("seen", True)

    @function_pass
    class MarkFunctions:
        def transform_function(self, func, mod):
            return func.with_attr("seen", True)

    assert Mark()(Program).attrs["seen"] is True
    assert MarkFunctions()(Program)["main"].attrs["seen"] is True


def test_a_dataflow_block_pass_may_have_options_and_no_context():
    seen = []

    @dataflowblock_pass
    def look(block, mod, note="seen"):
        seen.append(note)
        return block

    look(Program), look()(Program), look(note="again")(Program)
    assert seen == ["seen", "seen", "again"]


def test_a_pass_that_needs_an_option_does_not_run_without():
    @module_pass
    def Named(mod, name):
        return mod.with_attr("name", name)

    assert Named("n")(Program).attrs["name"] == "n"
    with pytest.raises(TypeError, match=r"pass Named needs an option before it runs: Named\(name=…\)\(mod\)"):
        Named(Program)


def test_a_module_pass_class():
    @module_pass(opt_level=0, name="Marker")
    class Marker:
        """Marks a module."""

        def __init__(self, key):
            self.key = key

        def transform_module(self, mod, ctx):
            return mod.with_attr(self.key, ctx.opt_level)

    step = Marker("level")
    assert step.key == "level"
    assert step.info.name == "Marker"
    with PassContext(opt_level=3):
        assert step(Program).attrs == {"level": 3}
    with pytest.raises(AttributeError):
        step.missing

    with pytest.raises(TypeError, match="needs a method transform_module"):

        @module_pass
        class Nothing:
            pass


def test_a_function_pass_sees_relax_functions_only():
    seen = []

    @function_pass(opt_level=0)
    def look(func, mod, ctx):
        seen.append(func)
        assert isinstance(mod, IRModule)
        return func

    assert isinstance(look, FuncPass)
    assert look(Program) is Program
    assert seen == [Program["main"]]

    @function_pass(opt_level=0)
    class Mark:
        def transform_function(self, func, mod, ctx):
            return func.with_attr("marked", True)

    after = Mark()(Program)
    assert after["main"].attrs["marked"] is True
    assert after["kernel"] is Program["kernel"]


def test_a_dataflow_block_pass_reaches_branches():
    seen = []

    @dataflowblock_pass(opt_level=0)
    def look(block, mod, ctx):
        seen.append(len(block.bindings))
        return block

    assert look(Program) is Program
    assert seen == [2]

    @dataflowblock_pass(opt_level=0)
    class Simplify:
        """exp(exp(x)) is exp(x), for the sake of the test."""

        def transform_dataflowblock(self, block, mod, ctx):
            first, second = block.bindings
            x = first.value.args[0]
            return relax.DataflowBlock([relax.VarBinding(second.var, relax.op.exp(x))])

    after = Simplify()(Program)
    relax.analysis.assert_well_formed(after)
    assert after.script().count("R.exp") == 1


def test_levels_and_names():
    @module_pass(opt_level=3, name="Late")
    def late(mod, ctx):
        return mod.with_attr("late", True)

    assert late(Program) is Program
    with PassContext(opt_level=3) as context:
        assert Sequential([late])(Program).attrs == {"late": True}
    assert context.trace == ["Late", "sequential"]
    with PassContext(opt_level=3, disabled_pass=["Late"]):
        assert late(Program) is Program
