"""docs/relay.md names tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_tests_of_the_table_exist():
    rows = re.findall(r"`(relay/[\w/]+\.py)::(\w+)`", (ROOT / "docs" / "relay.md").read_text())
    assert len(rows) > 15
    for path, name in rows:
        assert f"\ndef {name}(" in (ROOT / "tests" / path).read_text(), f"{path}::{name}"
