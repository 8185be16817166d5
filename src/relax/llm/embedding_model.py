"""Embedding model: texts to vectors whose products say how much the texts mean the same.

m = relax.llm.load("all-MiniLM-L6-v2")
a, b = m.embed(["A dog plays.", "A puppy is playing."])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, final

import numpy as np
import tvm_ffi
from numpy.typing import NDArray

from ..ir import IRModule
from ..runtime import VirtualMachine
from ..runtime.devices import cpu
from ..runtime.executable import Executable

Array: TypeAlias = "NDArray[Any]"

_TOGETHER = 32
"""Texts that are encoded together: of about the same length, since shorter ones are filled up."""


class Encodes(Protocol):
    """The part of a tokenizer that embedding needs."""

    def encode(self, text: str) -> Sequence[int]: ...


@final
class EmbeddingModel:
    """Model that turns texts into vectors. `pooling` is "mean" of all tokens, or "cls", the first one."""

    def __init__(
        self, mod: IRModule, executable: Executable, weights: Sequence[tvm_ffi.Tensor], tokenizer: Encodes,
        *, pooling: str, normalises: bool, longest: int,
    ) -> None:  # fmt: skip
        self.mod = mod
        """The program: `encode`, from tokens and lengths to activations."""
        self.tokenizer, self.longest = tokenizer, longest
        self._weights, self._pooling, self._normalises = tuple(weights), pooling, normalises
        self._encode: Any = VirtualMachine(executable, cpu())["encode"]

    def embed(self, texts: str | Sequence[str]) -> Array:
        """Return the vectors (texts, hidden), float32, of texts; that of one text is (hidden,).

        Texts are cut behind `longest` tokens.
        """
        if isinstance(texts, str):
            return self.embed([texts])[0]
        rows = [self._cut(list(self.tokenizer.encode(text))) for text in texts]
        order = sorted(range(len(rows)), key=lambda index: len(rows[index]))
        results: dict[int, Array] = {}
        for at in range(0, len(order), _TOGETHER):
            batch = order[at : at + _TOGETHER]
            for index, vector in zip(batch, self._pooled([rows[index] for index in batch]), strict=True):
                results[index] = vector
        return np.stack([results[index] for index in range(len(rows))]) if rows else np.zeros((0, 0), np.float32)

    def _cut(self, tokens: list[int]) -> list[int]:
        """Return tokens that fit; the last one, which ends the text, stays."""
        return tokens if len(tokens) <= self.longest else [*tokens[: self.longest - 1], tokens[-1]]

    def _pooled(self, rows: Sequence[Sequence[int]]) -> Array:
        lengths = np.array([len(row) for row in rows], np.int32)
        count = max(int(lengths.max()), 1)
        tokens = np.zeros((len(rows), count), np.int32)
        for index, row in enumerate(rows):
            tokens[index, : len(row)] = row
        states: Array = np.from_dlpack(self._encode(tokens, lengths, *self._weights))
        if self._pooling == "cls":
            vectors = states[:, 0]
        else:
            inside = (np.arange(count)[None] < lengths[:, None])[..., None]
            vectors = np.where(inside, states, 0).sum(1) / np.maximum(lengths, 1)[:, None]
        if self._normalises:
            vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return vectors.astype(np.float32)


__all__ = ["EmbeddingModel"]
