"""Questions answered from notes: vectors of sentences find the note, a language model writes the answer.

Run: python examples/llm/retrieval.py all-MiniLM-L6-v2 model.gguf "Who feeds the cat?"
"""

import sys

import numpy as np

from relax import llm

NOTES = (
    "The cat is called Ada and is fed by Ben at seven in the morning.",
    "The bins are emptied on Tuesdays; paper goes into the blue one.",
    "The router stands behind the bookshelf, and its password is on its back.",
    "Plants on the balcony need water every second day in summer.",
)


def nearest(vectors: np.ndarray, question: np.ndarray) -> int:
    """The note whose vector is nearest to the question's."""
    return int((vectors @ question).argmax())


def main() -> None:
    embedder, path, question = llm.load_embedding(sys.argv[1]), sys.argv[2], sys.argv[3]
    note = NOTES[nearest(embedder.embed(NOTES), embedder.embed(question))]
    print(f"note: {note}")
    model = llm.load(path, context=1024)
    content = f"Answer in one sentence from this note: {note}\nQuestion: {question}"
    print(model.chat([{"role": "user", "content": content}], max_new_tokens=60))


if __name__ == "__main__":
    main()
