"""The documentation as a site: its pages have a place and a beginning, and what is generated is complete.

The site itself is built by one slow test (`make docs` builds it, too); the others need no MkDocs.
"""

from __future__ import annotations

import inspect
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from documents import blocks_of

import relax
from docs_site import names, notebooks, operators, passes
from relax import _api, optimize, runtime
from relax.frontend.onnx import from_onnx, registry
from relax.op.operator import public_names

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
NOTEBOOKS = sorted(DOCS.rglob("*.ipynb"))
REFERENCE = sorted((DOCS / "reference").glob("*.md"))

ENTRY = re.compile(r"^(?:::: |### )(relax\.[\w.]+)$", re.M)
"""A function or class of the reference: a line that MkDocs replaces by its description, or a heading."""


def shown(path):
    return str(path.relative_to(DOCS))


# --------------------------------------------------------------------------------- navigation


def test_every_page_has_a_place_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]
    listed = re.findall(r"- (?:.*: )?([\w./-]+\.md)$", navigation, re.M)
    assert len(listed) == len(set(listed))
    pages = {shown(page) for page in PAGES} | {shown(page.with_suffix(".md")) for page in NOTEBOOKS}
    assert set(listed) == pages


def test_the_path_of_five_pages():
    """Each page of Learn leads to the next one."""
    index = (DOCS / "learn" / "index.md").read_text(encoding="utf-8")
    path = re.findall(r"^\d\. .*?\]?\(([\w-]+\.md)\)", index, re.M)
    assert len(path) == 5
    for page, following in itertools.pairwise(path):
        assert f"Next: [{following.removesuffix('.md').replace('-', ' ')}]({following})" in (
            DOCS / "learn" / page
        ).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "words, page",
    [
        ("profile=True", "watch-a-run.md"),
        ("set_instrument(", "watch-a-run.md"),
        ("export_library(", "deploy-from-cpp.md"),
        ("params=", "give-a-model-its-weights.md"),
        ("PrintIRAfterAll()", "arrange-passes.md"),
        ("LegalizeOps({", "arrange-passes.md"),
        ("@relax.register_pipeline(", "arrange-passes.md"),
        ("jupyter lab", "use-jupyter.md"),
    ],
)
def test_what_is_looked_for_has_a_page_and_an_example(words, page):
    text = (DOCS / page).read_text(encoding="utf-8")
    assert any(words in "\n".join(block.lines) for block in blocks_of(text))
    assert f"({page}" in (DOCS / "how-to.md").read_text(encoding="utf-8")


# ---------------------------------------------------------------------------------- beginnings

OWN_WORDS = {"room", "rooms", "house", "misfit", "harness"}
"""Words that only this project uses in its sense: a page may explain them, not begin with them."""


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_a_page_begins_with_a_sentence(page):
    title, *rest = page.read_text(encoding="utf-8").split("\n\n")
    assert re.fullmatch(r"# \S.*", title), "a page begins with its title"
    first = rest[0]
    assert not first.startswith(("|", "```", "* ", "#", ">", "1. ")), "a page says first what it is for"
    assert len(first.split()) >= 8
    assert not OWN_WORDS & set(re.findall(r"\w+", first.lower()))


# ----------------------------------------------------------------------------------- reference


def public():
    """The public names that are no modules: they are described in the reference."""
    for home, listed in (("relax", _api.__all__), ("relax.runtime", runtime.__all__)):
        for name in listed:
            value = getattr(relax if home == "relax" else runtime, name)
            if not inspect.ismodule(value):
                yield f"{home}.{name}"


SYNONYMS = {
    "relax.PyExprMutator": "relax.ExprMutator",
    "relax.PyExprVisitor": "relax.ExprVisitor",
    "relax.TVMError": "relax.DiagnosticError",
    "relax.runtime.VirtualMachine": "relax.VirtualMachine",
}
"""Other names of one thing, named beside it."""


def test_every_public_name_is_described():
    described = {name for page in REFERENCE for name in ENTRY.findall(page.read_text(encoding="utf-8"))}
    assert {SYNONYMS.get(name, name) for name in public()} - described == set()
    for name, other in SYNONYMS.items():
        resolved = [eval(n, {"relax": relax}) for n in (name, other)]
        assert resolved[0] is resolved[1] or issubclass(*resolved)


@pytest.mark.parametrize("page", REFERENCE, ids=shown)
def test_every_description_has_an_example(page):
    text = page.read_text(encoding="utf-8")
    parts = re.split(r"^(?=::: relax|### relax)", text, flags=re.M)[1:]
    joined = []
    for part in parts:  # a heading and the description below it are one entry
        if joined and "```" not in joined[-1] and joined[-1].startswith("### "):
            joined[-1] += part
        else:
            joined.append(part)
    assert [part.splitlines()[0] for part in joined if "```python\n" not in part] == []


def test_every_pass_is_listed():
    text = passes.sections()
    listed = re.findall(r"^## (\w+)$", text, re.M)
    assert {"FoldConstant", "LegalizeOps", "FuseTIR", "ConvertLayout"} <= set(listed)
    steps = {step.make.__name__ for step in optimize.pipeline.DEFAULT}
    assert steps <= set(listed)
    assert "see the module's docstring" not in text


# ----------------------------------------------------------------------------------- operators


@pytest.fixture(scope="module")
def entries():
    return {entry.name: entry for entry in operators.entries()}


def test_every_operator_has_a_page(entries):
    expected = set(public_names("relax.")) | {f"nn.{name}" for name in public_names("relax.nn.")}
    assert expected <= entries.keys()
    pages = operators.pages()
    assert len(pages) == len(entries)
    table = operators.table()
    assert all(f"({entry.path})" in table for entry in entries.values())


def test_the_page_of_an_operator(entries):
    assert operators.pages()["operators/nn.softmax.md"].split("---\n", 2)[2].strip() == (
        "# R.nn.softmax\n\n"
        "```python no-run\nR.nn.softmax(data, axis=-1)\n```\n\n"
        f"{inspect.cleandoc(relax.op.nn.softmax.__doc__)}\n\n"
        "* Group: [Neural networks](../operators.md#neural-networks)\n"
        "* Element types: float, float8, float4\n"
        "* TVM has an operator of this name.\n"
        "* ONNX: Softmax\n\n"
        "A call, and what is derived of its result:\n\n"
        "```python no-run\n"
        'data: R.Tensor((3, 5), "float32")\n'
        "R.nn.softmax(data)\n"
        '# R.Tensor((3, 5), "float32")\n```'
    )


def test_element_types_are_those_that_inference_accepts(entries):
    assert entries["exp"].dtypes == ("float", "float8", "float4")
    assert entries["bitwise_and"].dtypes == ("int", "uint", "bool", "narrow int")
    assert "bool" in entries["concat"].dtypes


def test_long_signatures_have_a_line_for_each_parameter(entries):
    lines = entries["nn.conv2d"].signature.splitlines()
    assert (lines[0], lines[-1]) == ("R.nn.conv2d(", ")")
    assert "    groups=1," in lines


def test_the_names_elsewhere_are_names(entries):
    assert set(names.ONNX.values()) <= entries.keys()
    assert names.ONNX.keys() <= set(registry.names_in(""))
    assert len(names.TVM & entries.keys()) > 180


@pytest.mark.parametrize("onnx_name", ["Relu", "Softmax", "Gather", "Where", "Transpose", "Sqrt"])
def test_an_onnx_operator_becomes_the_operator_named(onnx_name):
    from onnx import TensorProto, helper

    inputs = {
        "Gather": [("x", TensorProto.FLOAT, [4]), ("i", TensorProto.INT64, [2])],
        "Where": [("c", TensorProto.BOOL, [4]), ("x", TensorProto.FLOAT, [4]), ("y", TensorProto.FLOAT, [4])],
    }.get(onnx_name, [("x", TensorProto.FLOAT, [2, 4])])
    node = helper.make_node(onnx_name, [name for name, _, _ in inputs], ["result"])
    values = [helper.make_tensor_value_info(*each) for each in inputs]
    result = helper.make_tensor_value_info("result", TensorProto.FLOAT, None)
    model = helper.make_model(
        helper.make_graph([node], "one", values, [result]), opset_imports=[helper.make_opsetid("", 20)]
    )
    assert f"R.{names.ONNX[onnx_name]}(" in from_onnx(model).script()


# ----------------------------------------------------------------------------------- notebooks


@pytest.mark.skipif(sys.version_info < (3, 11), reason="as the text blocks of documents")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=shown)
def test_a_notebook_shows_what_it_says(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    notebook = notebooks.load(path)
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [notebooks.output(cell) for cell in cells] == notebooks.run(notebook)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))


def test_a_notebook_becomes_a_page(tmp_path):
    cells = [
        {"cell_type": "markdown", "source": ["# Title"]},
        {"cell_type": "markdown", "source": ["Text."]},
        {"cell_type": "code", "source": ["x = 20\n", "print(x)\n", "x + 1"], "outputs": []},
    ]
    path = tmp_path / "n.ipynb"
    path.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    notebooks.update(path)
    page = notebooks.page(path)
    assert page.startswith("# Title\n\n!!! note\n    This page is a notebook: [download it](n.ipynb)")
    assert page.endswith("Text.\n\n```python\nx = 20\nprint(x)\nx + 1\n```\n\n```text\n20\n21\n```\n")


# ------------------------------------------------------------------------------------ the site


@pytest.mark.slow
def test_the_site_is_built_and_fetches_nothing(tmp_path):
    pytest.importorskip("mkdocs", reason="pip install .[docs]")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "reference" / "operators" / "nn.softmax.html").exists()
    for page in (tmp_path / "site").rglob("*.html"):
        html = page.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=\"?([^\"\s>]+)", html)
        assert [url for url in loaded if re.match(r"(https?:)?//", url)] == [], page
