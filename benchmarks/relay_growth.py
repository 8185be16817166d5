"""Relay programs of growing length: whether reading, writing and comparing them grows linearly.

    python benchmarks/relay_growth.py [LONGEST]

The programs are a chain of `let`s and a graph of as many calls, each of which uses the one before twice. The output is
CPU seconds for each step and length, and microseconds for each binding, which stay the same where growth is linear.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table

from relax import relay
from relax.relay import testing

STEPS: dict[str, Callable[[Any], Any]] = {
    "infer": relay.infer_type,
    "place": relay.scopes.place,
    "well_formed": relay.analysis.well_formed,
    "mutate": lambda expr: relay.MixedModeMutator().visit(expr),
    "hash": relay.alpha_hash,
    "equal": lambda expr: relay.alpha_equal(expr, expr),
    "print": relay.astext,
}


def chain(length: int) -> str:
    """The text of a chain of `let`s."""
    lets = "".join(f"let %x{i} = add({f'%x{i - 1}' if i else '1'}, 1);\n" for i in range(length))
    return f"{lets}%x{length - 1}"


def graph(length: int) -> str:
    """The text of a graph of calls."""
    calls = "".join(f"%{i + 1} = add(%{i}, %{i});\n" for i in range(length))
    return f"%0 = add(1, 1);\n{calls}%{length}"


def seconds(action: Callable[[], Any]) -> tuple[float, Any]:
    """The CPU time of an action, and its result."""
    start = time.process_time()
    result = action()
    return time.process_time() - start, result


def network() -> dict[str, float]:
    """The CPU times of reading, typing and translating ResNet-50; each the least of three."""
    text = relay.astext(relay.IRModule.from_expr(testing.resnet.get_net(1, 1000, 50)))
    times: dict[str, list[float]] = {"parse": [], "infer": [], "translate": []}
    for _ in range(3):
        parsing, mod = seconds(lambda: relay.parse(text))
        times["parse"].append(parsing)
        times["infer"].append(seconds(lambda mod=mod: relay.transform.InferType()(mod))[0])
        times["translate"].append(seconds(lambda mod=mod: relay.to_relax(mod))[0])
    return {step: min(each) for step, each in times.items()}


def main() -> None:
    """Measure and print."""
    longest = int(sys.argv[1]) if sys.argv[1:] else 100_000
    console = Console()
    for name, make in (("chain of lets", chain), ("graph of calls", graph)):
        table = Table("bindings", "parse", *STEPS, title=f"{name}: CPU seconds (µs for each binding)")
        length = longest // 16
        while length <= longest:
            text = make(length)
            parsing, expr = seconds(lambda text=text: relay.parse_expr(text))
            times = [parsing, *(seconds(lambda step=step, expr=expr: step(expr))[0] for step in STEPS.values())]
            table.add_row(str(length), *(f"{t:.2f} ({t / length * 1e6:.0f})" for t in times))
            length *= 2
        console.print(table)
    times = network()
    whole = ", ".join(f"{step} {time:.2f}" for step, time in times.items())
    console.print(f"ResNet-50: {sum(times.values()):.2f} CPU seconds ({whole})")


if __name__ == "__main__":
    main()
