"""docs/rewrite-a-kernel.md names passes and questions that there are, and as left out only what there is not."""

from __future__ import annotations

import re
from pathlib import Path

from relax import tir

PAGE = (Path(__file__).parents[3] / "docs" / "rewrite-a-kernel.md").read_text(encoding="utf-8")


def names(heading):
    """The names in the first column of the table under a heading."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return [name for row in rows for name in re.findall(r"`(\w+)", row)]


def test_the_passes_there_are():
    assert len(names("Passes")) > 25
    assert [name for name in names("Passes") if not hasattr(tir.transform, name)] == []


def test_the_questions_there_are():
    assert set(names("Questions")) | {"CallEffectKind"} == set(tir.analysis.__all__)


def test_what_is_left_out_is_not_there():
    left_out = names("Left out")
    assert len(left_out) > 25
    assert [n for n in left_out if hasattr(tir.transform, n) or hasattr(tir.analysis, n)] == []
