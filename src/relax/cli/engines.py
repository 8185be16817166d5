"""The two sides of a comparison: a program or model, and its engine.

interpreter             the definition of the language
interpreter:graph       the interpreter, after the passes of a pipeline
compiled                machine code
compiled:PIPELINE       machine code of another pipeline
onnxruntime             ONNX Runtime, for .onnx models
other.py                another program, compiled
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from ..interpreter import Interpreter
from ..ir import IRModule
from ..optimize.pipeline import get_pipeline
from ..runtime import VirtualMachine
from ..runtime.records import dataclass
from .failures import UNSUITABLE, failure
from .models import READERS, check_program, compile_program, executable_of, read_model, read_program
from .onnx_runtime import NAME, OnnxRuntime

INTERPRETER: Final = "interpreter"
COMPILED: Final = "compiled"
ENGINES: Final = (INTERPRETER, COMPILED, NAME)

Call = Callable[..., Any]


@dataclass(frozen=True)
class Side:
    """A model and an engine that runs it."""

    name: str
    """Name of the side in messages."""
    path: Path
    engine: str
    pipeline: str | None = None

    def program(self, options: argparse.Namespace) -> IRModule | None:
        """Program of the side; None for an executable, or a model that ONNX Runtime reads."""
        if self.engine == NAME or self.path.suffix == ".relax":
            return None
        return read_program(self.path, options)

    def function(self, mod: IRModule | None, entry: str, options: argparse.Namespace) -> Call:
        """Entry point of a program, ready to be called."""
        if self.engine == NAME:
            return OnnxRuntime(self.path, dict(options.value))
        if mod is None:
            return VirtualMachine(executable_of(read_model(self.path, options), options))[entry]
        if self.engine == INTERPRETER:
            check_program(mod)
            return Interpreter(mod if self.pipeline is None else get_pipeline(self.pipeline)(mod))[entry]
        chosen = argparse.Namespace(**vars(options))
        chosen.pipeline = self.pipeline or options.pipeline
        return VirtualMachine(compile_program(mod, chosen))[entry]


def side_of(word: str, model: Path) -> Side:
    """Parse a side of the command line: an engine for the model, or another model."""
    engine, colon, pipeline = word.partition(":")
    if engine in ENGINES and not (engine == NAME and colon):
        return Side(word, model, engine, pipeline if colon else None)
    path = Path(word)
    if path.suffix in READERS or path.suffix == ".relax":
        return Side(word, path, COMPILED)
    hint = f"a side is one of {', '.join(ENGINES)}, with a pipeline (compiled:graph), or a model"
    raise failure(UNSUITABLE, f"there is no engine {word!r}", hint=hint)
