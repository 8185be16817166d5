"""The examples of docs/command-line.md do what it shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"


def examples(text):
    """The commands of the console blocks, each with the lines shown after it."""
    for block in re.findall(r"^```console\n(.*?)^```", text, re.M | re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            line, _, shown = part.partition("\n")
            yield line, shown


def fits(shown, said):
    """Whether a text is what is shown; ... stands for anything."""
    pattern = r".*".join(re.escape(part) for part in shown.strip().split("..."))
    return re.fullmatch(pattern, said.strip(), re.S) is not None


def test_the_examples(command, folder):
    text = PAGE.read_text(encoding="utf-8")
    model = re.search(r"^```python\n(.*?)^```", text, re.M | re.S)[1]
    (folder / "model.py").write_text(model, encoding="utf-8")
    commands = set()
    for line, shown in examples(text):
        if line.startswith("sed "):
            (folder / "other.py").write_text(model.replace("relu", "silu"), encoding="utf-8")
            continue
        _, *words = shlex.split(line)
        said = command(*words)
        commands.add(words[0])
        assert fits(shown, said.out + said.err), f"{line}\n{said.out}{said.err}"
        fails = shown.startswith("error") or "differ\n" in shown
        assert said.status == (1 if fails else 0), line
    shown = {"compile", "convert", "run", "show", "check", "bench", "profile", "memory", "diff", "explain", "cache"}
    assert shown <= commands
