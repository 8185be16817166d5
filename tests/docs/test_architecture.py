"""docs/architecture.md names files and rooms that there are, and all rooms that there are."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
SOURCE = ROOT / "src" / "relax"


def test_the_files_it_names_exist():
    paths = re.findall(r"`([\w/]+/(?:\w+\.py)?)`", PAGE)
    assert len(paths) > 20
    within = {"parser/": "script", "printer/": "script", "transform/": "tir"}
    missing = [p for p in paths if not any((base / within.get(p, "") / p).exists() for base in (SOURCE, ROOT))]
    assert missing == []


def test_every_room_is_in_the_table():
    table = PAGE.split("## The rooms")[1].split("## ")[0]
    named = set(re.findall(r"`(\w+)(?:\.py)?`", table))
    rooms = {p.stem for p in SOURCE.iterdir() if (p.is_dir() or p.suffix == ".py") and not p.name.startswith("_")}
    assert rooms - named == set()
