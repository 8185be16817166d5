"""Torch's own samples of some operators (OpInfo), compiled: what `tools/torch_operators.py` does for all."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")

import torch_operators  # noqa: E402
from generated_pages import with_part  # noqa: E402
from support import PLAIN_LOOPS  # noqa: E402
from torch_operators import END, START, Outcome, check, difference, operators, section, table  # noqa: E402


@pytest.fixture(autouse=True)
def _settings(monkeypatch):
    """The settings of a worker process, for one test."""
    from relax.frontend.torch.compile.piece import CompiledPiece

    monkeypatch.setattr(CompiledPiece, "build", CompiledPiece.build)
    torch_operators.count_pieces()
    with torch._dynamo.config.patch(specialize_int=True):
        yield
    torch._dynamo.reset()


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("add", "int64"), ("addcmul", "bfloat16"), ("cat", "bool"), ("cumsum", "float64"), ("matmul", "float32"),
        ("nn.functional.conv2d", "float32"), ("nn.functional.gelu", "float32"), ("nn.functional.layer_norm", "float32"),
        ("softmax", "float32"), ("sort", "int64"), ("sum", "bfloat16"), ("where", "float32"),
    ],
)  # fmt: skip
def test_samples_are_compiled(name, dtype):
    [info] = [info for info in operators(f"^{name}$") if not info.variant_test_name]
    outcomes = list(check(info, dtype, 1, {"target": PLAIN_LOOPS}))
    assert outcomes
    assert [outcome for outcome in outcomes if outcome.verdict != "compiled"] == []


def test_what_eager_torch_runs_is_told_apart(monkeypatch):
    from relax.frontend.torch import registry

    [info] = operators("^tan$")
    monkeypatch.setattr(registry, "find", lambda name: None)
    [outcome] = check(info, "float32", 1, {"target": PLAIN_LOOPS})
    assert outcome.verdict == "eager"


def test_wrong_results_and_faults_of_converters_are_found(monkeypatch):
    from relax import op
    from relax.frontend.torch import registry

    [info] = operators("^tan$")
    monkeypatch.setitem(registry._CONVERTERS, "aten.tan.default", lambda g, x: op.sin(x))
    [outcome] = check(info, "float32", 1, {"target": PLAIN_LOOPS})
    assert outcome.verdict == "wrong"
    assert outcome.reason.startswith("result 0: Tensor-likes are not close!")

    def failing(g, x):
        raise RuntimeError("a fault of the converter")

    monkeypatch.setitem(registry._CONVERTERS, "aten.tan.default", failing)
    [outcome] = check(info, "float32", 1, {"target": PLAIN_LOOPS})
    assert outcome.verdict == "error"  # in tests; users get a warning
    assert "RuntimeError: a fault of the converter" in outcome.reason
    monkeypatch.setenv("RELAX_RAISE_UNEXPECTED", "0")
    [outcome] = check(info, "float32", 1, {"target": PLAIN_LOOPS})
    assert outcome.verdict == "error"
    assert "its conversion failed: RuntimeError: a fault of the converter" in outcome.reason


def test_builds_that_fail_are_errors(monkeypatch):
    from relax.frontend.torch.compile import piece

    def failing(program, *args, **kwargs):
        raise ZeroDivisionError("a fault of the build")

    [info] = operators("^tan$")
    monkeypatch.setattr(piece, "build", failing)
    [outcome] = check(info, "float32", 1, {"target": PLAIN_LOOPS})
    assert outcome.verdict == "error"
    assert "its build failed: ZeroDivisionError: a fault of the build" in outcome.reason


def test_differences():
    one = torch.tensor([1.0, float("nan")])
    assert difference([one], [one.clone()]) == ""
    assert difference([one], []) == "1 results, expected 0"
    assert difference([one], [one.to(torch.float64)]).startswith("result 0: The values for attribute 'dtype'")
    assert difference([one + 1], [one]).startswith("result 0: Tensor-likes are not close!")


def test_table():
    outcomes = [
        Outcome("a", "float32", 0, "compiled"),
        Outcome("b", "float32", 0, "eager", "aten.b: no converter, at File x"),
        Outcome("c", "float32", 0, "eager", "aten.b: no converter, at File y"),
        Outcome("d", "float32", 0, "wrong", "1 | 2"),
    ]
    assert table(outcomes).splitlines()[2:] == [
        "| `d` | wrong | 1 \\| 2 |",
        "| `b` `c` | eager | aten.b: no converter |",
    ]


def test_a_page_from_a_record(tmp_path):
    """Counts by dtype, of the units that a record holds; a line that is not whole is left out."""
    record, page = tmp_path / "runs.jsonl", tmp_path / "page.md"
    lines = []
    for operator, dtype, verdicts in [
        ("a", "int64", ["compiled", "wrong"]),
        ("b", "int64", []),
        ("a", "bool", ["eager"]),
    ]:
        outcomes = [asdict(Outcome(operator, dtype, place, verdict, "why")) for place, verdict in enumerate(verdicts)]
        lines.append({"operator": operator, "dtype": dtype, "torch": "2.13", "forms": 1, "outcomes": outcomes})
    record.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"operator": "c", "dt')
    page.write_text(f"before\n{START}old\n{END}after\n")
    text = with_part(page, START, END, section(record, 700))
    assert "old" not in text
    assert text.startswith(f"before\n{START}\n")
    assert text.endswith(f"{END}after\n")
    assert "Measured with torch 2.13: one form of call" in text
    assert "| int64 | 2 | 1 | 2 | 1 | 1 | 0 | 1 | 0 | 0 | 0 |" in text
    assert "| bool | 1 | 1 | 1 | 1 | 0 | 1 | 0 | 0 | 0 | 0 |" in text
    record.write_text("".join(json.dumps(line | {"forms": place}) + "\n" for place, line in enumerate(lines)))
    with pytest.raises(ValueError, match="a page is of one version of torch and number of forms, found"):
        section(record, 700)
