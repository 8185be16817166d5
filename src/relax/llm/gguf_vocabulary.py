"""Vocabularies of GGUF files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import numpy as np

from ..frontend.gguf import GGUFFile, StringArray
from ..frontend.tensor_files import BROKEN, UNSUPPORTED, failure
from ..runtime.collection import rarely_collected
from .algorithms import assemble
from .vocabulary import NORMAL, Array, RawVocabulary, Vocabulary

PREFIX: Final = "tokenizer.ggml."
TEMPLATE: Final = "tokenizer.chat_template"
_SPELLINGS: Final = {"seperator": "separator"}
"""Roles that keys spell in another way."""
_SPACED: Final = frozenset({"llama", "t5"})
"""Algorithms that put a blank in front of a text unless the file says otherwise."""


def vocabulary_of(file: GGUFFile) -> Vocabulary:
    """Return the vocabulary of a GGUF file.

    Raises DiagnosticError for a file without one, with keys of wrong types or lengths (E6011), or with a tokenizer
    that is not known (E6012), and ImportError without the package ``tokenizers``.
    """
    with rarely_collected():
        return assemble(raw_vocabulary(file))


def raw_vocabulary(file: GGUFFile) -> RawVocabulary:
    """Read and check the tokenizer's metadata. Raises DiagnosticError (E6011, E6012) where it is wrong or missing."""
    path, data, metadata = str(file.paths[0]), file.tokenizer, file.metadata
    if data.model is None or data.tokens is None:
        raise failure(UNSUPPORTED, path, "the file has no tokenizer", f"expected {PREFIX}model and {PREFIX}tokens")
    tokens = list(data.tokens)
    count = len(tokens)
    for name, array in (("token_type", data.types), ("scores", data.scores)):
        if array is not None and len(array) != count:
            note = f"{PREFIX}{name} has {len(array)}, {PREFIX}tokens has {count}"
            raise failure(BROKEN, path, "the arrays of the vocabulary have different lengths", note)
    roles = {_SPELLINGS.get(role, role): index for role, index in data.special.items()}
    for role, index in roles.items():
        if not 0 <= index < count:
            note = f"the role {role} has the id {index}, the vocabulary has {count} tokens"
            raise failure(BROKEN, path, "the id of a special token is outside of the vocabulary", note)
    flags = {name: _flag(metadata, PREFIX + name, path) for name in _FLAGS}
    prefix = flags["add_space_prefix"]
    return RawVocabulary(
        path=path,
        algorithm=data.model,
        pre=data.pre or "default",
        tokens=tokens,
        types=np.full(count, NORMAL) if data.types is None else np.asarray(data.types),
        scores=np.zeros(count, np.float32) if data.scores is None else np.asarray(data.scores),
        merges=data.merges,
        roles=roles,
        templates=_templates(metadata, data.chat_template, path),
        add_space_prefix=data.model in _SPACED if prefix is None else prefix,
        add_bos=flags["add_bos_token"],
        add_eos=flags["add_eos_token"],
        add_sep=flags["add_sep_token"],
        remove_extra_whitespaces=bool(flags["remove_extra_whitespaces"]),
        charsmap=_charsmap(metadata, path),
        lowercase=flags["normalizer.lowercase"],
    )


_FLAGS: Final = (
    "add_space_prefix", "add_bos_token", "add_eos_token", "add_sep_token", "remove_extra_whitespaces",
    "normalizer.lowercase",
)  # fmt: skip


def _flag(metadata: Mapping[str, Any], key: str, path: str) -> bool | None:
    """Value of a key that is true or false, None if the file has none."""
    value = metadata.get(key)
    if value is not None and not isinstance(value, bool):
        raise failure(BROKEN, path, f"the metadata value {key} has a wrong type", f"found {value!r}, expected bool")
    return value


def _charsmap(metadata: Mapping[str, Any], path: str) -> bytes:
    """Bytes of the replacements of characters before a text is split; none if the file has none."""
    value = metadata.get(f"{PREFIX}precompiled_charsmap")
    if value is None:
        return b""
    if not isinstance(value, np.ndarray) or cast("Array", value).dtype not in (np.uint8, np.int8):
        key = f"{PREFIX}precompiled_charsmap"
        raise failure(BROKEN, path, f"the metadata value {key} has a wrong type", "expected array of uint8")
    return cast("Array", value).tobytes()


def _templates(metadata: Mapping[str, Any], default: str | None, path: str) -> dict[str, str]:
    """Return the chat templates by name: the default one, and those for other purposes, as "tool_use"."""
    templates = {} if default is None else {"default": default}
    names = metadata.get("tokenizer.chat_templates")
    for name in names if isinstance(names, StringArray) else ():
        template = metadata.get(f"{TEMPLATE}.{name}")
        if not isinstance(template, str):
            raise failure(BROKEN, path, f"the file has no chat template {name!r}, which tokenizer.chat_templates names")
        templates[name] = template
    return templates
