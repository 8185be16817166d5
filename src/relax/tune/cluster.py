"""Tuning on the machines of a Ray cluster: candidates are scheduled, compiled and measured by workers.

    with Cluster("auto", target, conditions) as cluster:
        with cluster.measurer(kernel, default) as measurer:     the interface of `measuring.Measurer`
            for digest, result in measurer.measure_all(requests, pairs): …

A worker is a Ray actor on a node that offers the resource of the target's processor (`processor_resource`). It has a
measuring process of its own. The driver searches, and alone writes records: a worker that dies loses the candidate at
hand, which another worker measures again, and a new worker takes its place as long as the cluster offers the resource.

Needs the package ``ray``: ``pip install relax[ray]``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import itertools
import os
import socket
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Final, TypeVar

from ..farm.host import executes, resolve
from ..farm.tuning_records import records_version
from ..ir import Diagnostic, DiagnosticError
from ..runtime.records import dataclass
from ..schedules.rule import PackedFunction, ScheduleRule
from ..target import Machine, Target
from .candidates import Candidate, Job, built
from .kernels import CANNOT, Kernel, NotTunable, Sizes
from .measuring import Conditions, Measurement, Measurer, Request, portable
from .measuring_process import Failed

PATIENCE: Final = 60.0
"""Seconds to wait for a worker while there is none."""
ATTEMPTS: Final = 3
"""Workers that may die at a candidate before it is dropped."""
_POLL: Final = 0.5
"""Seconds between two looks at the resources of the cluster."""
_ANSWER: Final = 10.0
"""Seconds that the head of a cluster has to accept a connection."""

_Key = TypeVar("_Key")


def processor_resource(target: str | Target | None = None) -> str:
    """Return the name of the Ray resource that a node offers to measure for a target: ``"avx512-vnni"``.

    It names the vector registers, and the instructions for dot products and tiles of bytes. A node offers it with
    ``ray start --resources='{"avx512-vnni": 1}'``; the number is that of workers on the node.
    """
    machine = resolve(target).machine
    names = [vectors.name for vectors in machine.isa.vectors if vectors.bits == machine.vector_bits and vectors.name]
    words = [*(names or [f"{machine.isa.name}-{machine.vector_bits}"])]
    dots = [machine.isa.dot(kind) for kind in sorted(machine.dot_products)]
    words += [dot.extension for dot in dots if dot is not None and dot.extension]
    if machine.tiles:
        words.append("tiles")
    return "-".join(words)


# -------------------------------------------------------------------------------------- in a worker


@dataclass(frozen=True)
class Task:
    """A kernel under search, as workers get it."""

    number: int
    kernel: Kernel
    default: PackedFunction | None
    """Default schedule, once it is known: needed for measurements."""
    bare_target: Target
    machine: Machine
    rules: tuple[ScheduleRule, ...]
    conditions: Conditions

    @property
    def target(self) -> Target:
        """The resolved target: its machine is not part of what is pickled."""
        return self.bare_target.with_machine(self.machine)


@dataclass(frozen=True)
class Fitness:
    """Answer of a new worker: its machine, and why it cannot measure for the driver."""

    host: str
    process: int
    reason: str
    """Empty if it can."""


class Worker:
    """Schedules and measures candidates; an actor of Ray."""

    def __init__(self) -> None:
        self._measurer: Measurer | None = None
        self._measured: tuple[int, int] | None = None
        """Task of the measurer, and its place."""

    def fitness(self, target: Target, machine: Machine, version: str | None) -> Fitness:
        """Compare this machine and its relax with the driver's."""
        own = resolve(target)
        reason = ""
        if records_version() != version:
            reason = "it has another version of relax"
        elif not executes(own):
            reason = f"it cannot run code for {own}"
        elif dataclasses.replace(own.machine, cores=machine.cores) != machine:
            reason = "its processor differs"
        return Fitness(socket.gethostname(), os.getpid(), reason)

    def build(self, task: Task, job: Job) -> Candidate | str:
        """Return the candidate of a choice, ready for another process, or why there is none."""
        candidate = built(job, task.kernel, task.target, task.rules)
        if isinstance(candidate, str):
            return candidate
        variant = portable(candidate.variant, task.kernel)
        return Candidate(candidate.choice, variant, candidate.digest)

    def seconds(self, task: Task, place: int) -> tuple[float, ...] | Failed:
        """Return the time of a call of the default schedule at each size."""
        try:
            return self._ready(task, place).seconds
        except NotTunable as error:
            return Failed(str(error))

    def measure(
        self, task: Task, place: int, digest: bytes, variant: PackedFunction, pairs: int, beside: Sequence[Sizes]
    ) -> Measurement | Failed:
        """Measure a candidate beside the default schedule."""
        try:
            return self._ready(task, place).measure(digest, variant, pairs, beside)
        except NotTunable as error:
            return Failed(f"its default schedule fails: {error}")

    def end(self) -> None:
        """End the measuring process."""
        if self._measurer is not None:
            self._measurer.__exit__(None, None, None)
            self._measurer = self._measured = None

    def _ready(self, task: Task, place: int) -> Measurer:
        if self._measurer is None or self._measured != (task.number, place):
            self.end()
            assert task.default is not None
            conditions = dataclasses.replace(task.conditions, place=place)
            self._measurer = Measurer(task.kernel, task.default, task.target, conditions).__enter__()
            self._measured = task.number, place
        return self._measurer


# -------------------------------------------------------------------------------------- in the driver


@dataclass(frozen=True)
class _Call:
    """Call of a worker's method: its arguments, behind those that `is_placed` adds."""

    method: str
    task: Any
    """Reference to a `Task`."""
    is_placed: bool
    arguments: tuple[Any, ...] = ()


class _Member:
    """A worker of the cluster as the driver sees it."""

    def __init__(self, actor: Any) -> None:
        self.actor, self.place, self.host, self.process = actor, -1, "", 0
        self.fitness: Any = None
        """Ray's reference to the worker's `Fitness`."""


class Cluster:
    """Context manager of the workers on the nodes of a Ray cluster that fit a resolved target.

    `address` is that of the cluster: ``"auto"``, or ``"head:6379"``; one that this process has joined is used, and not
    left. Raises ImportError if the package ``ray`` is missing, ConnectionError if there is no cluster at `address`, and
    DiagnosticError (E4112) if no node fits.
    """

    def __init__(self, address: str, target: Target, conditions: Conditions | None = None) -> None:
        self._address, self._target, self._conditions = address, target, conditions or Conditions()
        self.resource = processor_resource(target)
        self._ray: Any = None
        self._leaves = False
        self._actor: Any = None
        self._members: list[_Member] = []
        self._coming: list[_Member] = []
        self._unfit: list[tuple[_Member, Fitness]] = []
        self._failed, self._failure = 0, ""
        """Workers that did not start since the last one that did, and why."""
        self._looked = -PATIENCE
        self._number = itertools.count()
        self.replaced = 0
        """Workers that died."""

    def __enter__(self) -> Cluster:
        ray = self._ray = _imported()
        if not ray.is_initialized():
            _reach(self._address)
            ray.init(address=self._address, log_to_driver=False, logging_level="warning")
            self._leaves = True
        self._actor = ray.remote(Worker).options(
            num_cpus=self._conditions.threads, resources={self.resource: 1}, max_restarts=0, max_task_retries=0
        )
        try:
            self._look()
            if not self._coming:
                raise self._no_worker("no node offers the resource")
            self._wait_for_one()
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    @property
    def at_once(self) -> int:
        """Number of workers."""
        return max(len(self._members), 1)

    @property
    def processes(self) -> list[tuple[str, int]]:
        """Host and process id of each worker, in the order in which they joined."""
        return [(member.host, member.process) for member in self._members]

    def builder(self, kernel: Kernel, rules: Sequence[ScheduleRule]) -> ClusterBuilder:
        """Return the builder of a kernel's candidates."""
        return ClusterBuilder(self, self._task(kernel, None, rules))

    def measurer(self, kernel: Kernel, default: PackedFunction) -> ClusterMeasurer:
        """Return the measurer of a kernel."""
        return ClusterMeasurer(self, self._task(kernel, portable(default, kernel), ()))

    def _task(self, kernel: Kernel, default: PackedFunction | None, rules: Sequence[ScheduleRule]) -> Any:
        target, machine = self._target, self._target.machine
        number = next(self._number)
        return self._ray.put(Task(number, kernel, default, target, machine, tuple(rules), self._conditions))

    def answers(self, calls: Iterable[tuple[_Key, _Call]]) -> Iterator[tuple[_Key, Any]]:
        """Have workers answer calls, each as soon as one is free; yield keys and answers as they come.

        The answer is a `Failed` for a call at which `ATTEMPTS` workers died. Raises DiagnosticError (E4112) if there is
        no worker for `PATIENCE` seconds.
        """
        ray = self._ray
        waiting, again = iter(calls), deque[tuple[_Key, _Call, int]]()
        flying: dict[Any, tuple[_Member, _Key, _Call, int]] = {}
        while True:
            self._look()
            busy = {id(member) for member, *_ in flying.values()}
            for member in [member for member in self._members if id(member) not in busy]:
                if not again:
                    again.extend((key, call, 1) for key, call in itertools.islice(waiting, 1))
                if not again:
                    break
                key, call, attempt = again.popleft()
                placed = (member.place,) if call.is_placed else ()
                reference = getattr(member.actor, call.method).remote(call.task, *placed, *call.arguments)
                flying[reference] = member, key, call, attempt
            if not flying and self._members:
                return
            if not self._members:
                self._wait_for_one()
                continue
            for reference in ray.wait(list(flying), num_returns=1, timeout=_POLL)[0]:
                member, key, call, attempt = flying.pop(reference)
                try:
                    answer = ray.get(reference)
                except (ray.exceptions.RayActorError, ray.exceptions.RaySystemError, ray.exceptions.GetTimeoutError):
                    self._lose(member)
                    if attempt < ATTEMPTS:
                        again.append((key, call, attempt + 1))
                        continue
                    answer = Failed(f"{ATTEMPTS} workers died at it")
                except ray.exceptions.RayTaskError as error:
                    answer = Failed(f"{type(error.cause).__name__}: {error.cause}")
                yield key, answer

    # ---------------------------------------------------------------- workers

    def _look(self) -> None:
        """Start workers for resources that the cluster offers beyond those in use; welcome those that have started."""
        ray = self._ray
        if time.monotonic() - self._looked > _POLL:
            self._looked = time.monotonic()
            offered = int(ray.cluster_resources().get(self.resource, 0))
            absent = offered - len(self._members) - len(self._coming) - len(self._unfit)
            for _ in range(absent if self._failed < ATTEMPTS * offered else 0):
                member = _Member(self._actor.remote())
                member.fitness = member.actor.fitness.remote(self._target, self._target.machine, records_version())
                self._coming.append(member)
        for member in tuple(self._coming):
            if not ray.wait([member.fitness], timeout=0)[0]:
                continue
            self._coming.remove(member)
            try:
                fitness: Fitness = ray.get(member.fitness)
            except ray.exceptions.RayError as error:
                self._failed += 1
                self._failure = str(error).strip().splitlines()[-1].strip()
                continue
            self._failed = 0
            if fitness.reason:  # it keeps the resource, so that no other worker is started there
                self._unfit.append((member, fitness))
                continue
            member.host, member.process = fitness.host, fitness.process
            places = {other.place for other in self._members if other.host == member.host}
            member.place = next(place for place in itertools.count() if place not in places)
            self._members.append(member)

    def _wait_for_one(self) -> None:
        """Wait until there is a worker. Raises DiagnosticError (E4112) if there is none after `PATIENCE` seconds."""
        until = time.monotonic() + PATIENCE
        while not self._members:
            if not self._coming and self._unfit:
                raise self._no_worker("no node fits")
            if not self._coming and self._failed > ATTEMPTS:
                raise self._no_worker(f"no worker starts ({self._failure})")
            if time.monotonic() > until:
                raise self._no_worker(f"no worker started within {PATIENCE:g} s")
            if self._coming:
                self._ray.wait([member.fitness for member in self._coming], num_returns=1, timeout=_POLL)
            else:
                time.sleep(_POLL)
            self._look()

    def _lose(self, member: _Member) -> None:
        if member in self._members:
            self._members.remove(member)
            self.replaced += 1
            self._looked = -PATIENCE

    def _no_worker(self, reason: str) -> DiagnosticError:
        message = f"cannot tune for {self._target} on the cluster {self._address}: {reason}"
        hint = f"offer the processor on each machine that has it: ray start --resources='{{\"{self.resource}\": 1}}'"
        notes = sorted({f"{fitness.host}: {fitness.reason}" for _, fitness in self._unfit})
        return DiagnosticError(Diagnostic(CANNOT, message, hint=hint, notes=tuple(notes[:10])))

    def _leave(self) -> None:
        """End the workers; leave the cluster if this process joined it for tuning."""
        ray = self._ray
        with contextlib.suppress(ray.exceptions.RayError):
            ending = [member.actor.end.remote() for member in self._members]
            if ending:
                ray.wait(ending, num_returns=len(ending), timeout=5)
        for member in (*self._members, *self._coming, *(member for member, _ in self._unfit)):
            with contextlib.suppress(ray.exceptions.RayError):
                ray.kill(member.actor)
        self._members, self._coming, self._unfit = [], [], []
        if self._leaves:
            ray.shutdown()
            self._leaves = False


class ClusterBuilder:
    """Builds candidates of one kernel in workers."""

    def __init__(self, cluster: Cluster, task: Any) -> None:
        self._cluster, self._task = cluster, task

    @property
    def at_once(self) -> int:
        """Number of jobs that keep all workers busy."""
        return 2 * self._cluster.at_once

    def build(self, jobs: Sequence[Job]) -> list[Candidate | str]:
        """Return the candidate of each job, or why there is none."""
        calls = ((number, _Call("build", self._task, False, (job,))) for number, job in enumerate(jobs))
        answers = dict(self._cluster.answers(calls))
        found = [answers[number] for number in range(len(jobs))]
        return [answer.reason if isinstance(answer, Failed) else answer for answer in found]


class ClusterMeasurer:
    """Measures candidates of one kernel in workers, with the interface of `Measurer`.

    Raises NotTunable if the default schedule cannot be measured with random arguments.
    """

    def __init__(self, cluster: Cluster, task: Any) -> None:
        self._cluster, self._task = cluster, task
        self.seconds: tuple[float, ...] = ()
        """Time of a call of the default schedule at each size."""

    def __enter__(self) -> ClusterMeasurer:
        answer = self._one(_Call("seconds", self._task, True))
        if isinstance(answer, Failed):
            raise NotTunable(answer.reason)
        self.seconds = answer
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the measuring processes to the next kernel, or to the end of the cluster."""

    def measure(
        self, digest: bytes, candidate: PackedFunction, pairs: int, beside: Sequence[Sizes] = ()
    ) -> Measurement | Failed:
        """Measure a candidate by pairs of samples, in the same worker as long as that lives."""
        return self._one(self._call((digest, candidate, beside), pairs))

    def measure_all(self, requests: Iterable[Request], pairs: int) -> Generator[tuple[bytes, Measurement | Failed]]:
        """Measure candidates in all workers; yield digests and results as they come.

        A request is taken from the iterable when a worker is free for it.
        """
        yield from self._cluster.answers((request[0], self._call(request, pairs)) for request in requests)

    def _call(self, request: Request, pairs: int) -> _Call:
        digest, candidate, beside = request
        return _Call("measure", self._task, True, (digest, candidate, pairs, tuple(beside)))

    def _one(self, call: _Call) -> Any:
        ((_, answer),) = self._cluster.answers([(0, call)])
        return answer


def _reach(address: str) -> None:
    """Raise ConnectionError unless `address` is ``"auto"`` or a server listens there: Ray would try for minutes."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise ConnectionError(f"the address {address!r} of a Ray cluster is neither auto nor HOST:PORT")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _ANSWER).close()
    except (OSError, UnicodeError) as error:
        raise ConnectionError(f"there is no Ray cluster at {address}: {error}") from None


def _imported() -> Any:
    """Import Ray. Raises ImportError with the command that installs it if it is missing."""
    try:
        return importlib.import_module("ray")
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        message = "tuning on a cluster needs the package ray: pip install relax[ray]"
        raise ImportError(message, name="ray") from None
