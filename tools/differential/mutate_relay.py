"""Hostile Relay text: programs with tokens and characters changed at random, which are read and typed, or refused.

    python tools/differential/mutate_relay.py --count 100000 --seed 1

Every mutant is a program, or diagnostics that each have a place in the text. Anything else is a finding: another error,
a RecursionError, or a text that takes longer than `SECONDS`.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])

from differential.properties import Failure
from differential.relay_programs import relay_program
from relax import relay
from relax.ir import DiagnosticContext, DiagnosticError, IRModule, Source
from relax.relay.text.lexer import Tokens

SECONDS = 20.0
"""CPU seconds that reading and typing a mutant may take."""


def read(text: str) -> relay.Expr | IRModule | None:
    """The program of a text, None if diagnostics say what is wrong with it, and where. Raises Failure."""
    try:
        return relay.fromtext(text)
    except DiagnosticError as error:
        _placed(error, text)
        return None


def typed(program: relay.Expr | IRModule, text: str) -> bool:
    """Infer the types of a program; False if diagnostics say what is wrong. Raises Failure."""
    try:
        if isinstance(program, IRModule):
            relay.transform.InferType()(program)
        else:
            relay.infer_type(program)
    except DiagnosticError as error:
        _placed(error, text)
        return False
    return True


def _placed(error: DiagnosticError, text: str) -> None:
    if not error.diagnostics or any(diagnostic.span is None for diagnostic in error.diagnostics):
        raise Failure("a diagnostic without a place", f"{error}\n{text}")


def tokens_of(text: str) -> list[str]:
    """The tokens of a text, as text."""
    return [token.text for token in Tokens(Source("<test>", text), DiagnosticContext()).items]


def mutated_tokens(rng: random.Random, text: str, pool: Sequence[str]) -> str:
    """A text with some tokens removed, added, replaced, or written twice. Half of the changes keep the sort of token."""
    words = tokens_of(text)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(words) + 1)
        other = rng.randrange(len(words) + 1)
        first, last = min(at, other), max(at, other)
        match rng.randrange(7):
            case 0:
                words[at : at + 1] = []
            case 1:
                words.insert(at, rng.choice(pool))
            case 2:
                words[at : at + 1] = [rng.choice(pool)]
            case 3:
                words[first:last] = words[first:last] * 2
            case _:  # another token of the same sort, so that the text may still be read
                alike = [
                    word for word in rng.sample(pool, min(len(pool), 60)) if at < len(words) and _alike(word, words[at])
                ]
                words[at : at + 1] = alike[:1] or words[at : at + 1]
    return " ".join(words)


def _alike(word: str, other: str) -> bool:
    """True for tokens that begin alike: both are variables, numbers, names, or the same symbol."""
    return (
        (word[:1] == other[:1])
        if not other[:1].isalnum()
        else word[:1].isalpha() == other[:1].isalpha() and word[:1].isalnum()
    )


def mutated_characters(rng: random.Random, text: str) -> str:
    """A text with some characters removed or added, or a piece cut out."""
    for _ in range(rng.randint(1, 4)):
        at, other = rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)
        match rng.randrange(3):
            case 0:
                text = text[:at] + text[at + 1 :]
            case 1:
                character = chr(rng.choice((10, rng.randrange(32, 127), rng.randrange(0x3000))))
                text = text[:at] + character + text[at:]
            case _:
                text = text[: min(at, other)] + text[max(at, other) :]
    return text


NESTED = (
    ("(", "1", ")"), ("-(", "1", ")"), ("1 + (", "1", ")"), ("add(1, ", "1", ")"), ("(1, ", "2", ")"),
    ("fn() { ", "1", " }"), ("{ let %x = ", "1", "; %x }"), ("if (True) { 1 } else { ", "1", " }"),
    ("if (", "True", ") { True } else { False }"), ("match (1) { _ => ", "1", " }"), ("ref_read(ref(", "1", "))"),
    ("let %x = 1; ", "%x", ""), ("let %f = fn() { ", "1", " }; %f()"), ("!", "True", ""),
)  # fmt: skip
"""What nests: the opening, the middle, and the closing."""


def nested(rng: random.Random) -> str:
    """A text that nests deeply, to a depth that may be beyond the limit; now and then a bracket is missing."""
    depth = rng.choice((3, 300, 1_500, 10_000, 10_001))
    opening, middle, closing = rng.choice(NESTED)
    return opening * depth + middle + closing * (depth - (rng.random() < 0.2))


def check(text: str) -> str:
    """Read and type a text, and print it and read it again if it is well-formed; how far it came. Raises Failure."""
    start = time.process_time()
    program = read(text)
    sort = "refused by the parser"
    if program is not None:
        sort = "typed" if typed(program, text) else "refused by inference"
        if relay.analysis.well_formed(program):
            again = relay.fromtext(relay.astext(program))
            if isinstance(program, relay.Expr) and not relay.alpha_equal(again, program):  # type: ignore[arg-type]
                raise Failure("print", f"printed as another program:\n{text}")
    seconds = time.process_time() - start
    if seconds > SECONDS:
        raise Failure("slow", f"{seconds:.1f} s for:\n{text[:2000]}")
    return sort


def mutants(seed: int | str, count: int, texts: Sequence[str]) -> Counter[str]:
    """Try so many mutants of texts; how far they came. Raises Failure for the first that is neither read nor refused."""
    return Counter(attempt(text) for text in mutated(random.Random(seed), count, texts))


def mutated(rng: random.Random, count: int, texts: Sequence[str]) -> Iterator[str]:
    """So many mutants of texts."""
    pool = [token for text in texts for token in tokens_of(text)]
    for i in range(count):
        chosen = rng.choice(texts)
        yield mutated_tokens(rng, chosen, pool) if i % 2 else mutated_characters(rng, chosen)


def attempt(text: str) -> str:
    """`check`, with any other error as a Failure."""
    try:
        return check(text)
    except (Failure, KeyboardInterrupt):
        raise
    except Exception as error:  # noqa: BLE001 (whatever is raised is a finding)
        raise Failure(f"crash {type(error).__name__}", f"{traceback.format_exc()[-1500:]}\n{text[:3000]}") from None


def main() -> int:
    """Try as many as the command line says; the exit status is 1 if there are findings."""
    parser = argparse.ArgumentParser(description="Hostile Relay text.")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", default="1")
    options = parser.parse_args()
    texts = [relay_program(f"{options.seed}:{i}").text for i in range(60)]
    texts = [text for text in texts if len(text) < 6_000]
    rng, findings, sorts = random.Random(options.seed), Counter[str](), Counter[str]()
    start = time.process_time()
    for i, text in enumerate(mutated(rng, options.count, texts)):
        try:
            sorts[attempt(nested(rng) if i % 1000 == 999 else text)] += 1
        except Failure as failure:
            kind = f"{failure.kind} {str(failure).splitlines()[-1][:60] if failure.kind == 'slow' else ''}"
            findings[kind] += 1
            if findings[kind] == 1:
                print(f"{kind}: {failure}", flush=True)
    print(f"{options.count} texts in {time.process_time() - start:.0f} s of CPU time: {dict(sorts)}; {dict(findings)}")
    return bool(findings)


if __name__ == "__main__":
    sys.exit(main())
