"""Names whose code stands in a higher room: entered when that is imported, which the first use does."""

from __future__ import annotations

import subprocess
import sys

import pytest

from relax.ir import provided


def test_the_first_use_imports_the_room():
    code = (
        "import sys\nfrom relax import tir\nfrom relax.ir.provided import is_provided\n"
        "print(is_provided('explain'), 'relax.explanation' in sys.modules)\n"
        "explain = tir.explain\nprint(is_provided('explain'), explain is sys.modules['relax.explanation'].explain)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["False False", "True True"]


def test_a_room_that_is_just_being_imported_has_provided_nothing_yet(monkeypatch):
    monkeypatch.setattr(provided, "_table", {})
    monkeypatch.setattr(provided, "_PROVIDERS", {"printer": "relax.ir"})  # which provides no printer
    assert not provided.is_provided("printer")
    with pytest.raises(ImportError, match=r"relax\.ir has not provided printer yet"):
        provided.provided("printer")
    provided.provide("printer", 1)
    assert provided.provided("printer") == 1
