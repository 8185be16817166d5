"""Models of transformers, torchvision and timm, by torch.compile(backend="relax") and by the importer, beside eager torch.

    python tools/torch_models.py                              all models of the packages that are installed
    python tools/torch_models.py transformers:bert timm:      some: a model, all of a library
    python tools/torch_models.py --doors compile import       some of the checks
    python tools/torch_models.py --json out.json              add outcomes to a file, in place of older ones
    python tools/torch_models.py --json out.json --page       write docs/torch-models.md from all in that file, too
    python tools/torch_models.py --json out.json --page-only  run nothing, and write it

Each check ("door") builds a model once, with open sizes, and compares it at three sizes. ``compile``: torch.compile.
``generate``: tokens of `generate` with the compiled forward. ``import``: torch.export and `from_exported_program`.
``train``: three steps by torch's optimizer, losses and weights. ``trainable``: the same by
`relax.frontend.torch.trainable`. A model is ``right`` or ``wrong``, ``refused`` by relax, refused by ``torch`` before
relax is asked, an ``error``, or a ``crash``: its process ended, or was not done in time.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import importlib.util
import json
import multiprocessing as mp
import re
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch_model_zoo as zoo
from generated_pages import with_part

LIBRARIES = ("transformers", "torchvision", "timm")
VERDICTS = ("right", "wrong", "refused", "torch", "error", "crash")
TOLERANCE = 1e-4
"""Greatest difference of two results, as a share of the greatest element."""
TRAINED = {
    "transformers": ("gpt2", "llama", "qwen2", "bert", "distilbert", "t5", "vit", "swin", "convnext", "segformer"),
    "torchvision": ("resnet18", "mobilenet_v2", "efficientnet_b0", "densenet121"),
    "timm": ("resnet18", "convnext_atto", "mixer_s32_224"),
}
"""Models that the door ``train`` takes."""
TRAINABLE = {"transformers": ("gpt2", "bert", "vit"), "torchvision": ("resnet18",)}
"""Models that the door ``trainable`` takes."""
PAGE = Path(__file__).parents[1] / "docs" / "torch-models.md"
BEGIN, END = "<!-- models: written by tools/torch_models.py -->\n", "<!-- end of the models -->\n"


@dataclass
class Outcome:
    """The result of one check of one model."""

    library: str
    name: str
    door: str
    verdict: str
    reason: str = ""
    graphs: int = 0
    """Graphs that dynamo made for the first size: one, and one more for each graph break."""
    recompilations: int = 0
    """Graphs that it made for the other sizes."""
    breaks: list[str] = field(default_factory=list[str])
    pieces: int = 0
    """Programs that were built."""
    eager: list[str] = field(default_factory=list[str])
    """Operators that run in eager torch, with reasons."""
    seconds: float = 0
    """CPU seconds of the first call, tracing and building included."""


class Refused(Exception):
    """The verdict and the reason of a check that cannot be made."""


# ------------------------------------------------------------------------------------------------ comparing


def tensors(value: Any) -> list[Any]:
    """The tensors of a result, in order; caches of keys and values are left out."""
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, Mapping):
        return [tensor for item in value.values() for tensor in tensors(item)]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors(item)]
    return []


def difference(found: Sequence[Any], expected: Sequence[Any], tolerance: float = TOLERANCE, rounding: float = 0) -> str:
    """Say how results differ from the expected ones, "" if they do not; `rounding` is a difference allowed anyway."""
    if len(found) != len(expected):
        return f"{len(found)} results, expected {len(expected)}"
    for index, (one, other) in enumerate(zip(found, expected, strict=True)):
        problem = _different(one, other, tolerance, rounding)
        if problem:
            return f"result {index}: {problem}"
    return ""


def _different(one: Any, other: Any, tolerance: float, rounding: float) -> str:
    import torch

    if one.shape != other.shape or one.dtype != other.dtype:
        return f"{list(one.shape)} {one.dtype}, expected {list(other.shape)} {other.dtype}"
    if not other.is_floating_point():
        return "" if torch.equal(one, other) else f"{int((one != other).sum())} of {one.numel()} elements differ"
    finite = other[other.isfinite()].abs()
    scale = float(finite.max()) if finite.numel() else 1.0
    try:
        torch.testing.assert_close(one, other, rtol=tolerance, atol=max(tolerance * scale, rounding), equal_nan=True)
    except AssertionError as error:
        return " ".join(str(error).split())[:200]
    return ""


# ------------------------------------------------------------------------------------------------ doors


def count_graphs(outcome: Outcome, first: bool) -> None:
    """Note the graphs, breaks and recompilations that dynamo has counted, at the first size or after all of them."""
    counters: Any = importlib.import_module("torch._dynamo.utils").counters
    graphs = counters["stats"]["unique_graphs"]
    if first:
        outcome.graphs = graphs
    else:
        outcome.recompilations = graphs - outcome.graphs
    outcome.breaks = sorted({reason.split("\n")[0][:120] for reason in counters["graph_break"]})


def arguments(inputs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The inputs of a model, by place or by name."""
    if "images" in inputs or "x" in inputs:
        return list(inputs.values()), {}
    return [], dict(inputs)


def compare_sizes(outcome: Outcome, subject: zoo.Subject, compiled: Callable[..., Any]) -> str:
    """Call a model and its compiled twin at all sizes."""
    import torch

    for index in zoo.SIZES:
        args, kwargs = arguments(subject.inputs(index))
        with torch.no_grad():
            expected = tensors(_eager(subject.module, args, kwargs))
            begin = time.process_time()
            found = tensors(compiled(*copy.deepcopy(args), **copy.deepcopy(kwargs)))
        if index == 0:
            outcome.seconds = time.process_time() - begin
            count_graphs(outcome, True)
        problem = difference(found, expected)
        if problem:
            return f"at size {index}: {problem}"
    count_graphs(outcome, False)
    return ""


def _eager(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    try:
        return module(*copy.deepcopy(args), **copy.deepcopy(kwargs))
    except Exception as error:
        raise Refused("torch", f"eager: {type(error).__name__}: {error}") from error


def by_compile(outcome: Outcome, subject: zoo.Subject, options: Mapping[str, Any]) -> str:
    """torch.compile of the module."""
    import torch

    from relax.frontend.torch import relax_backend

    return compare_sizes(
        outcome, subject, torch.compile(subject.module, backend=relax_backend, dynamic=True, options=dict(options))
    )


def by_generate(outcome: Outcome, subject: zoo.Subject, options: Mapping[str, Any]) -> str:
    """`generate`, greedy, with the forward of the model compiled."""
    import torch

    from relax.frontend.torch import relax_backend

    twin = copy.deepcopy(subject.module)
    twin.forward = torch.compile(twin.forward, backend=relax_backend, dynamic=True, options=dict(options))
    given = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 0}
    for index in zoo.SIZES:
        inputs = {name: value for name, value in subject.inputs(index).items() if name != "decoder_input_ids"}
        expected = subject.module.generate(**inputs, **given)
        begin = time.process_time()
        found = twin.generate(**inputs, **given)
        if index == 0:
            outcome.seconds = time.process_time() - begin
            count_graphs(outcome, True)
        if found.tolist() != expected.tolist():
            return f"at size {index}: tokens {found.tolist()}, expected {expected.tolist()}"
    count_graphs(outcome, False)
    return ""


def by_import(outcome: Outcome, subject: zoo.Subject, options: Mapping[str, Any]) -> str:
    """torch.export and `from_exported_program`."""
    import torch

    import relax
    from relax.frontend.torch import from_exported_program

    for part in subject.module.modules():  # a cache of keys and values is no result that torch exports
        if hasattr(getattr(part, "config", None), "use_cache"):
            part.config.use_cache = False
    program = exported(subject)
    begin = time.process_time()
    mod = from_exported_program(program)
    vm = relax.VirtualMachine(relax.build(mod, **options), relax.cpu())
    outcome.seconds, outcome.pieces = time.process_time() - begin, 1
    for index in zoo.SIZES:
        inputs = subject.inputs(index)
        args, kwargs = arguments(inputs)
        with torch.no_grad():
            expected = tensors(_eager(subject.module, args, kwargs))
        leaves = [leaf for value in inputs.values() for leaf in tensors(value)]
        found = [torch.from_dlpack(result) for result in vm["main"](*leaves)]
        problem = difference(found, expected)
        if problem:
            return f"at size {index}: {problem}"
    return ""


def exported(subject: zoo.Subject) -> Any:
    """The program of a model with its open axes. Raises Refused if torch does not export it."""
    import torch

    args, kwargs = arguments(subject.inputs(0))
    shapes = {name: dict.fromkeys(axes, torch.export.Dim.DYNAMIC) for name, axes in subject.axes.items()}
    if not shapes:
        shapes = None
    try:
        with torch.no_grad():
            dims = shapes if kwargs or shapes is None else tuple(shapes.values())
            return torch.export.export(subject.module, tuple(args), kwargs, dynamic_shapes=dims, strict=False)
    except Exception as error:
        text = " ".join(str(error).split())[:300]
        raise Refused("torch", f"torch.export: {type(error).__name__}: {text}") from error


def by_train(outcome: Outcome, subject: zoo.Subject, options: Mapping[str, Any]) -> str:
    """Three steps of AdamW, of another size each, with dropouts: the same losses and weights as eager torch."""
    import torch

    from relax.frontend.torch import relax_backend

    twin = copy.deepcopy(subject.module).train()
    compiled = torch.compile(twin, backend=relax_backend, dynamic=True, options=dict(options))
    subject.module.train()
    optimizers = [torch.optim.AdamW(m.parameters(), lr=1e-3, eps=1e-3) for m in (subject.module, twin)]
    for index in zoo.SIZES:
        losses: list[Any] = []
        begin = 0.0
        for forward, optimizer in zip((subject.module, compiled), optimizers, strict=True):
            begin = time.process_time()
            torch.manual_seed(index)
            optimizer.zero_grad()
            args, kwargs = arguments(subject.inputs(index))
            loss = _loss(forward(*args, **kwargs))
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        if index == 0:
            outcome.seconds = time.process_time() - begin
            count_graphs(outcome, True)
        problem = difference([losses[1]], [losses[0]])
        if problem:
            return f"loss of step {index}: {problem}"
    count_graphs(outcome, False)
    pairs = zip(twin.state_dict().items(), subject.module.state_dict().values(), strict=True)
    for (name, found), expected in pairs:
        problem = difference([found], [expected], 1e-3, 1e-6)
        if problem:
            return f"{name} after three steps: {problem}"
    return ""


def _loss(result: Any) -> Any:
    first = next(tensor for tensor in tensors(result) if tensor.is_floating_point())
    return first.square().mean()


def by_trainable(outcome: Outcome, subject: zoo.Subject, options: Mapping[str, Any]) -> str:
    """Three steps of `relax.frontend.torch.trainable`, of one size, without dropouts."""
    import torch

    from relax.frontend.torch import trainable
    from relax.training.optimizer import AdamW

    class Plain(torch.nn.Module):
        """The model of its tensors by place, which returns its first result."""

        def __init__(self, module: Any) -> None:
            super().__init__()
            self.module = module

        def forward(self, *values: Any) -> Any:
            return next(iter(tensors(self.module(**dict(zip(keys, values, strict=True))))))

    inputs = subject.inputs(0)
    keys = list(inputs)
    eager, values = Plain(subject.module), tuple(inputs.values())
    begin = time.process_time()
    training = trainable(
        copy.deepcopy(eager), _square_mean, AdamW(1e-3, eps=1e-3, weight_decay=0.01), values, target="llvm"
    )
    optimizer = torch.optim.AdamW(eager.parameters(), lr=1e-3, eps=1e-3, weight_decay=0.01)
    for index in range(3):
        found = float(training.step(values))
        if index == 0:
            outcome.seconds, outcome.pieces = time.process_time() - begin, 1
        optimizer.zero_grad()
        loss = eager(*values).square().mean()
        loss.backward()
        optimizer.step()
        problem = difference([torch.tensor(found)], [loss.detach()])
        if problem:
            return f"loss of step {index}: {problem}"
    trained = copy.deepcopy(eager)
    training.load_into(trained)
    for (name, found), expected in zip(trained.named_parameters(), eager.parameters(), strict=True):
        problem = difference([found.detach()], [expected.detach()], 1e-3, 1e-6)
        if problem:
            return f"{name} after three steps: {problem}"
    return ""


def _square_mean(result: Any) -> Any:
    return result.square().mean()


Door = Callable[[Outcome, zoo.Subject, Mapping[str, Any]], str]
DOORS: dict[str, Door] = {
    "compile": by_compile, "generate": by_generate, "import": by_import, "train": by_train, "trainable": by_trainable,
}  # fmt: skip


def check(library: str, name: str, door: str, options: Mapping[str, Any]) -> Outcome | None:
    """The outcome of one check; None if the check is not for this model."""
    import torch

    from relax import DiagnosticError

    wanted = {"train": TRAINED, "trainable": TRAINABLE}.get(door)
    if wanted is not None and name not in wanted.get(library, ()):
        return None
    outcome = Outcome(library, name, door, "right")
    torch._dynamo.reset()
    importlib.import_module("torch._dynamo.utils").counters.clear()
    built = count_pieces()
    try:
        subject = zoo.model(library, name)
        if (door == "generate" and not subject.generates) or (door == "import" and not subject.axes):
            return None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            outcome.reason = DOORS[door](outcome, subject, options)
        outcome.verdict = "wrong" if outcome.reason else "right"
        outcome.eager = eager_operators(caught)
    except Refused as error:
        outcome.verdict, outcome.reason = error.args
    except Exception as error:  # noqa: BLE001 whatever a model makes of it
        last = traceback.extract_tb(error.__traceback__)[-1]
        outcome.verdict = "refused" if isinstance(error, DiagnosticError) else "error"
        text = " ".join(str(error).split())[:400]
        outcome.reason = f"{type(error).__name__}: {text} ({Path(last.filename).name}:{last.lineno})"
    outcome.pieces = outcome.pieces or len(built)
    return outcome


def eager_operators(caught: Sequence[warnings.WarningMessage]) -> list[str]:
    """Operators that run in eager torch, with reasons, as the backend's warnings say."""
    from relax.frontend.torch import FallbackWarning

    lines: dict[str, None] = {}
    for warning in caught:
        if issubclass(warning.category, FallbackWarning):
            first, *others = str(warning.message).split("\n")
            if others:
                lines.update(dict.fromkeys(re.sub(r", at File .*| \(\d+ times\)", "", line).strip() for line in others))
            else:
                lines[first.partition(": ")[2]] = None
    return list(lines)


def count_pieces() -> list[bool]:
    """Return a list that grows by an item for each piece of a graph that is built."""
    from relax.frontend.torch.compile.piece import CompiledPiece

    built: list[bool] = []
    build = getattr(CompiledPiece.build, "plain", CompiledPiece.build)

    def counted(self: CompiledPiece) -> None:
        build(self)
        if self.run is not None:
            built.append(True)

    counted.plain = build
    CompiledPiece.build = counted
    return built


# ------------------------------------------------------------------------------------------------ processes


def _worker(results: Connection, library: str, name: str, doors: Sequence[str], options: Mapping[str, Any]) -> None:
    """Send the outcomes of a model: before each the name of the door, at the end None."""
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(1)
    for door in doors:
        results.send(door)
        outcome = check(library, name, door, options)
        if outcome is not None:
            results.send(outcome)
    results.send(None)


def run_all(
    models: Sequence[tuple[str, str]], doors: Sequence[str], options: Mapping[str, Any], jobs: int, limit: float
) -> Iterator[Outcome]:
    """The outcomes of models, each in a process of its own that has `limit` seconds."""
    context = mp.get_context("forkserver")
    preload = ["__main__", "torch", "relax.frontend.torch", "relax.vm.driver", "torch._dynamo", "torch_model_zoo"]
    context.set_forkserver_preload([*preload, *{library for library, _ in models}])
    waiting = list(reversed(models))
    running: dict[Connection, tuple[Any, tuple[str, str], float]] = {}
    at: dict[Connection, str] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            model = waiting.pop()
            near, far = context.Pipe(False)
            process = context.Process(target=_worker, args=(far, *model, doors, options))
            process.start()
            far.close()
            running[near] = process, model, time.monotonic() + limit
        for near in wait(list(running), 1):
            process, model, _ = running[near]
            try:
                sent = near.recv()
            except EOFError:
                process.join()
                sent = Outcome(*model, at[near], "crash", f"the process ended with {process.exitcode}")
            if isinstance(sent, str):
                at[near] = sent
                continue
            if sent is not None:
                yield sent
            if sent is None or sent.verdict == "crash":
                process.join()
                del running[near]
        for near, (process, model, end) in list(running.items()):
            if time.monotonic() > end:
                process.kill()
                process.join()
                del running[near]
                yield Outcome(*model, at.get(near, doors[0]), "crash", f"not done in {limit:.0f} seconds")


# ------------------------------------------------------------------------------------------------ reports


def line(outcome: Outcome) -> str:
    """An outcome as a line of a terminal."""
    counts = f"{outcome.graphs} graphs, {outcome.recompilations} again, {outcome.pieces} pieces"
    eager = f", eager: {'; '.join(outcome.eager)}" if outcome.eager else ""
    breaks = f", breaks: {'; '.join(outcome.breaks)}" if outcome.breaks else ""
    title = f"{outcome.library}:{outcome.name}"
    return f"{outcome.verdict:8}{title:42}{outcome.door:10}{outcome.seconds:6.1f} s  {counts}{eager}{breaks} {outcome.reason}"


def summary(outcomes: Sequence[Outcome]) -> list[str]:
    """Counts of verdicts by library and door."""
    lines: list[str] = []
    for library in LIBRARIES:
        for door in DOORS:
            some = [item for item in outcomes if (item.library, item.door) == (library, door)]
            if some:
                counts = Counter(item.verdict for item in some)
                shown = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])
                again = sum(bool(item.recompilations) for item in some)
                lines.append(f"{library} {door}: {shown} of {len(some)}; {again} compiled again for other sizes, "
                             f"{sum(bool(item.breaks) for item in some)} with graph breaks, "
                             f"{sum(bool(item.eager) for item in some)} with eager pieces")  # fmt: skip
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description="Models of torch, compiled by relax.")
    parser.add_argument("models", nargs="*", help="models, as library:name, or library: for all of a library")
    parser.add_argument("--doors", nargs="+", choices=list(DOORS), default=list(DOORS), help="checks (all)")
    parser.add_argument("--tier", default="now", help="tier of the builds (now)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--limit", type=float, default=900, help="seconds for one model (900)")
    parser.add_argument("--json", type=Path, help="add outcomes to this file")
    parser.add_argument("--page", action="store_true", help="write docs/torch-models.md from the file")
    parser.add_argument("--page-only", action="store_true", help="the same, and run nothing")
    args = parser.parse_args()
    every = {(item.library, item.name, item.door): item for item in read(args.json)}
    outcomes: list[Outcome] = []
    models = [] if args.page_only else list(chosen(args.models))
    for outcome in run_all(models, args.doors, {"tier": args.tier}, args.jobs, args.limit):
        print(line(outcome), flush=True)
        outcomes.append(outcome)
        every[outcome.library, outcome.name, outcome.door] = outcome
        if args.json:
            args.json.parent.mkdir(parents=True, exist_ok=True)
            args.json.write_text(json.dumps([asdict(item) for item in every.values()], indent=1))
    print("\n".join(summary(outcomes)))
    if args.page or args.page_only:
        PAGE.write_text(with_part(PAGE, BEGIN, END, "\n".join(table(list(every.values())))), encoding="utf-8")
    return int(any(item.verdict in ("wrong", "error", "crash") for item in outcomes))


def read(path: Path | None) -> list[Outcome]:
    """The outcomes in a file, none if there is no such file."""
    return [Outcome(**item) for item in json.loads(path.read_text())] if path and path.exists() else []


def chosen(patterns: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The models that are asked for, of libraries that are installed. Raises SystemExit for a name that is not known."""
    for library in LIBRARIES:
        installed = importlib.util.find_spec(library) is not None
        wanted = [pattern.partition(":")[2] for pattern in patterns if pattern.partition(":")[0] == library]
        for name in zoo.names(library) if not patterns or "" in wanted else wanted:
            if name not in zoo.names(library):
                raise SystemExit(f"there is no model {library}:{name}")
            if installed:
                yield library, name


def table(outcomes: Sequence[Outcome]) -> list[str]:
    """The outcomes as Markdown: counts by library and check, the models that are right, the others with reasons."""
    lines = ["| library | check | models | right | graphs split by torch | compiled again | parts in eager torch |",
             "|---|---|---|---|---|---|---|"]  # fmt: skip
    for library in LIBRARIES:
        for door in DOORS:
            some = [item for item in outcomes if (item.library, item.door) == (library, door)]
            if some:
                right = sum(item.verdict == "right" for item in some)
                marks = [sum(map(bool, marked)) for marked in zip(*map(_marks, some), strict=True)]
                lines.append(f"| {library} | {door} | {len(some)} | {right} | {' | '.join(map(str, marks))} |")
    for library in LIBRARIES:
        names = sorted({item.name for item in outcomes if item.library == library})
        if names:
            lines += ["", f"{library}: " + " ".join(f"`{name}`" for name in names) + "."]
    rows = [item for item in outcomes if item.verdict != "right" or any(_marks(item))]
    if rows:
        lines += ["", "| model | check | result | remark |", "|---|---|---|---|"]
        lines += [
            f"| {item.library} `{item.name}` | {item.door} | {item.verdict} | {_remark(item).replace('|', chr(92) + '|')} |"
            for item in sorted(rows, key=lambda item: (LIBRARIES.index(item.library), item.name, item.door))
        ]
    return lines


def _marks(outcome: Outcome) -> tuple[Any, Any, Any]:
    """Graph breaks, recompilations and operators in eager torch."""
    return outcome.breaks, outcome.recompilations, outcome.eager


def _remark(outcome: Outcome) -> str:
    """The reasons of an outcome in a cell of a table."""
    parts = [outcome.reason[:160]] if outcome.reason else []
    if outcome.breaks:
        parts.append("splits: " + "; ".join(outcome.breaks[:2]))
    if outcome.recompilations:
        parts.append(f"{outcome.recompilations} graphs more for other sizes")
    if outcome.eager:
        parts.append("eager: " + "; ".join(outcome.eager[:3]))
    return ". ".join(" ".join(part.split()) for part in parts)


if __name__ == "__main__":
    sys.exit(main())
