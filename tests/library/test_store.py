"""The library in the cache: what another Library finds there, and what it makes anew."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import make_homes
import relax
from relax.codegen import build as kernels
from relax.codegen import resolve
from relax.farm import cache
from relax.library import CallLibrary, Library, store
from relax.transform import Normalize, PassContext
from support import PLAIN_LOOPS, main, same

PARAMS = 'x: R.Tensor((3, 4), "float32")'
X = np.arange(12, dtype="float32").reshape(3, 4)


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    """An empty cache of the test's own, in which there is something."""
    monkeypatch.setenv("RELAX_CACHE_DIR", str(tmp_path))
    relax.build(program("R.nn.relu(x)"), PLAIN_LOOPS, tier="now")


def program(expression, params=PARAMS):
    return main(f"y = {expression}\nreturn y", params)


def calls_of(name, monkeypatch):
    """A list that grows with each call of a function of the store."""
    calls = []

    def counted(*args):
        calls.append(args)
        return function(*args)

    function = getattr(store, name)
    monkeypatch.setattr(store, name, counted)
    return calls


@pytest.fixture
def made(monkeypatch):
    """A list that grows with each kernel that is made."""
    return calls_of("kernel_of", monkeypatch)


@pytest.fixture
def searched(monkeypatch):
    """A list that grows with each search of a partition."""
    return calls_of("most_general", monkeypatch)


def called(expression="R.nn.relu(x)", target=PLAIN_LOOPS):
    mod = CallLibrary(Library(resolve(target)))(Normalize()(program(expression)))
    same(relax.interpret(mod, "main", X), relax.interpret(program(expression), "main", X))


def test_a_second_library_finds_templates_and_code(made):
    called()
    assert not made
    before = kernels.statistics.llvm_runs
    for rows in (5, 900):
        relax.build(program("R.nn.relu(x)", f'x: R.Tensor(({rows}, 7), "float32")'), PLAIN_LOOPS, tier="now")
    assert kernels.statistics.llvm_runs == before


def test_that_there_is_no_general_form_is_kept_too(searched):
    params = 'x: R.Tensor(("n", 4), "float32"), y: R.Tensor((T.min(n, 512), 4), "float32")'
    mod = program("R.add(x, y)", params)  # x + y has n rows, but general sizes n and m would not do
    for _ in range(2):
        CallLibrary(Library(resolve(PLAIN_LOOPS)))(Normalize()(mod))
        assert len(searched) == 2  # for all calls that differ in sizes alone, and for this one


def test_calls_that_differ_in_sizes_share_a_template(made, searched):
    library = Library(resolve(PLAIN_LOOPS))
    for shape in ("(3, 4)", "(4, 4)", "(1, 4)", "(1, 1)", '("n", 4)', '("n", "n")'):
        mod = program("R.add(x, x)", f'x: R.Tensor({shape}, "float32")')
        CallLibrary(library)(Normalize()(mod))
    assert len(made) == len(searched) == 1


def test_a_call_whose_sizes_of_one_are_broadcast_has_a_template_of_its_own(made):
    library = Library(resolve(PLAIN_LOOPS))
    for rows in (3, 4):
        mod = program("R.add(x, y)", f'x: R.Tensor(({rows}, 4), "float32"), y: R.Tensor((1, 4), "float32")')
        CallLibrary(library)(Normalize()(mod))
    assert len(made) == 1
    CallLibrary(library)(Normalize()(program("R.add(x, x)")))
    assert len(made) == 2


def test_another_target_has_kernels_of_its_own(made):
    called(target="llvm -opt-level=2")
    assert len(made) == 1


def test_edited_files_keep_nothing(made, monkeypatch):
    monkeypatch.setattr(store, "compiler_files", lambda rooms: None)
    called()
    called()
    assert len(made) == 2


def test_without_a_cache_kernels_are_made_once_for_a_library(made):
    with cache.disabled():
        library = Library(resolve(PLAIN_LOOPS))
        for _ in range(2):
            CallLibrary(library)(Normalize()(program("R.nn.relu(x)")))
        assert len(made) == 1
        called()
        assert len(made) == 2


@pytest.mark.parametrize("note", [b"", b"\xff", b"{}", b"[]", b"[1, 2, 3, 4, 5]", b'["a", [0], [0], [], "{}"]', b"3"])
def test_notes_in_another_format_are_made_anew(made, monkeypatch, note):
    with monkeypatch.context() as patch:
        patch.setattr(cache, "noted", lambda key: note)
        called()
        program_ = relax.VirtualMachine(relax.build(program("R.nn.relu(x)"), PLAIN_LOOPS, tier="now"))
    assert made
    same(program_["main"](X), X)


def test_a_damaged_cache_is_made_anew(tmp_path, made):
    for path in tmp_path.rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[:-1] + b"?")
    called()
    assert made
    same(relax.VirtualMachine(relax.build(program("R.nn.relu(x)"), PLAIN_LOOPS, tier="now"))["main"](X), X)


def test_a_context_that_schedule_rules_read_has_kernels_of_its_own(made):
    with PassContext(config={"relax.fast_algorithms": False}):
        called()
        assert len(made) == 1
        called()
    assert len(made) == 1


def test_a_context_that_no_key_can_hold_keeps_nothing(made):
    with PassContext(config={"test.library": object()}):
        for count in (1, 2):
            called()
            assert len(made) == count


def test_all_that_makes_a_kernel_is_in_the_keys(monkeypatch):
    roots = ("relax.library.kernels", "relax.schedules.apply", "relax.schedules.cpu", *make_homes.GENERATORS)
    monkeypatch.setattr(make_homes, "GENERATORS", roots)
    assert {Path(name).parts[0] for name in make_homes.generator_files()} == {*store.ROOMS}
