"""The table of TVM's names: every row says what is so, and docs/coming-from-tvm.md is written from it."""

from __future__ import annotations

import importlib
import re
import sys
from typing import Any

import pytest

import relax
import tvm_names_page
from relax.farm.host import resolve as resolve_target
from relax.ir import DiagnosticError
from relax.ir.tvm_names import NAMESPACES, Namespace, Row, row_of, rows

HINT = "write `python tools/tvm_names_page.py` after a change of relax.ir.tvm_names"


def resolve(path: str) -> Any:
    """The object of a dotted name: attributes first, then modules, as programs reach them."""
    value: Any = relax
    parts = path.split(".")[1:]
    for index, part in enumerate(parts):
        try:
            value = getattr(value, part)
        except AttributeError:
            try:
                value = importlib.import_module(".".join(["relax", *parts[: index + 1]]))
            except ModuleNotFoundError:
                raise AttributeError(path) from None
    return value


def look_up(namespace: Namespace, name: str) -> Any:
    """Look a name up in a namespace as a program would; of a class, in an object of it."""
    owner = resolve(namespace.here)
    return owner.__getattr__(None, name) if isinstance(owner, type) else getattr(owner, name)


def test_no_name_stands_twice():
    for namespace in NAMESPACES:
        names = [row.name for row in namespace.rows()]
        assert len(names) == len(set(names)), namespace.tvm
    assert len({namespace.tvm for namespace in NAMESPACES}) == len(NAMESPACES)


def test_what_works_or_differs_is_there():
    gone: list[Row] = []
    for row in rows():
        if row.here:
            try:
                resolve(row.here)
            except AttributeError:
                gone.append(row)
    assert not gone


@pytest.mark.parametrize("namespace", NAMESPACES, ids=lambda namespace: namespace.tvm)
def test_what_is_not_here_says_so(namespace):
    absent = [row for row in namespace.rows() if row.status == "not yet" or row.renamed]
    if namespace.tvm == "tvm.contrib":  # its own name raises
        namespace, absent = NAMESPACES[0], [row for row in NAMESPACES[0].rows() if row.name == "contrib"]
    for row in absent:
        with pytest.raises(AttributeError) as caught:
            look_up(namespace, row.name)
        assert isinstance(caught.value, DiagnosticError), row
        text = str(caught.value)
        if row_of(namespace.here, row.name) == row:
            expected = f"{row.module}.{row.name} is "
            expected += f"called {row.here} here" if row.renamed else "not built yet"
            assert f"error[E4301]: {expected}" in text
            assert f"= help: {row.note or f'use `{row.here}`'}" in text


def test_what_the_reasons_name_is_there():
    unknown: list[str] = []
    for row in rows():
        for quoted in row.note.split("`")[1::2]:
            name = quoted.partition("(")[0]
            if name.startswith("relax.") and " " not in name:
                try:
                    resolve(name)
                except AttributeError:
                    unknown.append(f"{row.module}.{row.name}: {name}")
    assert not unknown


def test_calls_of_literals_in_the_reasons_work():
    calls: set[str] = set()
    for row in rows():
        for quoted in row.note.split("`")[1::2]:
            names = set(re.findall(r"[A-Za-z_][\w.]*", re.sub(r'"[^"]*"', "", quoted)))
            if quoted.startswith("relax.") and quoted.endswith(")") and len(names) == 1:
                calls.add(quoted)
    assert len(calls) >= 4
    for call in sorted(calls):
        value = eval(call, {"relax": relax})
        if isinstance(value, relax.target.Target):
            resolve_target(value)  # which knows the names of processors


def test_the_page_is_not_stale():
    assert tvm_names_page.page() == tvm_names_page.PAGE.read_text(encoding="utf-8"), HINT


def test_hasattr():
    assert not hasattr(relax, "meta_schedule")  # it is relax.tune
    assert not hasattr(relax.transform, "FewShotTuning")
    assert hasattr(relax.transform, "FuseOps")
    assert getattr(relax.relay.nn, "sparse_dense", None) is None


IMPORTS = [
    "from relax.transform import FewShotTuning",  # a package
    "from relax.utils import args_converter",  # a module
    "from relax.ir import Array",
    "from relax import autotvm",
    "import relax.autotvm",
    "from relax.autotvm import apply_history_best",
    "from relax.frontend.stablehlo import from_stablehlo",
]


@pytest.mark.parametrize("statement", IMPORTS)
def test_imports(statement):
    with pytest.raises(ImportError, match=r"error\[E4301\]: tvm\..* is not built yet") as caught:
        exec(statement, {})
    assert isinstance(caught.value, DiagnosticError)


def test_what_tvm_has_not_either_is_a_plain_error():
    for look in (lambda: relax.transform.FuzeOps, lambda: relax.runtime.nothing, lambda: relax.relay.nn.nothing):
        with pytest.raises(AttributeError) as caught:
            look()
        assert not isinstance(caught.value, DiagnosticError)
    with pytest.raises(ModuleNotFoundError, match="No module named 'relax.nothing'"):
        importlib.import_module("relax.nothing")
    assert importlib.util.find_spec("relax.nothing") is None


def test_the_error_points_at_the_line():
    with pytest.raises(AttributeError, match=r"test_names.py:\d+:9\n") as caught:
        relax.transform.FewShotTuning()
    assert "relax.transform.FewShotTuning()" in str(caught.value)


def test_in_a_script():
    for use, why in (("R.size(x)", "relax.op.shape_of"), ("R.image.resize3d(x)", "relax.BlockBuilder.emit_te")):
        text = f"@R.function\ndef f(x: R.Tensor((4,), 'float32')):\n    y = {use}\n    return y"
        with pytest.raises(DiagnosticError, match=r"has no member `\w+`") as caught:
            relax.script.from_source(text)
        assert "= help: not built yet: use `" in str(caught.value)
        assert why in str(caught.value)


def test_the_names_of_a_device_without_code():
    with pytest.raises(AttributeError, match=r"use `relax.cpu\(\)`"):
        relax.nd.cuda(0)


def test_without_the_compiler(monkeypatch):
    monkeypatch.setitem(sys.modules, "relax.ir.tvm_names", None)  # as where the runtime alone is installed
    with pytest.raises(ModuleNotFoundError, match="No module named 'relax.autotvm'"):
        importlib.import_module("relax.autotvm")
    with pytest.raises(AttributeError, match="module 'relax.nd' has no attribute 'cuda'"):
        relax.nd.cuda(0)
