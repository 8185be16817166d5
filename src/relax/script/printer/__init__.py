"""Printer from IR to TVMScript text."""

from __future__ import annotations

from .config import PrinterConfig
from .printer import ScriptPrinter, print_script

__all__ = ["PrinterConfig", "ScriptPrinter", "print_script"]
