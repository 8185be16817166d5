"""The tokenizer's part of a GGUF file's metadata, unchanged: nothing is tokenized here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ...runtime.records import dataclass
from ..tensor_files import BROKEN, Array, failure

_PREFIX: Final = "tokenizer.ggml."
_SPECIAL: Final = "_token_id"


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """Vocabulary and settings of a tokenizer; None for what the file does not have.

    `model` is the algorithm ("gpt2", "llama", "bert"), `pre` names the splitting before it. `scores` and `types`
    belong to `tokens` by index, their lengths are not compared; `merges` are pairs separated by a blank. `special`
    has the numbers of special tokens by their role: "bos", "eos", "unknown", "padding". `chat_template` is a template
    in Jinja's syntax, which comes from the file's author.
    """

    model: str | None
    pre: str | None
    tokens: Sequence[str] | None
    scores: Array | None
    types: Array | None
    merges: Sequence[str] | None
    special: Mapping[str, int]
    chat_template: str | None

    @classmethod
    def of(cls, metadata: Mapping[str, Any], value_types: Mapping[str, str], path: str) -> Tokenizer:
        """Return the tokenizer that metadata describes. Raises DiagnosticError if a value has another type."""

        def value(key: str, *kinds: str) -> Any:
            if key not in metadata:
                return None
            if value_types[key] not in kinds:
                note = f"found {value_types[key]}, expected {' or '.join(kinds)}"
                raise failure(BROKEN, path, f"the metadata value {key} has a wrong type", note)
            return metadata[key]

        integers = ("uint32", "int32", "uint64", "int64", "uint16", "int16", "uint8", "int8")
        special = {
            key.removeprefix(_PREFIX).removesuffix(_SPECIAL): value(key, *integers)
            for key in metadata
            if key.startswith(_PREFIX) and key.endswith(_SPECIAL)
        }
        return cls(
            model=value(f"{_PREFIX}model", "string"),
            pre=value(f"{_PREFIX}pre", "string"),
            tokens=value(f"{_PREFIX}tokens", "array of string"),
            scores=value(f"{_PREFIX}scores", "array of float32"),
            types=value(f"{_PREFIX}token_type", "array of int32", "array of uint32"),
            merges=value(f"{_PREFIX}merges", "array of string"),
            special=special,
            chat_template=value("tokenizer.chat_template", "string"),
        )
