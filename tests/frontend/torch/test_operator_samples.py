"""Torch's own samples of some operators (OpInfo), compiled: what `tools/torch_operators.py` does for all."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")

import torch_operators  # noqa: E402
from support import PLAIN_LOOPS  # noqa: E402
from torch_operators import Outcome, check, difference, operators, table  # noqa: E402


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
    assert outcome.verdict == "eager"
    assert "its conversion failed: RuntimeError: a fault of the converter" in outcome.reason


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
