"""Passes, their context, and instruments."""

from __future__ import annotations

import sys

import pytest

from relax.ir import BaseFunc, IRModule, child, node
from relax.ir.transform import (
    DumpInstrument,
    PassContext,
    PassError,
    PassInstrument,
    PrintIRAfterAll,
    PrintIRBeforeAll,
    Sequential,
    TimingInstrument,
    VerifyInstrument,
    function_pass,
    module_pass,
)


@node
class Func(BaseFunc):
    """A function."""

    number: int
    attrs: dict = child(default_factory=dict)


@node
class Other(BaseFunc):
    """A function of another kind."""

    number: int
    attrs: dict = child(default_factory=dict)


@module_pass
def Rename(mod: IRModule, *, name: str = "renamed") -> IRModule:
    """Rename the first function."""
    first, *rest = mod.functions.items()
    return mod.with_functions({name: first[1], **dict(rest)}) if first[0].name_hint != name else mod


@function_pass(kind=Func, opt_level=1)
def AddOne(func: Func, mod: IRModule, step: int = 1) -> Func:
    """Add to every number."""
    return func.replace(number=func.number + step)


@module_pass(name="test.Nothing")
def Nothing(mod: IRModule) -> IRModule:
    """Change nothing."""
    return mod


mod = IRModule({"f": Func(1), "g": Other(10)})


def test_a_module_pass():
    assert "renamed" in Rename()(mod)
    assert "x" in Rename(name="x")(mod)
    assert Nothing()(mod) is mod
    assert Rename.__name__ == "Rename"
    assert Rename.__doc__ == "Rename the first function."
    assert repr(Nothing()) == "test.Nothing()"


def test_a_function_pass_runs_on_functions_of_its_kind():
    result = AddOne()(mod)
    assert (result["f"].number, result["g"].number) == (2, 10)
    assert AddOne(step=5)(mod)["f"].number == 6
    assert AddOne(5)(mod)["f"].number == 6
    assert AddOne(step=0)(mod) is mod


def test_options_are_fields_that_can_be_inspected_and_printed():
    added = AddOne(5)
    assert repr(added) == "AddOne(step=5)"
    assert added.step == 5
    assert AddOne().options == {"step": 1}
    assert repr(Rename()) == "Rename(name='renamed')"
    with pytest.raises(AttributeError, match="'stride'"):
        assert added.stride


def test_wrong_options_are_refused_when_the_pass_is_made():
    with pytest.raises(TypeError, match="colour"):
        AddOne(colour=1)


def test_sequential():
    both = Sequential([AddOne(), AddOne(step=10), Nothing()])
    assert both(mod)["f"].number == 12
    assert repr(both) == "Sequential([AddOne(step=1), AddOne(step=10), test.Nothing()], name='sequential')"
    assert Sequential([])(mod) is mod


def test_levels_and_names_decide_what_runs():
    with PassContext(opt_level=0):
        assert AddOne()(mod) is mod
    with PassContext(opt_level=0, required_pass=["AddOne"]):
        assert AddOne()(mod)["f"].number == 2
    with PassContext(disabled_pass=["AddOne"]):
        assert AddOne()(mod) is mod


def test_contexts_nest():
    with PassContext(config={"a": 1}) as outer:
        with PassContext() as inner:
            assert PassContext.current() is inner
        assert PassContext.current() is outer
        assert PassContext.current().config == {"a": 1}
    assert PassContext.current() is not outer


def test_the_trace_names_the_passes():
    with PassContext() as context:
        Sequential([AddOne(), Nothing()])(mod)
    assert context.trace == ["AddOne", "test.Nothing", "sequential"]


class Recorder(PassInstrument):
    """Writes down what it is told."""

    def __init__(self, skip: str = ""):
        self.events: list[tuple] = []
        self.skip = skip

    def enter_pass_ctx(self):
        self.events.append(("enter",))

    def exit_pass_ctx(self):
        self.events.append(("exit",))

    def should_run(self, mod, info):
        return info.name != self.skip

    def run_before_pass(self, mod, info):
        self.events.append(("before", info.name))

    def run_after_pass(self, mod, info, changed):
        self.events.append(("after", info.name, changed))


def test_instruments():
    recorder = Recorder(skip="Rename")
    with PassContext(instruments=[recorder]):
        for step in (AddOne(), Rename(), Nothing()):
            step(mod)
    assert recorder.events == [
        ("enter",), ("before", "AddOne"), ("after", "AddOne", True), ("before", "test.Nothing"),
        ("after", "test.Nothing", False), ("exit",),
    ]  # fmt: skip


def test_instruments_are_exchanged_for_others():
    first, second = Recorder(), Recorder()
    with PassContext(instruments=[first]):
        PassContext.current().override_instruments([second])
        AddOne()(mod)
        PassContext.current().override_instruments(None)
        AddOne()(mod)
    assert first.events == [("enter",), ("exit",)]
    assert second.events == [("enter",), ("before", "AddOne"), ("after", "AddOne", True), ("exit",)]


def test_nothing_given_is_none_given():
    with PassContext(opt_level=3, required_pass=None, disabled_pass=None, instruments=None, config=None):
        assert AddOne()(mod)["f"].number == 2
    assert Sequential(None, traceable=True)(mod) is mod


def test_an_instrument_that_fails_to_start_leaves_no_context():
    class Broken(PassInstrument):
        def enter_pass_ctx(self):
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"), PassContext(opt_level=7, instruments=[Broken()]):
        pass
    assert PassContext.current().opt_level == 2


def test_verifying_names_the_pass_and_those_before():
    def check(module):
        if module["f"].number == 3:
            raise ValueError("f is three")

    with PassContext(instruments=[VerifyInstrument(check)]):
        with pytest.raises(
            PassError, match=r"after pass AddOne \(passes before it: AddOne -> test.Nothing\): f is three"
        ):
            Sequential([AddOne(), Nothing(), AddOne()])(mod)
    with PassContext(instruments=[VerifyInstrument(check)]), pytest.raises(PassError, match="passes before it: none"):
        AddOne(step=2)(mod)


def test_timing():
    timing = TimingInstrument()
    with PassContext(instruments=[timing]):
        Sequential([AddOne(), Nothing()])(mod)
    assert [(name, changed) for name, _, changed in timing.times] == [
        ("AddOne", True), ("test.Nothing", False), ("sequential", True),
    ]  # fmt: skip
    assert "ms  (no change) test.Nothing" in timing.render()


def test_dumping(tmp_path):
    with PassContext(instruments=[DumpInstrument(tmp_path / "dump")]):
        Sequential([AddOne(), Nothing(), Rename()])(mod)
    names = sorted(path.name for path in (tmp_path / "dump").iterdir())
    assert names == ["01_AddOne.py", "03_Rename.py", "04_sequential.py"]


def test_printing_before_and_after(capsys):
    with PassContext(instruments=[PrintIRBeforeAll(), PrintIRAfterAll()]):
        Nothing()(mod)
    out = capsys.readouterr().out
    assert "# before test.Nothing\n" in out
    assert "# after test.Nothing (no change)\n" in out


def test_a_pass_must_return_a_module():
    @module_pass
    def Forgetful(mod: IRModule) -> IRModule:
        """Return nothing."""

    with pytest.raises(TypeError, match="pass Forgetful takes an IRModule, found int"):
        Forgetful()(3)
    with pytest.raises(TypeError, match="pass Forgetful returned a NoneType, expected an IRModule"):
        Forgetful()(mod)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions take notes from Python 3.11 on")
def test_an_error_inside_a_pass_says_which():
    @module_pass
    def Failing(mod: IRModule) -> IRModule:
        """Fail."""
        raise ZeroDivisionError

    with PassContext(), pytest.raises(ZeroDivisionError) as caught:
        Sequential([Nothing(), Failing()])(mod)
    assert caught.value.__notes__[0] == "in pass Failing (passes before it: test.Nothing)"


def test_required_passes_run_before():
    ran = []

    def declare(name, required=()):
        @module_pass(name=name, required=required)
        def note(mod: IRModule, ctx: PassContext) -> IRModule:
            ran.append(name)
            return mod

        return note

    declare("test.First")
    declare("test.Second", ["First"])
    third = declare("test.Third", ["test.Second", "test.First"])
    third(mod)
    assert ran == ["test.First", "test.Second", "test.First", "test.Third"]

    @function_pass(kind=Func, required=["AddOne"])
    def Double(func: Func, mod: IRModule) -> Func:
        return func.replace(number=2 * func.number)

    assert Double()(mod)["f"].number == 4
    assert Sequential([Double()], required=["AddOne"])(mod)["f"].number == 6
    with PassContext(disabled_pass=["AddOne"]):
        assert Double()(mod)["f"].number == 2


def test_passes_that_cannot_be_required():
    @module_pass(required=["AddOnce"])
    def Late(mod: IRModule) -> IRModule:
        return mod

    with pytest.raises(ValueError, match=r"pass Late requires AddOnce: there is no pass 'AddOnce' \(similar: AddOne"):
        Late()(mod)

    @module_pass(required=["Egg"])
    def Hen(mod: IRModule) -> IRModule:
        return mod

    @module_pass(required=["Hen"])
    def Egg(mod: IRModule) -> IRModule:
        return mod

    with pytest.raises(ValueError, match="passes require each other: Hen -> Egg -> Hen"):
        Hen()(mod)
    assert AddOne()(mod)["f"].number == 2  # nothing is left waiting
