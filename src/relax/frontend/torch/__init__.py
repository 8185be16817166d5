"""Programs of torch: `from_exported_program`, `from_fx`, `relax_dynamo`, and `converter` for operators of one's own.

The package ``torch`` is needed to export a module, and is not imported here.
"""

from __future__ import annotations

from ...ir.tvm_names import answer_missing
from . import operators as operators  # which registers the converters
from .emitter import Emitter
from .fx import from_fx, relax_dynamo
from .importer import from_exported_program
from .registry import converter

__all__ = ["Emitter", "converter", "from_exported_program", "from_fx", "relax_dynamo"]

answer_missing(__name__)
