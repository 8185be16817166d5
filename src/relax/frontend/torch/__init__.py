"""Programs of torch: `from_exported_program`, `build_exported`, `from_fx`, `relax_backend`, and `converter`.

The package ``torch`` is needed to export a module, and is not imported here.
"""

from __future__ import annotations

from ...ir.tvm_names import answer_missing
from . import operators as operators  # which registers the converters
from .compile import BackendOptions, FallbackWarning, register, relax_backend, wait_full
from .emitter import Emitter
from .fx import from_fx, relax_dynamo
from .importer import from_exported_program
from .recurrent import open_lengths
from .registry import converter
from .training import Training, trainable
from .trees import BuiltProgram, build_exported

__all__ = [
    "BackendOptions", "BuiltProgram", "Emitter", "FallbackWarning", "Training", "build_exported", "converter",
    "from_exported_program", "from_fx", "open_lengths", "relax_backend", "relax_dynamo", "trainable",
    "wait_full",
]  # fmt: skip

register()

answer_missing(__name__)
