"""Answer all rows of a data set on the machines of a Ray cluster.

    python examples/llm/answer_a_dataset.py model.gguf questions.jsonl answers

Rows have a text "question"; the answers are written as Parquet files. Needs `pip install relax[ray]`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import ray

import relax


class Answers:
    """A model and its engine, which a worker of Ray's keeps for all of its batches."""

    def __init__(self, path: str) -> None:
        self.engine = relax.llm.Engine(relax.llm.load(path, max_sequences=16, context=1024, cache_tokens=16 * 1024))

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return a batch with answers: its questions are answered together."""
        requests = [relax.llm.Request(question, max_new_tokens=32) for question in batch["question"].tolist()]
        answers = [self.engine.add(request) for request in requests]
        return {**batch, "answer": [answer.result().text for answer in answers]}


def main(model: str, questions: str, folder: str, workers: int = 2) -> None:
    """Answer the questions of a file of JSON lines."""
    rows = ray.data.read_json(questions, lines=True)
    answered = rows.map_batches(
        Answers, fn_constructor_args=(str(Path(model).resolve()),), batch_size=64,
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=workers), num_cpus=1,
    )  # fmt: skip
    answered.write_parquet(str(Path(folder).resolve()))


if __name__ == "__main__":
    main(*sys.argv[1:4])
