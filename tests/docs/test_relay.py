"""docs/relay.md and docs/relay-passes.md name tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("document", ["relay.md", "relay-passes.md"])
def test_the_tests_of_the_table_exist(document):
    rows = re.findall(r"`(relay/[\w/]+\.py)::(\w+)`", (ROOT / "docs" / document).read_text())
    assert len(rows) > 15
    for path, name in rows:
        assert f"\ndef {name}(" in (ROOT / "tests" / path).read_text(), f"{path}::{name}"
