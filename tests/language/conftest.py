"""Running small programs in every mode: what the tests of the language share."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # programs, table

from programs import MODES


@pytest.fixture(params=MODES)
def run(request):
    """`run(program, "main", *args)`: the result of a call, by the interpreter and by the compiled program."""
    return MODES[request.param]
