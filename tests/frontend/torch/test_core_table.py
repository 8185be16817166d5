"""The table of torch's core operators, docs/torch-operators.md, is what the converters give."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch_core
from relax.frontend.torch import registry


def test_the_page_is_up_to_date():
    assert torch_core.page() == torch_core.PAGE.read_text("utf-8"), "run python tools/torch_core.py"


def test_a_lost_converter_changes_the_page(monkeypatch):
    find = registry.find
    monkeypatch.setattr(registry, "find", lambda name: None if name.startswith("aten.sym_size") else find(name))
    monkeypatch.setattr(torch_core, "core_operators", lambda: ["sym_size.int"])
    assert torch_core.page() != torch_core.PAGE.read_text("utf-8")


def test_an_operator_that_nothing_covers_is_refused(monkeypatch):
    torch = torch_core.torch
    name = "fractional_max_pool2d_backward.default"

    def backward(grad, x):
        return torch.ops.aten.fractional_max_pool2d_backward(grad, x, [2, 2], [2, 2], grad.long())

    monkeypatch.setitem(torch_core.SAMPLES, name, lambda: (backward, (torch.ones(1, 2, 2), torch.ones(1, 4, 4))))
    assert torch_core.status(name).startswith(f"refused: the operator aten.{name} is not supported; export what")


def test_an_unknown_operator_without_a_sample_is_an_error():
    with pytest.raises(KeyError, match="no_such_operator"):
        torch_core.status("no_such_operator.default")


def test_an_operator_that_torch_does_not_export_says_so():
    assert torch_core.status("resize_.default").startswith("torch.export refuses it: tried to directly modify sizes")
