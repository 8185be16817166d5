"""A chat with a language model, in the terminal.

Run: python examples/llm/chat.py model.gguf
"""

import sys

from relax import llm


def main() -> None:
    model = llm.load(sys.argv[1], progress=lambda doing, part: print(f"{doing} {part:.0%}", end="\r"))
    messages = [{"role": "system", "content": "You are a helpful assistant who answers briefly."}]
    while question := input("> "):
        messages.append({"role": "user", "content": question})
        answer = ""
        for piece in model.chat(messages, temperature=0.7, top_p=0.9, stream=True):
            print(piece, end="", flush=True)
            answer += piece
        print()
        messages.append({"role": "assistant", "content": answer})


if __name__ == "__main__":
    main()
