"""The examples of docs/import-torch.md run, one after the other."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from relax.target import Target

torch = pytest.importorskip("torch")

PAGE = Path(__file__).parents[3] / "docs" / "import-torch.md"


def run(blocks, names):
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    return names


def examples():
    """The examples of the page, and beside them those that need torchao."""
    blocks = re.findall(r"^```python no-run\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    needs = [block for block in blocks if "torchao" in block]
    return [block for block in blocks if block not in needs], needs


def test_the_example_of_quantised_modules_runs():
    pytest.importorskip("torchao")
    others, needs = examples()
    assert len(needs) == 1
    with Target("llvm"):  # plain loops keep bytes
        names = run([others[0], *needs], {})
    weights = [c for c in names["executable"].constants if getattr(c, "numel", lambda: 0)() > 1 << 16]
    assert [str(array.dtype) for array in weights] == ["int32"] * 2  # words of four bytes


def test_the_examples_run(without, agrees):
    names = run(examples()[0], {})
    expected = names["module"](torch.ones(5, 4)).detach().numpy()
    np.testing.assert_allclose(names["y"].numpy(), expected, 1e-5)
    agrees(torch.special.ndtr, torch.randn(3, 4), tolerance=1e-6)
    assert "aten.special_ndtr.default" in without
