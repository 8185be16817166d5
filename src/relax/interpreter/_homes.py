"""The module of each name of this package. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    "Interpreter": ".evaluator",
    "interpret": ".interpret",
}
