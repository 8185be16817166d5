"""The examples of docs/import-torch.md run, one after the other."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

PAGE = Path(__file__).parents[3] / "docs" / "import-torch.md"


def test_the_examples_run(without, agrees):
    names = {}
    for block in re.findall(r"^```python no-run\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)
    expected = names["module"](torch.ones(5, 4)).detach().numpy()
    np.testing.assert_allclose(names["y"].numpy(), expected, 1e-5)
    agrees(torch.special.ndtr, torch.randn(3, 4), tolerance=1e-6)
    assert "aten.special_ndtr.default" in without
