"""The examples of docs/use-other-libraries.md that need torch run, one after the other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("torch")

PAGE = Path(__file__).parents[2] / "docs" / "use-other-libraries.md"


def test_the_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    blocks = re.findall(r"^```python no-run\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    for number, block in enumerate(blocks):
        file = tmp_path / f"block_{number}.py"  # R.function reads the source
        file.write_text(block, "utf-8")
        exec(compile(block, str(file), "exec"), names)
    assert "partition_for_torch" in names
    assert "unique" in names
