"""LLVM's part of code generation: a text in, an object out. Imported by relax, and run alone as a helper process.

llvmlite lets one thread of a process at a time into LLVM, so several processors need several processes. This file is
run by its path, and imports only llvmlite: a helper process starts in a fraction of the time relax takes to import.
It imports a module of relax only if it is told to do errands, which that module's function `answer` does.
A helper reads from standard input, and answers on standard output, messages of a length (4 bytes) and bytes:

    the machine and the module for errands, as JSON  →  "ready", or "ready for errands"
    a machine, a line end, a text                    →  its object; nothing, if LLVM does not accept the text
    "errand", a line end, an order                   →  the module's answer to the order
    …                                                   until its input ends
"""

from __future__ import annotations

import gc
import importlib
import io
import json
import os
import queue
import re
import struct
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import lru_cache
from typing import IO, Any, NamedTuple

READY = b"ready"
"""First answer of a helper that compiles texts."""

READY_FOR_ERRANDS = b"ready for errands"
"""First answer of a helper that does errands as well."""


class _Binding:
    """llvmlite's binding, which loads LLVM: 50 MB that a build does without that finds its program in the cache."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("llvmlite.binding"), name)


llvm: Any = _Binding()
"""The names of llvmlite's binding. It is imported when the first of them is used."""

IN_ORDER = "; keep the order of instructions"
"""First line of a text whose order of instructions LLVM's machine scheduler must not change.

The scheduler hoists the loads of an unrolled kernel on tiles in registers until registers spill. The order in which
such a kernel is written is right already.
"""

IN_VECTORS = "; operations on vectors are written out"
"""Line behind it of a text whose loops LLVM need not look for vectors in: most of its time goes into that.

In a text that has both lines there is nothing to move out of loops either. A few passes do for it.
"""

AS_WRITTEN = "; few instructions are run twice"
"""First line of a text that is compiled as it stands: of functions that call others, and have no loops.

To optimise it would take five times as long, and save a hundredth of the time of a call.
"""

_scheduling = threading.Lock()
_scheduled = [True]
"""The present setting, which is that of the whole process."""

_LENGTH = struct.Struct("<I")


class Errands(NamedTuple):
    """The module whose function `answer` does errands, by its name, and by its file: it must be the one found there."""

    module: str = ""
    file: str = ""


class Machine(NamedTuple):
    """The machine that LLVM compiles for, and the level of optimisation."""

    triple: str
    cpu: str
    features: str
    opt_level: int


@lru_cache(maxsize=8)
def initialize(triple: str) -> None:
    """Make LLVM ready to compile for a triple: for this kind of machine, or in 13 MB more for any it knows."""
    if triple.partition("-")[0] == str(llvm.get_process_triple()).partition("-")[0]:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()


@lru_cache(maxsize=8)
def target_machine(machine: Machine) -> Any:
    """LLVM's target machine, for position-independent code."""
    initialize(machine.triple)
    return llvm.Target.from_triple(machine.triple).create_target_machine(
        cpu=machine.cpu, features=machine.features, opt=machine.opt_level, reloc="pic", codemodel="small"
    )


def optimised(text: str, machine: Machine) -> Any:
    """The LLVM module of an IR text, verified and optimised. Raises RuntimeError if LLVM does not accept the text."""
    module = llvm.parse_assembly(_with_class_instruction(text, machine))
    module.verify()
    if as_written(text):
        return module
    vectors = machine.opt_level >= 2 and not in_vectors(text)
    options = llvm.create_pipeline_tuning_options(
        speed_level=machine.opt_level if vectors else min(machine.opt_level, 1)
    )
    options.loop_vectorization = options.loop_interleaving = vectors
    # Scalars beside tiles are indices and checks of them, not worth to be gathered into vectors.
    options.slp_vectorization = vectors and not text.startswith(IN_ORDER)
    options.loop_unrolling = machine.opt_level >= 2
    passes = llvm.create_pass_builder(target_machine(machine), options)
    if machine.opt_level >= 1 and text.startswith(IN_ORDER) and in_vectors(text):
        _few_passes().run(module, passes)
    else:
        passes.getModulePassManager().run(module, passes)
    return module


def _with_class_instruction(text: str, machine: Machine) -> str:
    """A text that asks vfpclassps for floats that are NaN or subnormal, where the machine has it.

    Of its own general classes of floats LLVM 22 makes comparisons of integers, three or four instructions each.
    """
    lanes = {int(found[1]) for found in _RARE_CLASSES.finditer(text)}
    if not lanes or not _has_classes(machine):
        return text
    declared = "".join(
        f"declare <{n} x i1> {_class_function(n)}(<{n} x float>, i32)\n" for n in sorted(lanes)
    )
    called = _RARE_CLASSES.sub(lambda found: f"{_class_function(int(found[1]))}({found[2]}, i32 161)", text)
    return f"{called}\n{declared}"


_RARE_CLASSES = re.compile(r"@llvm\.is\.fpclass\.v(8|16)f32\(([^()]*), i32 147\)")
"""A call of LLVM's general classes: NaN and subnormal numbers, which are 161 as vfpclassps counts."""


def _class_function(lanes: int) -> str:
    return f"@llvm.x86.avx512.fpclass.ps.{32 * lanes}"


_LONG_TO_DOUBLE = """define <4 x double> @f(<4 x i64> %a) {
  %r = sitofp <4 x i64> %a to <4 x double>
  ret <4 x double> %r
}"""


@lru_cache(maxsize=8)
def _has_classes(machine: Machine) -> bool:
    """True if the machine has vfpclassps for vectors of all lengths: AVX512DQ and AVX512VL, as for vcvtqq2pd."""
    module = llvm.parse_assembly(f'target triple = "{machine.triple}"\n{_LONG_TO_DOUBLE}')
    return re.search(r"vcvtqq2pd\s+%ymm", str(target_machine(machine).emit_assembly(module))) is not None


def as_written(text: str) -> bool:
    """True for a text that begins with `AS_WRITTEN`."""
    return text.startswith(AS_WRITTEN)


def in_vectors(text: str) -> bool:
    """True for a text that says so."""
    return IN_VECTORS in text[: len(IN_ORDER) + len(IN_VECTORS) + 2]


def _few_passes() -> Any:
    """The passes for straight-line code on vectors."""
    manager = llvm.create_new_module_pass_manager()
    manager.add_always_inliner_pass()
    manager.add_sroa_pass()
    manager.add_instruction_combine_pass()
    manager.add_simplify_cfg_pass()
    return manager


def emit_object(text: str, machine: Machine) -> bytes:
    """A relocatable ELF object."""
    data = _object(text, machine)
    careful = _without_lost_masks(data, text, machine)
    return data if careful is machine else _object(text, careful)


def emit_assembly(text: str, machine: Machine) -> str:
    """The assembly of what `emit_object` would give."""
    return _assembly(text, _without_lost_masks(_object(text, machine), text, machine))


def _object(text: str, machine: Machine) -> bytes:
    module = optimised(text, machine)
    with _scheduler(text):
        return bytes(_emitter(text, machine).emit_object(module))


def _assembly(text: str, machine: Machine) -> str:
    module = optimised(text, machine)
    with _scheduler(text):
        return str(_emitter(text, machine).emit_assembly(module))


def _emitter(text: str, machine: Machine) -> Any:
    """LLVM's target machine that makes code of a text's module."""
    return target_machine(machine._replace(opt_level=0) if as_written(text) else machine)


def _without_lost_masks(data: bytes, text: str, machine: Machine) -> Machine:
    """The machine to compile a text for, given its object: without the instructions that LLVM is wrong about.

    LLVM 22 (its X86CompressEVEX) makes one instruction of a mask of signs and its copy to a general register,

        vpmovq2m  %xmm0, %k0                       vmovmskpd %xmm0, %eax
        kmovd     %k0, %eax             gives      korw      %k0, %k1, %k0
        korw      %k0, %k1, %k0

    also where, as here, the next instruction reads the mask before it writes to it: its result is then anything. What
    is made of vpmovd2m and vpmovq2m shows as vmovmskps and vmovmskpd, of vpmovb2m as vpmovmskb. Where one of them
    occurs, the text is compiled without AVX512DQ, or AVX512BW, to which the instructions for masks of signs belong.
    Raises RuntimeError if it cannot be: the text calls an instruction that takes AVX512BW.
    """
    if not _SIGNS.search(data) or not _has_masks(machine):
        return machine
    code = _assembly(text, machine)
    without = ["avx512dq"] if "vmovmskp" in code else []
    if "vpmovmskb" in code:
        if "@llvm.x86." in text:
            raise RuntimeError("LLVM may lose a mask of the signs of bytes")
        without.append("avx512bw")
    features = [*filter(None, machine.features.split(",")), *(f"-{feature}" for feature in without)]
    return machine._replace(features=",".join(features)) if without else machine


_SIGNS = re.compile(
    rb"(?:\xc5|\xc4[\x01\x21\x41\x61\x81\xa1\xc1\xe1])[\x78\x79\x7c\x7d\xf8\xf9\xfc\xfd][\x50\xd7][\xc0-\xff]"
)
"""The code of vmovmskps, vmovmskpd and vpmovmskb; other bytes that look like it are rare."""

_COMPARISON = """define <4 x i32> @f(<4 x i32> %a, <4 x i32> %b) {
  %c = icmp slt <4 x i32> %a, %b
  %r = select <4 x i1> %c, <4 x i32> %a, <4 x i32> zeroinitializer
  ret <4 x i32> %r
}"""


@lru_cache(maxsize=8)
def _has_masks(machine: Machine) -> bool:
    """True if the machine has vectors of 128 bits under masks that are registers (AVX512VL)."""
    module = llvm.parse_assembly(f'target triple = "{machine.triple}"\n{_COMPARISON}')
    return "%k" in str(target_machine(machine).emit_assembly(module))


@contextmanager
def _scheduler(text: str) -> Generator[None]:
    """A context in which LLVM's machine scheduler is on, or off if the text asks for that."""
    wanted = not text.startswith(IN_ORDER)
    with _scheduling:
        if _scheduled[0] != wanted:
            llvm.set_option("", f"-enable-misched={'true' if wanted else 'false'}")
            _scheduled[0] = wanted
        yield


def emit_notes(text: str, machine: Machine) -> str:
    """The assembly with LLVM's comments on loops and spills; remarks on what its loop passes did go to stderr.

    Only for a process of its own: LLVM's options are those of the process.
    """
    initialize(machine.triple)
    for option in ("-pass-remarks", "-pass-remarks-missed", "-pass-remarks-analysis"):
        llvm.set_option("relax", f"{option}=^(loop-vectorize|loop-unroll|loop-idiom|slp-vectorizer)$")
    machine = _without_lost_masks(_object(text, machine), text, machine)
    target = target_machine(machine)
    target.set_asm_verbosity(True)
    return str(target.emit_assembly(optimised(text, machine)))


def packed(data: bytes) -> bytes:
    """A message."""
    return _LENGTH.pack(len(data)) + data


def send(stream: IO[bytes], data: bytes) -> None:
    """Write a message."""
    stream.write(packed(data))
    stream.flush()


def receive(stream: IO[bytes]) -> bytes:
    """Read a message. Raises EOFError if the stream ends before it does."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (size,) = _LENGTH.unpack(head)
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data


def unpacked(data: bytes) -> list[bytes]:
    """The messages in bytes, as far as they are complete."""
    stream, messages = io.BytesIO(data), list[bytes]()
    try:
        while True:
            messages.append(receive(stream))
    except EOFError:
        return messages


def setup(machine: Machine, errands: Errands) -> bytes:
    """The first message to a helper."""
    return json.dumps([machine, errands]).encode()


def with_machine(text: str, machine: Machine) -> bytes:
    """The order by which a helper compiles a text for a machine."""
    return f"{json.dumps(machine)}\n{text}".encode()


def as_errand(order: bytes) -> bytes:
    """The message by which a helper does an errand."""
    return _ERRAND + b"\n" + order


_ERRAND = b'"errand"'


def serve() -> None:
    """Do what comes in until nothing more does. Orders are read while others are done: nobody waits to send one."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints does not disturb the answers
    try:
        machine, errands = json.loads(receive(sys.stdin.buffer))
        target_machine(Machine(*machine))
        do_errand = _doer(Errands(*errands))
        send(answers, READY if do_errand is None else READY_FOR_ERRANDS)
        orders = queue.SimpleQueue[bytes | None]()
        threading.Thread(target=_read_orders, args=(orders,), daemon=True).start()
        while (message := orders.get()) is not None:
            head, _, order = message.partition(b"\n")
            if head != _ERRAND:
                data = _compiled(order.decode(), Machine(*json.loads(head)))
            else:
                data = b"" if do_errand is None else do_errand(order)
            send(answers, data)
    except (EOFError, BrokenPipeError):
        pass


def _read_orders(orders: queue.SimpleQueue[bytes | None]) -> None:
    """Hand on what comes in, and None at the end."""
    try:
        while True:
            orders.put(receive(sys.stdin.buffer))
    except EOFError:
        orders.put(None)


def _doer(errands: Errands) -> Callable[[bytes], bytes] | None:
    """The function that does errands; None if the module is not there, or in another file than it was said to be."""
    gc.disable()
    try:
        module: Any = importlib.import_module(errands.module) if errands.module else None
    except ImportError:
        return None
    finally:
        gc.freeze()  # what was imported stays: the collector need not look at it
        gc.enable()
    return module.answer if module is not None and module.__file__ == errands.file else None


def _compiled(text: str, machine: Machine) -> bytes:
    """The object of a text; nothing, if LLVM does not accept it."""
    try:
        return emit_object(text, machine)
    except RuntimeError:
        return b""


def note() -> None:
    """Answer each text by its assembly with comments, and end its remarks on stderr by a zero byte.

    A text that LLVM does not accept ends the answers; the reason is on stderr.
    """
    machine = Machine(*json.loads(receive(sys.stdin.buffer)))
    try:
        while True:
            text = receive(sys.stdin.buffer).decode()
            send(sys.stdout.buffer, emit_notes(text, machine).encode())
            sys.stderr.write("\0")
            sys.stderr.flush()
    except EOFError:
        pass
    except RuntimeError as error:
        sys.stderr.write(str(error))


if __name__ == "__main__":
    note() if sys.argv[-1] == "note" else serve()
