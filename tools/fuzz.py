"""make fuzz: random programs against the interpreter, for as long as it is given.

    python tools/fuzz.py --seconds 1800 --seed 7 --jobs 2 --property agrees --out found/

Each program is checked for the properties of `differential.properties`; every third time, some PrimFuncs are made
instead and compared with an evaluator in exact numbers (`differential.tir_properties`, `--property tir_agrees`);
every fifth time, some are scheduled at random (`differential.schedule_properties`, `--property schedules_agree`);
every seventh time, Relay programs are made (`differential.relay_properties`, `--property relay_agrees`); every
eleventh time, a program of one heavy operator is built by default, at sizes around those of tiles
(`differential.kernel_properties`, `--property kernels_agree`); now and then, mutated ONNX models are imported
(`differential.mutate_onnx`, `--property onnx_refuses`), and ONNX models with branches are compared with ONNX Runtime
(`differential.onnx_branches`, `--property onnx_branches_agree`). The first failure is reduced to a small program,
printed as a ready test and, with --out, written to a file; the exit status is then 1. It is 1 too if at the end a
construct or an operator that the generator knows has not occurred (given enough programs for all of them to). The
same seed makes the same programs.
"""

from __future__ import annotations

import argparse
import multiprocessing as mp
import os
import random
import re
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from queue import Empty
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

ENOUGH = 3000
"""After so many programs, every feature is expected to have occurred."""
OPERATORS_OF_THE_MACHINE = frozenset(
    f"R.{name}"
    for name in """
    builtin.alloc_tensor builtin.stop_lift_params call_builtin_with_ctx make_closure memory.alloc_storage
    memory.alloc_tensor memory.kill_storage memory.kill_tensor vm.alloc_storage vm.alloc_tensor vm.call_tir_dyn
    vm.kill_object read_tensor_from_file random.seed
""".split()
)
"""What passes make and programs do not write; what reads a file; and what gives another number each time."""


REFUSED = "(proved to fail)"
"""How programs are counted that an operator makes no programs: one that is proved to fail."""


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Random programs against the interpreter.")
    parser.add_argument("--seconds", type=float, default=60, help="how long (60)")
    parser.add_argument("--seed", type=int, default=None, help="where to begin; by default another each time")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--property", action="append", help="only this property; may be repeated")
    parser.add_argument("--out", type=Path, help="a directory for ready tests of what fails")
    parser.add_argument("--keep-going", action="store_true", help="report all sorts of failures, not only the first")
    parser.add_argument("--reduce-seconds", type=float, default=120, help="how long to reduce a failure (120)")
    return parser.parse_args()


# ------------------------------------------------------------------------------------------- one process

ERASED = "erased_agree"
"""The property of programs that know less of their values (`differential.erasing`)."""

EVERY = {
    ERASED: 4,
    "passes_keep": 4,
    "orders_keep": 3,
    "prints_and_parses": 3,
    "saves_and_loads": 6,
    "runs_elsewhere": 40,
    "binds": 3,
    "rejects": 3,
}
"""Properties that take long are checked of one program in so many."""


TIR = "tir_agrees"
"""The property of PrimFuncs."""
TIR_SHARE, TIR_TOGETHER = 3, 6
"""One time in so many PrimFuncs are made; and so many, which are compiled together."""

SCHEDULES = "schedules_agree"
"""The property of schedules."""
SCHEDULES_SHARE, SCHEDULES_TOGETHER = 5, 3
"""One time in so many PrimFuncs are scheduled; and so many."""

RELAY = "relay_agrees"
"""The property of Relay programs."""
RELAY_SHARE, RELAY_TOGETHER, RELAY_MUTANTS = 7, 8, 100
"""One time in so many Relay programs are made; so many; and so many mutants of their texts."""

KERNELS = "kernels_agree"
"""The property of the kernels of a default build."""
KERNELS_SHARE, KERNELS_TOGETHER = 11, 3
"""One time in so many programs of one heavy operator are made; and so many."""

ONNX = "onnx_refuses"
"""The property of mutated ONNX models."""
ONNX_SHARE, ONNX_TOGETHER = 40, 20
"""One time in so many models are mutated; and so many."""

BRANCHES = "onnx_branches_agree"
"""The property of ONNX models with branches of several ranks."""
BRANCHES_SHARE, BRANCHES_TOGETHER = 40, 4
"""One time in so many models with branches are made; and so many."""


def check(seed: str, index: int, names: list[str] | None) -> tuple[Counter[str], list[dict[str, Any]]]:
    """Make one program and check it: the features it has, and the failures. In its turn, some PrimFuncs."""
    from differential import properties
    from differential.erasing import erased_agree

    if names == [ONNX] or (index % ONNX_SHARE == 1 and (names is None or ONNX in names)):
        return check_onnx(seed)
    if names == [BRANCHES] or (index % BRANCHES_SHARE == 21 and (names is None or BRANCHES in names)):
        return check_branches(seed)
    if names == [RELAY] or (index % RELAY_SHARE == 4 and (names is None or RELAY in names)):
        return check_relay(seed)
    if names == [KERNELS] or (index % KERNELS_SHARE == 7 and (names is None or KERNELS in names)):
        return check_kernels(seed)
    if names == [TIR] or (index % TIR_SHARE == 0 and (names is None or TIR in names)):
        return check_tir(seed)
    if names == [SCHEDULES] or (index % SCHEDULES_SHARE == 2 and (names is None or SCHEDULES in names)):
        return check_schedules(seed)
    program, cases = program_of(seed)
    if program.is_refused():
        return Counter({REFUSED: 1}), []
    for number, (name, holds) in enumerate({**properties.PROPERTIES, ERASED: erased_agree}.items()):
        if names is not None and name not in names:
            continue
        if names is None and (index + number) % EVERY.get(name, 1):
            continue
        failure = failure_of(holds, program.text, cases, exact=program.exact)
        if failure is not None:
            return program.features, [{"seed": seed, "property": name, **failure}]
    return program.features, []


def check_onnx(seed: str) -> tuple[Counter[str], list[dict[str, Any]]]:
    """Import mutants of ONNX models: each must be a module or refused with a diagnostic."""
    from differential.mutate_onnx import check as check_mutant

    for number in range(ONNX_TOGETHER):
        name = f"{seed}:{number}"
        try:
            check_mutant(name, build=number == 0)
        except Exception:  # noqa: BLE001 (whatever is raised is a finding)
            text = traceback.format_exc()
            kind = text.splitlines()[-1][:60]
            return Counter(), [{"seed": name, "property": ONNX, "kind": kind, "message": text, "options": {}}]
    return Counter(), []


def check_branches(seed: str) -> tuple[Counter[str], list[dict[str, Any]]]:
    """Compare some ONNX models with branches of several ranks with ONNX Runtime."""
    from differential.onnx_branches import check as check_model

    for number in range(BRANCHES_TOGETHER):
        name = f"{seed}:{number}"
        failure = failure_of(lambda seed, _: check_model(seed), name, [])
        if failure is not None:
            return Counter(), [{"seed": name, "property": BRANCHES, **failure}]
    return Counter(), []


def check_relay(seed: str) -> tuple[Counter[str], list[dict[str, Any]]]:
    """Make some Relay programs and check them, one of them compiled; then mutants of their texts."""
    from differential.mutate_relay import mutants
    from differential.properties import Failure
    from differential.relay_programs import relay_program
    from differential.relay_properties import relay_agrees

    features: Counter[str] = Counter()
    texts: list[str] = []
    for i in range(RELAY_TOGETHER):
        name = f"relay:{seed}:{i}"
        program = relay_program(name)
        features.update(f"relay:{feature}" for feature in program.features)
        texts.append(program.text)
        failure = failure_of(relay_agrees, program.text, program.cases, seed=name, compiles=i == 0)
        if failure is not None:
            failure["message"] += f"\n{program.text}"
            return features, [{"seed": name, "property": RELAY, **failure}]
    try:
        mutants(f"relay:{seed}", RELAY_MUTANTS, texts)
    except Failure as failure:
        found = {"kind": failure.kind, "message": str(failure), "options": {}}
        return features, [{"seed": f"relay:{seed}", "property": RELAY, **found}]
    return features, []


def check_kernels(seed: str) -> tuple[Counter[str], list[dict[str, Any]]]:
    """Make some programs of one heavy operator and check their kernels: the features, and the first failure."""
    from differential.kernel_programs import kernel_program
    from differential.kernel_properties import kernels_agree

    features: Counter[str] = Counter()
    for i in range(KERNELS_TOGETHER):
        name = f"kernel:{seed}:{i}"
        program = kernel_program(name)
        features.update(program.features)
        failure = failure_of(kernels_agree, program.text, program.cases, known=program.known)
        if failure is not None:
            failure["options"].setdefault("known", program.known)
            return features, [{"seed": name, "property": KERNELS, **failure}]
    return features, []


def check_tir(seed: str) -> tuple[Counter[str], list[dict[str, Any]]]:
    """Make some PrimFuncs and check them: the features they have together, and the first failure."""
    from differential.tir_programs import tir_program
    from differential.tir_properties import compiled_together, tir_agrees

    programs = {f"tir:{seed}:{i}": tir_program(f"tir:{seed}:{i}") for i in range(TIR_TOGETHER)}
    features: Counter[str] = Counter()
    calls = compiled_together([program.text for program in programs.values()])
    for (name, program), call in zip(programs.items(), calls, strict=True):
        features.update(program.features)
        failure = failure_of(tir_agrees, program.text, program.cases, call=call)
        if failure is not None:
            return features, [{"seed": name, "property": TIR, **failure}]
    return features, []


def check_schedules(seed: str) -> tuple[Counter[str], list[dict[str, Any]]]:
    """Schedule some PrimFuncs by moves at random: the features they have, the moves accepted, and the first failure."""
    from differential.schedule_moves import random_moves
    from differential.schedule_programs import schedule_program
    from differential.schedule_properties import schedules_agree

    features: Counter[str] = Counter()
    for i in range(SCHEDULES_TOGETHER):
        name = f"schedule:{seed}:{i}"
        program, moves = schedule_program(name), random_moves(name)
        features.update(program.features)
        failure = failure_of(schedules_agree, program.text, program.cases, moves=moves, accepted=features)
        if failure is not None:
            failure["options"].setdefault("moves", moves)
            return features, [{"seed": name, "property": SCHEDULES, **failure}]
    return features, []


def failure_of(holds: Any, text: str, cases: list[list[Any]], **options: Any) -> dict[str, Any] | None:
    """How a program fails a property: the kind, the message, the options that find it again; None if it does not."""
    from differential.properties import Failure

    try:
        holds(text, cases, **options)
    except Failure as failure:
        return {"kind": failure.kind, "message": str(failure), "options": failure.options}
    except Exception as error:  # noqa: BLE001 (a crash is a finding too)
        first = next((line for line in str(error).splitlines() if line.strip()), "")
        sort = re.sub(r"\w*\d+\w*", "#", first)[:60]
        return {
            "kind": f"crash {type(error).__name__} {sort}",
            "message": f"{first}\n{traceback.format_exc()}",
            "options": {},
        }
    return None


def program_of(seed: str) -> tuple[Any, list[list[Any]]]:
    """The program of a seed, and arguments for it."""
    from differential.generator import SIZES, inputs, random_program
    from differential.kernel_programs import kernel_program
    from differential.schedule_programs import schedule_program
    from differential.tir_programs import tir_program

    if seed.startswith("kernel:"):
        kernel = kernel_program(seed)
        return kernel, kernel.cases
    if seed.startswith("schedule:"):
        scheduled = schedule_program(seed)
        return scheduled, scheduled.cases
    if seed.startswith("tir:"):
        found = tir_program(seed)
        return found, found.cases
    program, chosen = random_program(seed), random.Random(seed)
    sizes = chosen.sample(SIZES, 3)
    return program, [inputs(program, s, chosen.randrange(1 << 30), chosen.random() < 0.06) for s in sizes]


def reduced(failure: dict[str, Any], seconds: float) -> str:
    """The ready test of a failure."""
    from differential import properties, tir_reducer
    from differential.erasing import erased_agree
    from differential.kernel_properties import kernels_agree
    from differential.reducer import ready_test, reduce
    from differential.schedule_properties import fewer_moves, schedules_agree
    from differential.tir_properties import tir_agrees

    program, cases = program_of(failure["seed"])
    special: dict[str, Any] = {
        TIR: tir_agrees, SCHEDULES: schedules_agree, KERNELS: kernels_agree, ERASED: erased_agree,
    }  # fmt: skip
    is_tir = failure["property"] in (TIR, SCHEDULES)
    holds = special.get(failure["property"]) or properties.PROPERTIES[failure["property"]]
    options = {"exact": program.exact, **failure["options"]}
    if failure["property"] == SCHEDULES:
        options["moves"] = fewer_moves(program.text, cases, options["moves"], failure["kind"])

    def fails(text: str, some: list[list[Any]]) -> str | None:
        found = failure_of(holds, text, some, **options)
        return None if found is None else found["kind"]

    text, cases = reduce(program.text, cases, fails, seconds, tir_reducer.CANDIDATES if is_tir else None)
    found = failure_of(holds, text, cases, **options)
    return ready_test(failure["property"], text, cases, comment=found["message"] if found else "", **options)


def work(job: int, options: argparse.Namespace, results: Any) -> None:
    """A process: programs until the time is over, or nobody waits for them."""
    until = time.monotonic() + options.seconds
    index = job
    parent = mp.parent_process()
    while time.monotonic() < until and (parent is None or parent.is_alive()):
        seed_file(job).write_text(f"{options.seed}:{index}")
        try:
            features, failures = check(f"{options.seed}:{index}", index // options.jobs, options.property)
        except Exception:  # noqa: BLE001 (an error of the generator, or not a Failure)
            failures = [{"seed": f"{options.seed}:{index}", "property": "generator", "kind": "generator",
                         "message": traceback.format_exc(), "options": {}}]  # fmt: skip
            features = Counter()
        results.put((index, features, failures))
        index += options.jobs
    results.put((job, None, None))


def seed_file(job: int) -> Path:
    """The file in which a process notes what it works on: if it dies, nobody else can say."""
    return Path(os.environ["RELAX_CACHE_DIR"]) / f"seed-{job}.txt"


# -------------------------------------------------------------------------------------------- the whole


def run(options: argparse.Namespace) -> int:
    """All processes: progress, failures, statistics."""
    context = mp.get_context("spawn")
    results = context.Queue()
    workers = [context.Process(target=work, args=(j, options, results), daemon=True) for j in range(options.jobs)]
    for worker in workers:
        worker.start()
    features: Counter[str] = Counter()
    failures: dict[tuple[str, str], dict[str, Any]] = {}
    programs, running, start, shown = 0, len(workers), time.monotonic(), time.monotonic()
    while running:
        try:
            _, found, failed = results.get(timeout=5)
        except Empty:
            dead = [job for job, worker in enumerate(workers) if worker.exitcode not in (None, 0)]
            if dead:
                for job in dead:
                    print(f"a process died at the program of seed {seed_file(job).read_text()!r}: look for a crash")
                return 1
            continue
        if found is None:
            running -= 1
            continue
        programs += 1
        features.update(set(found))
        for failure in failed:
            if failures.setdefault((failure["property"], failure["kind"]), failure) is failure:
                print(f"{failure['property']} fails for {failure['seed']!r}: {failure['message'][:300]}", flush=True)
        if failures and not options.keep_going:
            break
        if time.monotonic() - shown > 10:
            shown = time.monotonic()
            rate = programs / (shown - start)
            print(
                f"{programs} programs, {rate:.1f}/s, {len(features)} constructs, {len(failures)} sorts of failures",
                flush=True,
            )
    for worker in workers:
        worker.terminate()
    status = report_features(features, programs, options.property)
    for number, failure in enumerate(failures.values()):
        report_failure(failure, options, number)
        status = 1
    print(f"{programs} programs with seed {options.seed}: {len(failures)} sorts of failures")
    return status


def report_features(features: Counter[str], programs: int, names: list[str] | None) -> int:
    """Print how many programs had each construct; 1 if one that is known had none."""
    from differential import kernel_programs, relay_programs, schedule_programs, schedule_properties
    from differential.generator import all_features
    from differential.tir_programs import FEATURES
    from relax.ir import Op

    known: set[str] = set(FEATURES) if names is None or TIR in names else set()
    if names is None or SCHEDULES in names:
        known |= {*schedule_programs.FEATURES, *schedule_properties.FEATURES}
    if names is None or RELAY in names:
        known |= {f"relay:{feature}" for feature in relay_programs.FEATURES}
    if names is None or KERNELS in names:
        known |= set(kernel_programs.FEATURES)
    if names not in ([TIR], [ONNX], [BRANCHES], [SCHEDULES], [RELAY], [KERNELS]):
        known |= all_features()
        known |= {"R." + name.removeprefix("relax.") for name in Op.list_op_names() if name.startswith("relax.")}
        known -= OPERATORS_OF_THE_MACHINE
    print("programs with each construct:")
    rows = [f"{name} {features[name]}" for name in sorted(known | set(features), key=lambda n: -features[n])]
    print("  " + ", ".join(rows))
    if features[REFUSED] > 5 + programs // 50:
        print(f"{features[REFUSED]} of {programs} programs are refused, because an operator is proved to fail")
        return 1
    missing = sorted(name for name in known if not features[name])
    if missing and programs >= ENOUGH:
        print(f"never made: {', '.join(missing)}")
        return 1
    return 0


def report_failure(failure: dict[str, Any], options: argparse.Namespace, number: int) -> None:
    """Reduce a failure and show it as a test."""
    print(f"\n{failure['property']} fails for the program of seed {failure['seed']!r}:\n{failure['message'][:3000]}")
    if failure["property"] in ("generator", ONNX, BRANCHES, RELAY):  # those have no program that could be reduced
        return
    try:
        text = reduced(failure, options.reduce_seconds)
    except ValueError as error:
        print(f"(it could not be reduced: {error})")
        return
    print("\n" + text)
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        path = options.out / f"test_found_{options.seed}_{number}.py"
        path.write_text(text)
        print(f"written to {path}")


def main() -> int:
    """Run with a kernel cache of its own, so that the user's does not grow."""
    options = arguments()
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {options.seed}, {options.jobs} processes, {options.seconds:g} seconds")
    with tempfile.TemporaryDirectory(prefix="relax-fuzz-") as cache:
        os.environ["RELAX_CACHE_DIR"] = cache
        os.environ["RELAX_CACHE_PROGRAMS"] = "0"  # no random program comes twice
        return run(options)


if __name__ == "__main__":
    sys.exit(main())
