"""Explanations of schedule rules: which one takes a function, and why those before it do not."""

from __future__ import annotations

from relax import te, tir, topi
from relax.codegen import resolve
from relax.ir import IRModule
from relax.schedules import schedule
from relax.schedules.cpu import RULES
from relax.script import tir as T

AVX512 = "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512"


def convolution(groups=1):
    x = te.placeholder((1, 32, 14, 14), name="X")
    w = te.placeholder((32, 32 // groups, 3, 3), name="W")
    return te.create_prim_func([x, w, topi.nn.conv(x, w, 1, 1, 1, groups)])


def test_the_rule_and_those_before_it():
    """Rules for other kinds of loop nests are not shown."""
    explanation = tir.explain(convolution(groups=2), AVX512)
    assert str(explanation).splitlines()[-4:] == [
        "schedule rule of main: Convolution",
        "  not Depthwise: a single group, or groups of several input channels",
        "  not WordPixels, DotConvolution: the target has no dot products of float32, summed in float32",
        "  not WordColumns, Winograd, FewChannels, WordBlocked, Pointwise, Blocked: there are 2 groups",
    ]
    [report] = explanation.rules
    assert report.taken == ("Convolution",)
    assert str(report.refusals["Blocked"]) == "there are 2 groups"
    assert report.reasons(unrelated=True)["no parameter is channels-last"] == ["BytePixels"]
    assert "Pooling" not in report.refusals


def test_constant_parameters():
    """Rules that pack constants come first, whatever rule would take the function without."""
    x, w = te.placeholder((1, 32, 14, 14), name="X"), te.placeholder((64, 32, 4, 4), name="W")
    func = te.create_prim_func([x, w, topi.nn.conv(x, w)])
    [unknown] = tir.explain(func, AVX512).rules
    assert unknown.taken == ("Convolution",)
    assert str(unknown.refusals["Blocked"]) == "the weights are not constant"
    [known] = tir.explain(func, AVX512, constants=[1]).rules
    assert known.taken == ("Blocked",)
    assert "Convolution" not in known.refusals


def test_scheduled_functions():
    func = schedule(convolution(), resolve(AVX512), RULES)
    explanation = tir.explain(func, AVX512)
    assert str(explanation).splitlines()[-1] == "schedule rule of main: it is scheduled already"
    assert explanation.rules[0].is_scheduled


def test_scheduled_functions_share_a_line():
    scheduled = {name: schedule(convolution(), resolve(AVX512), RULES) for name in ("first", "second")}
    explanation = tir.explain(IRModule({**scheduled, "other": convolution(groups=2)}), AVX512)
    assert "schedule rule of first, second: it is scheduled already" in str(explanation).splitlines()
    assert explanation.html().count("it is scheduled already") == 1
    assert [report.function for report in explanation.rules] == ["first", "second", "other"]


@T.prim_func
def shared(A: T.Buffer((4096,), "float32"), B: T.Buffer((4096,), "float32")):
    for i in range(4096):
        with T.block("B"):
            B[i] = A[i] + T.float32(1)


def test_functions_of_a_module():
    """A function that no rule takes says so; below the second optimisation level few rules are tried."""
    explanation = tir.explain(IRModule({"shared": shared, "conv": convolution()}), AVX512)
    assert [report.function for report in explanation.rules] == ["shared", "conv"]
    assert "schedule rule of shared: none" in str(explanation)
    [plain] = tir.explain(convolution(), f"{AVX512} -opt-level=1").rules
    assert [*plain.refusals] == ["PlainSums"]


def test_the_page():
    """Rules for other kinds of loop nests are folded."""
    page = tir.explain(convolution(groups=2), AVX512).html()
    assert "<h2>schedule rule of main: Convolution</h2>" in page
    shown, folded = page.split("<summary>rules for other kinds of loop nests</summary>")
    assert "WordBlocked, Pointwise, Blocked: there are 2 groups" in shown
    assert "BytePixels: no parameter is channels-last" in folded
