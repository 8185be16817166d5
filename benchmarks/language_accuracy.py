"""Accuracy of a language model's products with rounded activations, against the same weights in float32.

    python benchmarks/language_accuracy.py model.gguf [text file]

Prints the mean and the greatest Kullback-Leibler divergence of the distributions of the next token, the share of tokens
for which both find the same one likeliest, and the perplexity of the text by both. Without a file, the text is the
project's license.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from relax import llm

Array = np.ndarray[Any, Any]
TOKENS = 900


def log_probabilities(logits: Array) -> Array:
    """Logarithms of the probabilities, float64."""
    shifted = logits.astype(np.float64) - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def perplexity(logs: Array, tokens: list[int]) -> float:
    """Perplexity of a text by the distributions behind its tokens."""
    return float(np.exp(-logs[np.arange(len(tokens) - 1), tokens[1:]].mean()))


def main() -> None:
    """Measure the model that the command line names."""
    parser = argparse.ArgumentParser(description="Accuracy of rounded activations in a language model.")
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path, nargs="?", default=Path(__file__).parents[1] / "LICENSE")
    options = parser.parse_args()
    text = options.text.read_text(encoding="utf-8")
    rounded = llm.load(options.model, context=1024)
    tokens = rounded.tokenizer.encode(text)[:TOKENS]
    found = log_probabilities(rounded.logits(tokens))
    del rounded
    exact = llm.load(options.model, context=1024, activations="float32", cache_dtype="float32")
    wanted = log_probabilities(exact.logits(tokens))
    divergence = (np.exp(wanted) * (wanted - found)).sum(-1)
    same = float((found.argmax(-1) == wanted.argmax(-1)).mean())
    say = Console().print
    say(f"{len(tokens)} tokens of {options.text.name}, {options.model.name}")
    say(f"divergence: mean {divergence.mean():.4f}, greatest {divergence.max():.4f}; same likeliest token {same:.1%}")
    say(f"perplexity: {perplexity(found, tokens):.3f}, in float32 {perplexity(wanted, tokens):.3f}")


if __name__ == "__main__":
    main()
