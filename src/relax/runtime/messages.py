"""The messages of matching: of values with annotations, and of a kernel's arguments with its parameters.

Several parts of the package match, each where it must: bytecode and the interpreter in Python (`match`), compiled
functions and libraries in machine code (`relax.codegen.support.cells.matching`). Arguments of kernels are matched by
the steps of `relax.tir.signature`, in the interpreter and in machine code. Their messages are these. A field is a value
for Python, a conversion of printf for a kernel, a function that writes it for a library.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

from .limits import DIMENSION_LIMIT, SIZE_RANGE
from .records import dataclass


@dataclass(frozen=True)
class Message:
    """The kind of an error, and its text with names of fields in braces."""

    kind: type[Exception]
    text: str

    def __call__(self, **fields: Any) -> Exception:
        """The error."""
        return self.kind(self.fill(**fields))

    def fill(self, **fields: Any) -> str:
        """The text with values for its fields; of a list, one after the other."""
        shown = {name: "".join(map(str, _fragments(value))) for name, value in fields.items()}
        return self.text.format(**shown)

    def printf(self, **fields: str) -> tuple[str, str]:
        """The name of the kind, and the text as a format of printf, for machine code."""
        return self.kind.__name__, self.fill(**fields)

    def parts(self) -> Iterator[tuple[str, str | None]]:
        """Pieces of the text, each with the name of the field behind it, if there is one."""
        for text, field, _, _ in string.Formatter().parse(self.text):
            yield text, field


def _fragments(field: Any) -> list[Any]:
    return cast("list[Any]", field) if isinstance(field, list) else [field]


KIND: Final = Message(TypeError, "{context}: expected {expected}, found {found}")
"""Another kind of value: ``main: parameter x: expected a tensor, found the int 3``."""
DEVICE: Final = Message(ValueError, "{context}: expected a tensor on {expected}, found one on {found}")
IS: Final = Message(ValueError, "{context}: {place} is {found}, expected {expected}")
"""A number or a shape: ``main: parameter x: dimension 0 is 3, expected 4``. Another place is ``the value``."""
NO_SIZE: Final = Message(ValueError, f"{{context}}: {{place}} is {{found}}, expected a size, {SIZE_RANGE}")

# Values and annotations.
RANK: Final = Message(ValueError, "{context}: expected rank {expected}, found rank {found} (shape {shape})")
DTYPE: Final = Message(TypeError, "{context}: expected dtype {expected}, found {found}")
DIMENSIONS: Final = Message(
    ValueError, "{context}: expected a shape of {expected} dimensions, found {found} (shape {shape})"
)
SCALAR: Final = Message(TypeError, "{context}: expected {article} {expected} value, found {found}")
NO_TUPLE: Final = Message(TypeError, "{context}: expected a tuple of {expected}, found {found}")
LENGTH: Final = Message(ValueError, NO_TUPLE.text)
NO_SHAPE: Final = Message(ValueError, "a shape cannot have {what}, as in {shape}")
NEGATIVE: Final = "a negative dimension"
TOO_LARGE: Final = f"a dimension of 2**{DIMENSION_LIMIT.bit_length() - 1} or more"

# Arguments and parameters of kernels.
ARGUMENT_DTYPE: Final = Message(TypeError, "{context}: dtype is {found}, expected {expected}")
ARGUMENT_RANK: Final = Message(ValueError, "{context}: has {found} dimensions, expected {expected}")
NO_NUMBER: Final = Message(ValueError, "{context}: {found} does not fit {dtype}")
TOO_NARROW: Final = Message(ValueError, "{context}: {place} is {found}, which does not fit {variable}'s dtype {dtype}")
NOT_COMPACT: Final = Message(
    ValueError, "{context}: is not compact: the stride of {place} is {found}, expected {expected}"
)
PACKED: Final = Message(ValueError, "{context}: its elements are packed, expected one in a byte")
NOT_ALIGNED: Final = Message(ValueError, "{context}: its data is not aligned to {expected} bytes")
NO_ROOM: Final = Message(ValueError, "{context}: its dimensions that are not 0 make more than 2**62 bytes")


def counted_arguments(count: int, names: Sequence[str] | None = None) -> str:
    """A number of arguments, with the names of their parameters: what `KIND` expects of a call."""
    listed = "" if names is None else f" ({', '.join(names)})"
    return f"{count} {'argument' if count == 1 else 'arguments'}{listed}"
