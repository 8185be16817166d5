"""The examples of docs/train-a-torch-model.md run, one after the other."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "train-a-torch-model.md"


def test_the_examples_run():
    names = {}
    for block in re.findall(r"^```python no-run\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)
    assert names["correct"].float().mean() > 0.9
