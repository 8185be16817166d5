"""The default pipeline: a list one reads, whose every step keeps its promise."""

from __future__ import annotations

import functools

import pytest

import relax
from relax.analysis import assert_well_formed
from relax.analysis.properties import DEVICES_PLACED, NO_DATAFLOW, NO_OPERATORS, NORMAL_FORM, SHAPES_LOWERED
from relax.info.mapping import bound_in
from relax.ir import DiagnosticError
from relax.ir.transform import PROPERTIES
from relax.optimize.pipeline import DEFAULT, FUSE, GRAPH, LOWER, MACHINE, UNFUSED, get_pipeline, register_pipeline
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.transform import PassContext, PassError, VerifyInstrument


@I.ir_module
class Everything:
    """A bit of all that passes have to deal with."""

    @T.prim_func
    def scale(a: T.handle, k: T.int64, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in range(n):
            with T.block("scale"):
                v = T.axis.spatial(n, i)
                B[v] = A[v] * T.float32(k)

    @R.function
    def main(
        x: R.Tensor(("n", 4), "float32"), y: R.Tensor(ndim=1, dtype="float32"), c: R.Tensor((), "bool")
    ) -> R.Tuple(R.Tensor(("n * 4",), "float32"), R.Tensor(("n", 4), "float32"), R.Object):
        n = T.int64()
        m = T.int64()
        cls = Everything
        with R.dataflow():
            unused = R.exp(x)
            w = R.permute_dims(R.const([[1.0, 2.0, 3.0, 4.0]], "float32"))
            h = R.matmul(x, w)
            flat = R.reshape(R.add(x, h), R.shape([n * 4]))
            scaled = R.call_tir(cls.scale, (flat,), R.Tensor((n * 4,), "float32"), tir_vars=R.shape([n]))
            cast = R.match_cast(y, R.Tensor((m,), "float32"))
            distinct = R.unique(cast)
            gv = R.add(scaled, scaled)
            gv1 = R.exp(distinct)
            R.output(gv, gv1)

        @R.function
        def local(a: R.Tensor((n, 4), "float32")) -> R.Tensor((n, 4), "float32"):
            return R.add(a, x)

        if c:
            r = local(x)
        else:
            r = cls.helper(x)
        return (gv, r, (gv1, R.shape([n, m]), local))

    @R.function(private=True)
    def helper(x: R.Tensor(("n", 4), "float32")) -> R.Tensor(("n", 4), "float32"):
        return R.negative(x)

    @R.function(private=True)
    def nobody(x: R.Tensor(("n", 4), "float32")) -> R.Tensor(("n", 4), "float32"):
        return x


@functools.cache
def modules_before():
    """Each step of the default pipeline with the module it gets."""
    mod, pairs = Everything, []
    for step in DEFAULT:
        pairs.append((step, mod))
        mod = step.make()(mod)
    return pairs


@pytest.mark.parametrize("index", range(len(DEFAULT)), ids=lambda i: f"{i}-{DEFAULT[i].make().info.name}")
def test_every_step_keeps_its_promise(index):
    """Well-formed out of well-formed; a second run gives back the very module; spans survive."""
    step, before = modules_before()[index]
    assert_well_formed(before)
    after = step.make()(before)
    assert_well_formed(after)
    assert step.make()(after) is after
    assert step.reason
    spans = [b.span for block in after["main"].body.blocks for b in block.bindings if b.span is not None]
    assert spans


def test_the_pipeline_runs_verified():
    with PassContext(instruments=[VerifyInstrument(assert_well_formed)]) as context:
        after = get_pipeline()(Everything)
    assert context.trace[:4] == ["Normalize", "RealizeVDevice", "CheckReuse", "CanonicalizeBindings"]
    names = [g.name_hint for g in after]
    assert "nobody" not in names
    assert "main_local" in names
    text = after.script()
    for gone in ("R.dataflow", "R.call_tir(", "permute_dims", "R.exp(x)", "make_closure("):
        assert gone not in text.replace("vm.builtin.make_closure", "")


def violations_of_order(passes):
    """The properties that passes, run in this order, need before another has given them."""
    held, missing = set(), []
    for info in passes:
        missing += [f"{info.name} needs {prop.name}" for prop in info.needs - held]
        held = (held - info.breaks) | info.gives
    return missing, held


def test_the_order_of_the_pipeline_agrees_with_what_passes_need():
    infos = [step.make().info for step in DEFAULT]
    assert violations_of_order(infos) == ([], set(PROPERTIES))
    found = {}
    for i in range(1, len(infos)):
        swapped = [*infos[: i - 1], infos[i], infos[i - 1], *infos[i + 1 :]]
        for message in violations_of_order(swapped)[0]:
            found.setdefault(infos[i].name, message)
    assert found == {
        "RealizeVDevice": "RealizeVDevice needs normal_form",
        "RemovePurityChecking": "RemovePurityChecking needs no_dataflow",
        "VMShapeLower": "VMShapeLower needs no_operators",
    }
    # A kernel called with its outputs, made by LegalizeOps after CallTIRRewrite, would reach the machine.
    names = [info.name for info in infos]
    legalize, rewrite = names.index("LegalizeOps"), names.index("CallTIRRewrite")
    late = [*infos[:legalize], *infos[legalize + 1 : rewrite + 1], infos[legalize], *infos[rewrite + 1 :]]
    needed = ["StaticPlanBlockMemory needs storage_explicit", "VMBuiltinLower needs storage_explicit"]
    assert violations_of_order(late)[0] == needed


@pytest.mark.parametrize("index", range(len(DEFAULT)), ids=lambda i: f"{i}-{DEFAULT[i].make().info.name}")
def test_every_step_makes_true_what_it_promises(index):
    """Properties are not vacuous: a module has those a step gives after it, and lacks the pipeline's last ones before."""
    step, before = modules_before()[index]
    info = step.make().info
    after = step.make()(before)
    assert not any(prop.violation(before) for prop in info.needs)
    assert not any(prop.violation(after) for prop in info.gives)
    first = next(i for i, s in enumerate(DEFAULT) if s.make().info.name == info.name)
    lacking = {prop for prop in info.gives if prop.violation(before)}
    assert index != first or lacking == info.gives - {NORMAL_FORM, DEVICES_PLACED}


def test_every_pass_of_ours_promises_something():
    rooms = (relax.transform, relax.optimize)
    passes = [make for room in rooms for name in room.__all__ if hasattr(make := getattr(room, name), "__signature__")]
    assert len(passes) > 15
    for make in passes:
        arguments = [{} for parameter in make.__signature__.parameters.values() if parameter.default is parameter.empty]
        assert make(*arguments).info.breaks is not None, make.__name__


def test_a_pass_is_held_to_its_promises():
    @relax.transform.module_pass(needs={NORMAL_FORM}, gives={NO_DATAFLOW}, breaks=())
    def Idle(mod):
        return mod

    @relax.transform.function_pass(breaks=())
    def Sneak(func, mod):
        return relax.transform.FoldConstant()(mod)[func.attrs["global_symbol"]]

    @I.ir_module
    class Shapes:
        @R.function
        def main(x: R.Tensor(("n",), "float32")) -> R.Shape(("n",)):
            with R.dataflow():
                s = R.shape_of(x)
                R.output(s)
            return s

    with PassContext(instruments=[VerifyInstrument(assert_well_formed)]):
        with pytest.raises(PassError, match="after pass Idle .*: it promises no_dataflow: main has a dataflow block"):
            Idle()(Shapes)
        message = r"it breaks shapes_lowered, which it does not declare: main has the shape R.shape\(\[n\]\)"
        with pytest.raises(PassError, match=message):
            Sneak()(Shapes)
        relax.transform.FoldConstant()(Shapes)  # which declares it
        x = Shapes["main"].params[0]
        nested = relax.Function([x], relax.op.exp(relax.op.exp(x)), attrs={"global_symbol": "main"})
        not_normal = relax.IRModule({"main": nested})
        assert "found a Call, in main" in NORMAL_FORM.violation(not_normal)
        n = next(iter(bound_in(x.struct_info)))
        scalar = relax.SeqExpr([], relax.PrimValue(n + 1))
        lowered = relax.IRModule({"main": relax.Function([x], scalar)})
        assert SHAPES_LOWERED.violation(lowered).startswith("main has the scalar")

    @relax.transform.module_pass(needs={NO_DATAFLOW}, gives={NO_OPERATORS}, breaks=())
    def Later(mod):
        return mod

    with PassContext(instruments=[VerifyInstrument(assert_well_formed)]):
        assert Later()(Shapes) is Shapes  # it promises nothing of a module with dataflow blocks


def test_parts_have_names():
    graph = get_pipeline("graph")(Everything)
    assert "R.permute_dims" not in graph.script()
    assert "R.exp(x)" not in graph.script()
    lowered = get_pipeline("lower")(graph)
    assert_well_formed(lowered)
    assert "R.builtin.alloc_tensor" in lowered.script()
    assert set(UNFUSED) < set(DEFAULT)
    assert set(DEFAULT) == {*GRAPH, *LOWER, *FUSE, *MACHINE}
    assert relax.get_pipeline("default")(Everything) is not Everything


def test_unknown_and_registered_pipelines(monkeypatch):
    monkeypatch.setattr(relax.pipeline, "_PIPELINES", dict(relax.pipeline._PIPELINES))
    with pytest.raises(DiagnosticError, match="E4007.*there is no pipeline 'fast'"):
        get_pipeline("fast")

    @register_pipeline("test.nothing")
    def nothing():
        return relax.transform.Sequential([], name="nothing")

    assert get_pipeline("test.nothing")(Everything) is Everything
    with pytest.raises(ValueError, match="registered already"):
        register_pipeline("test.nothing")(nothing)
