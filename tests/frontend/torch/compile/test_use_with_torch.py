"""The examples of docs/use-with-torch.md run, one after the other."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

pytest.importorskip("torch")

PAGE = Path(__file__).parents[4] / "docs" / "use-with-torch.md"


def test_the_examples_run():
    names = {}
    blocks = re.findall(r"^```python no-run\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        for block in blocks:
            exec(compile(block, str(PAGE), "exec"), names)
    assert names["losses"][-1] < names["losses"][0]
