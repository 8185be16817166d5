"""Vocabularies: as files have them (`RawVocabulary`), and as a Tokenizer uses them (`Vocabulary`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from ..frontend.tensor_files import BROKEN, UNSUPPORTED, failure
from ..ir import DiagnosticError
from ..runtime.records import dataclass
from .pieces import Pieces

Array: TypeAlias = "np.ndarray[Any, Any]"

NORMAL: Final = 1
UNKNOWN: Final = 2
CONTROL: Final = 3
USER_DEFINED: Final = 4
UNUSED: Final = 5
BYTE: Final = 6
"""Types of tokens, numbered as SentencePiece and GGUF do."""

END_OF_TURN: Final = frozenset(
    {
        "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<turn|>", "<|endoftext|>", "<|end_of_text|>",
        "<|eom_id|>", "<EOT>", "_<EOT>", "<｜end▁of▁sentence｜>", "<end_of_utterance>", "<|return|>", "<|call|>",
        "<|eot|>", "<|eom|>",
    }
)  # fmt: skip
"""Texts of tokens that end an answer in some family of models, whatever else a file says of them."""

TEMPLATE_NAMES: Final = {
    "bos": "bos_token", "eos": "eos_token", "unknown": "unk_token", "padding": "pad_token", "separator": "sep_token",
    "cls": "cls_token", "mask": "mask_token",
}  # fmt: skip
"""Names that chat templates have for tokens, by their roles."""


@dataclass(frozen=True, slots=True)
class RawVocabulary:
    """Tokens of a file and its settings, checked: `types` and `scores` have an element for each token.

    `algorithm` is "gpt2", "llama", "t5" or "bert", as in GGUF files; `roles` has ids of tokens by their roles, "bos",
    "eos", "unknown" and so on.
    """

    path: str
    algorithm: str
    pre: str
    tokens: list[str]
    types: Array
    scores: Array
    merges: Sequence[str] | None
    roles: Mapping[str, int]
    templates: Mapping[str, str]
    add_space_prefix: bool
    add_bos: bool | None = None
    add_eos: bool | None = None
    add_sep: bool | None = None
    remove_extra_whitespaces: bool = False
    charsmap: bytes = b""
    """Compiled normalizer of SentencePiece."""
    lowercase: bool | None = None

    def of_type(self, *types: int) -> list[int]:
        """Return the ids of the tokens of some types."""
        return np.flatnonzero(np.isin(self.types, types)).tolist()

    def broken(self, message: str, *notes: str) -> DiagnosticError:
        """Return the error of a vocabulary that contradicts itself."""
        return failure(BROKEN, self.path, message, *notes)

    def unsupported(self, message: str, *notes: str) -> DiagnosticError:
        """Return the error of a vocabulary that is not known."""
        return failure(UNSUPPORTED, self.path, message, *notes)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Tokens, the algorithm that splits texts into them, and the tokens with a role.

    `core` is a ``tokenizers.Tokenizer``; `renumbered` has ids of tokens that it knows by other ones. `special` has the
    texts of control tokens by their ids, `ends` the ids that end an answer, `named` texts for the variables of chat
    templates. `prefix_space`: texts begin with a blank that is not part of them, at their "start" or after each special
    token, too ("each").
    """

    core: Any
    pieces: Pieces
    special: Mapping[int, str]
    bos: int | None
    eos: int | None
    ends: frozenset[int]
    named: Mapping[str, str]
    chat_templates: Mapping[str, str]
    prefix_space: str = ""
    normalize: Callable[[str], str] | None = None
    """Change of texts before `core` gets them."""
    renumbered: Mapping[int, int] | None = None
