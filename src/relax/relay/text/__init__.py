"""Relay's text format, ``#[version = "0.0.5"]``: lexer, parser, printer."""

from __future__ import annotations

from .parser import fromtext, parse, parse_expr, parse_type
from .printer import astext

__all__ = ["astext", "fromtext", "parse", "parse_expr", "parse_type"]
