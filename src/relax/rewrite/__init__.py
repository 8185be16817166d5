"""Rewriting of Relax programs: `visitor` has the walkers and mutators, under TVM's names."""

from __future__ import annotations
