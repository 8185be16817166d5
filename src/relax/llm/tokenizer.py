"""Tokenizers of language models, from GGUF files and from folders of Hugging Face: `tokenizer_of`."""

from __future__ import annotations

import codecs
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, final

from ..frontend import gguf
from ..runtime.forks import hold_at_fork
from . import folder, gguf_vocabulary
from .chat_template import render
from .vocabulary import Vocabulary

_lock: Final = threading.Lock()
"""Held while a text is encoded: whether it may name special tokens is a setting of the package's object."""
hold_at_fork(_lock)


def tokenizer_of(source: str | os.PathLike[str] | gguf.GGUFFile) -> Tokenizer:
    """Return the tokenizer of a GGUF file, given by its path or opened, or of a folder of Hugging Face.

    Raises DiagnosticError for a tokenizer that is broken (E6011), not known (E6012) or missing (E6012, E6013), OSError
    for files that cannot be opened, and ImportError without the package ``tokenizers``.
    """
    if isinstance(source, gguf.GGUFFile):
        return Tokenizer(gguf_vocabulary.vocabulary_of(source))
    path = Path(source)
    if path.is_dir():
        return Tokenizer(folder.vocabulary_of(path))
    return Tokenizer(gguf_vocabulary.vocabulary_of(gguf.read(path)))


@final
class Tokenizer:
    """Conversion between texts and ids of tokens, and between conversations and texts."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._core: Any = vocabulary.core

    def copy(self) -> Tokenizer:
        """Return a tokenizer of the same vocabulary, which is not copied."""
        return Tokenizer(self._vocabulary)

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens; ids are smaller."""
        return len(self._vocabulary.pieces)

    @property
    def bos(self) -> int | None:
        """Id of the token that begins a text, or None."""
        return self._vocabulary.bos

    @property
    def eos(self) -> int | None:
        """Id of the token that ends a text, or None."""
        return self._vocabulary.eos

    @property
    def eot(self) -> frozenset[int]:
        """Ids of all tokens that end an answer: `eos`, and those that end a turn of a conversation."""
        return self._vocabulary.ends

    @property
    def special(self) -> Mapping[int, str]:
        """Texts of the control tokens by their ids."""
        return self._vocabulary.special

    @property
    def chat_template(self) -> str | None:
        """Template of conversations in Jinja's syntax, or None."""
        return self._vocabulary.chat_templates.get("default")

    @property
    def tool_template(self) -> str | None:
        """Template of conversations with tools, `chat_template` for most models."""
        return self._vocabulary.chat_templates.get("tool_use", self.chat_template)

    def token(self, index: int) -> bytes:
        """Bytes of the text that a token stands for; they need not be whole characters.

        Raises IndexError for an id outside of the vocabulary.
        """
        return self._vocabulary.pieces[index]

    def encode(self, text: str, add_special: bool = True, parse_special: bool = False) -> list[int]:
        """Split a text into tokens, and return their ids.

        `add_special` adds the tokens that the model expects around a text, as `bos` before it; `parse_special` reads
        the texts of control tokens in `text` as these tokens, as the text of a chat template needs. Texts of users
        should be encoded without. Surrogates that are no pairs become U+FFFD. Characters for which a vocabulary has
        neither a token nor bytes become its unknown token, or nothing if it has none.
        """
        if not text.isascii():
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        if self._vocabulary.normalize is not None:
            text = self._vocabulary.normalize(text)
        with _lock:
            self._core.encode_special_tokens = not parse_special
            ids: list[int] = self._core.encode(text, add_special_tokens=add_special).ids
        renumbered = self._vocabulary.renumbered
        return [renumbered.get(index, index) for index in ids] if renumbered else ids

    def decode(self, ids: Iterable[int], skip_special: bool = False) -> str:
        """Return the text of tokens. Bytes that are no UTF-8 become U+FFFD; `skip_special` leaves out control tokens.

        Raises IndexError for an id outside of the vocabulary.
        """
        convert = DecodeStream(self._vocabulary, skip_special=skip_special).convert
        return b"".join(map(convert, ids)).decode("utf-8", "replace")

    def decode_stream(
        self, prompt: Sequence[int] = (), skip_special: bool = False, keeps_blank: bool = False
    ) -> DecodeStream:
        """Return a decoder of ids that come one by one, of which the text follows that of the tokens `prompt`.

        `keeps_blank` returns the bytes of all tokens, with a blank that the tokenizer would put in front of a text.
        """
        return DecodeStream(self._vocabulary, prompt, skip_special, keeps_blank)

    def apply_chat_template(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Any] | None = None,
        add_generation_prompt: bool = True,
        **variables: Any,
    ) -> str:
        """Return a conversation as the text that the model continues.

        A message is a mapping with "role" and "content". Encode the text with ``add_special=False`` and
        ``parse_special=True``: the template has written all special tokens. `tools` are descriptions of functions as
        JSON schemas; `variables` are further ones of the template. Raises ValueError for a tokenizer without a
        template, and with the line of the template for what it cannot compute or refuses.
        """
        templates = self._vocabulary.chat_templates
        template = templates.get("tool_use" if tools and "tool_use" in templates else "default")
        if template is None:
            raise ValueError("the tokenizer has no chat template: give the text of a prompt instead of messages")
        arguments = {
            "messages": messages, "tools": tools, "documents": None, "add_generation_prompt": add_generation_prompt
        }  # fmt: skip
        return render(template, {**self._vocabulary.named, **arguments, **variables})


@final
class DecodeStream:
    """Decoder of ids that come one by one: it returns the characters that are complete.

    The concatenation of all returned texts is that of `Tokenizer.decode`. Made by `Tokenizer.decode_stream`.
    """

    def __init__(
        self, vocabulary: Vocabulary, prompt: Sequence[int] = (), skip_special: bool = False, keeps_blank: bool = False
    ) -> None:
        self._pieces, self._special, self._skip = vocabulary.pieces, vocabulary.special, skip_special
        self._characters = codecs.getincrementaldecoder("utf-8")("replace")
        prefix = "" if keeps_blank else vocabulary.prefix_space
        self._each = prefix == "each"
        self._strip = bool(prefix) and not prompt
        if self._each and prompt and prompt[-1] in self._special:
            self._strip = True

    def convert(self, index: int) -> bytes:
        """Return the bytes of the next token, without a blank that the tokenizer had put in front of the text.

        Raises IndexError for an id outside of the vocabulary.
        """
        data = self._pieces[index]
        if index in self._special:
            self._strip = self._strip or self._each
            return b"" if self._skip else data
        if self._strip and data:
            self._strip = False
            return data.removeprefix(b" ")
        return data

    def step(self, index: int) -> str:
        """Return the text that a token completes, "" if none. Raises IndexError for an id outside of the vocabulary."""
        return self._characters.decode(self.convert(index))

    def finish(self) -> str:
        """Flush the decoder; return U+FFFD if the last character is incomplete, or an empty text."""
        return self._characters.decode(b"", True)
