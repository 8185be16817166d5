"""Mutations of a cache directory: entries of it changed, exchanged and replaced at random.

    python tools/differential/mutate_cache.py --count 1000 --seed 0      prints what builds otherwise than without a cache

`verdict` builds two programs over a mutated copy of a good cache. The build must end, in time, and what it gives must
compute what a build without any cache gives: no entry is run for another one. The same seed makes the same mutations.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import numpy as np

import relax
from relax.script import from_source

SECONDS = 20
"""Time for the two builds, which take less than one."""
PROGRAM = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 8), "float32"), w: R.Tensor((8, 8), "float32")):
        with R.dataflow():
            h = R.matmul(x, w)
            y = R.{last}(h)
            s = R.sum(y, axis=[1])
            R.output(s)
        return s
"""
LAST = ("abs", "negative")
"""The operators in which the two programs differ: kernels of the same form, which an exchange would take unnoticed."""

Mutation = Callable[[random.Random, list[Path]], None]


def _truncated(rng: random.Random, entries: list[Path]) -> None:
    path = rng.choice(entries)
    data = path.read_bytes()
    path.write_bytes(data[: rng.randrange(len(data) + 1)])


def _changed(rng: random.Random, entries: list[Path]) -> None:
    path = rng.choice(entries)
    data = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 1, 8, 64))):
        if data:
            data[rng.randrange(len(data))] = rng.randrange(256)
    path.write_bytes(bytes(data))


def _lengthened(rng: random.Random, entries: list[Path]) -> None:
    with rng.choice(entries).open("ab") as file:
        file.write(rng.randbytes(rng.choice((1, 100, 100_000))))


def _exchanged(rng: random.Random, entries: list[Path]) -> None:
    a, b = rng.choice(entries), rng.choice(entries)
    data = a.read_bytes(), b.read_bytes()
    a.write_bytes(data[1])
    b.write_bytes(data[0])


def _replaced(rng: random.Random, entries: list[Path]) -> None:
    """Something that is no file in the place of an entry: what is opened there waits, loops or fails."""
    path = rng.choice(entries)
    path.unlink()
    kind = rng.choice(("fifo", "directory", "loop", "dangling", "device", "nothing"))
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind != "nothing":
        path.symlink_to({"loop": path, "dangling": path.with_name("nowhere"), "device": "/dev/zero"}[kind])


def _forbidden(rng: random.Random, entries: list[Path]) -> None:
    rng.choice(entries).chmod(rng.choice((0o000, 0o222, 0o777)))


MUTATIONS: tuple[Mutation, ...] = (_truncated, _changed, _lengthened, _exchanged, _replaced, _forbidden)


@contextmanager
def cached_in(folder: Path) -> Iterator[None]:
    """Builds within use a cache directory."""
    before = os.environ.get("RELAX_CACHE_DIR")
    os.environ["RELAX_CACHE_DIR"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["RELAX_CACHE_DIR"]
        else:
            os.environ["RELAX_CACHE_DIR"] = before


def results() -> list[list[float]]:
    """What the two programs compute, built anew."""
    x = np.arange(-12, 12, dtype="float32").reshape(3, 8)
    w = np.eye(8, dtype="float32") - 2 * np.eye(8, k=1, dtype="float32")
    found: list[list[float]] = []
    for last in LAST:
        vm = relax.VirtualMachine(relax.build(from_source(PROGRAM.format(last=last)), "llvm"), relax.cpu())
        found.append(vm["main"](x, w).numpy().tolist())
    return found


def mutate(folder: Path, rng: random.Random) -> list[str]:
    """Change some entries below a folder, and say how."""
    done: list[str] = []
    for _ in range(rng.choice((1, 1, 2, 5))):
        entries = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
        if entries:
            mutation = rng.choice(MUTATIONS)
            mutation(rng, entries)
            done.append(mutation.__name__.strip("_"))
    return done


def verdict(good: Path, expected: list[list[float]], seed: str) -> str:
    """``right``, or how the builds over a mutated copy of a good cache fail."""

    def late(_: int, __: FrameType | None) -> None:
        raise TimeoutError

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "cache"
        shutil.copytree(good, folder)
        done = mutate(folder, random.Random(seed))
        before = signal.signal(signal.SIGALRM, late)
        signal.alarm(SECONDS)
        try:
            with cached_in(folder):
                found = results()
        except TimeoutError:
            return f"hangs after {', '.join(done)}"
        except Exception:  # noqa: BLE001  (nothing that is wrong with a cache fails a build)
            return f"fails after {', '.join(done)}\n{traceback.format_exc()}"
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)
    return "right" if found == expected else f"computes {found} after {', '.join(done)}"


@contextmanager
def good_cache() -> Iterator[tuple[Path, list[list[float]]]]:
    """A cache that holds both programs, and what they compute."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "cache"
        with cached_in(folder):
            expected = results()
        yield folder, expected


def main() -> None:
    """Mutate, and print what went wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    with good_cache() as (folder, expected):
        for number in range(options.count):
            found = verdict(folder, expected, f"{options.seed}:{number}")
            counts["right" if found == "right" else "wrong"] += 1
            if found != "right":
                print(f"seed {options.seed}:{number}: {found}", flush=True)
    print(dict(counts))
    sys.exit(counts["wrong"] > 0)


if __name__ == "__main__":
    main()
