"""LLVM's part of code generation: text in, object out. Imported by relax, and run by itself as a worker process.

llvmlite admits one thread of a process to LLVM at a time, so using several cores needs several processes. This file is
run by its path, and imports only llvmlite: a worker process starts in a fraction of relax's import time. It imports a
module of relax only to do errands, by that module's function `answer`. A worker reads from standard input, and answers
on standard output; messages are a length (4 bytes) and bytes:

    the machine and the module for errands, as JSON  →  "ready", or "ready for errands"
    a machine, a line end, a text                    →  its object; empty if LLVM rejects the text
    "errand", a line end, a request                  →  the module's answer to the request
    …                                                   until the end of input
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
"""First answer of a worker process that compiles texts."""

READY_FOR_ERRANDS = b"ready for errands"
"""First answer of a worker process that also does errands."""


class _Binding:
    """llvmlite's binding, imported on first use.

    It loads LLVM (50 MB), which a build that finds its program in the cache does not need.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("llvmlite.binding"), name)


llvm: Any = _Binding()
"""llvmlite's binding, imported on first use."""

IN_ORDER = "; keep the order of instructions"
"""First line of a text whose instruction order LLVM's machine scheduler must keep.

The scheduler hoists the loads of an unrolled register tile until registers spill; such kernels are written in the right
order.
"""

IN_VECTORS = "; operations on vectors are written out"
"""Second line of a text without loops to vectorise; most of LLVM's time goes into vectorisation.

A text with both lines has no loop invariants to hoist either, so a few passes suffice.
"""

AS_WRITTEN = "; few instructions are run twice"
"""First line of a text compiled without optimisation: functions of calls without loops.

Optimising it would take five times as long, and save a hundredth of the time of a call.
"""

_scheduling = threading.Lock()
_scheduled = [True]
"""Current state of LLVM's machine scheduler, an option of the whole process."""

_LENGTH = struct.Struct("<I")


class Errands(NamedTuple):
    """Module whose function `answer` does errands: its name, and the file it must be found in."""

    module: str = ""
    file: str = ""


class LLVMTarget(NamedTuple):
    """Arguments of an LLVM target machine: triple, processor, features, and the optimisation level (0 to 3)."""

    triple: str
    cpu: str
    features: str
    opt_level: int


@lru_cache(maxsize=8)
def initialize(triple: str) -> None:
    """Initialise LLVM for a triple: the native target only, or all targets (13 MB more)."""
    if triple.partition("-")[0] == str(llvm.get_process_triple()).partition("-")[0]:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()


@lru_cache(maxsize=8)
def target_machine(machine: LLVMTarget) -> Any:
    """LLVM's target machine for position-independent code."""
    initialize(machine.triple)
    return llvm.Target.from_triple(machine.triple).create_target_machine(
        cpu=machine.cpu, features=machine.features, opt=machine.opt_level, reloc="pic", codemodel="small"
    )


def optimised(text: str, machine: LLVMTarget) -> Any:
    """Verified and optimised LLVM module of an IR text. Raises RuntimeError if LLVM rejects the text."""
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


def _with_class_instruction(text: str, machine: LLVMTarget) -> str:
    """Replace tests for NaN or subnormal floats by vfpclassps if the CPU has it.

    LLVM 22 expands its generic llvm.is.fpclass to three or four integer instructions each.
    """
    lanes = {int(match[1]) for match in _RARE_CLASSES.finditer(text)}
    if not lanes or not _has_classes(machine):
        return text
    declared = "".join(f"declare <{n} x i1> {_class_function(n)}(<{n} x float>, i32)\n" for n in sorted(lanes))
    called = _RARE_CLASSES.sub(lambda match: f"{_class_function(int(match[1]))}({match[2]}, i32 161)", text)
    return f"{called}\n{declared}"


_RARE_CLASSES = re.compile(r"@llvm\.is\.fpclass\.v(8|16)f32\(([^()]*), i32 147\)")
"""Call of LLVM's generic test for NaN and subnormal numbers; the mask for vfpclassps is 161."""


def _class_function(lanes: int) -> str:
    return f"@llvm.x86.avx512.fpclass.ps.{32 * lanes}"


_LONG_TO_DOUBLE = """define <4 x double> @f(<4 x i64> %a) {
  %r = sitofp <4 x i64> %a to <4 x double>
  ret <4 x double> %r
}"""


@lru_cache(maxsize=8)
def _has_classes(machine: LLVMTarget) -> bool:
    """True if the CPU has vfpclassps for vectors of all lengths: AVX512DQ and AVX512VL, as for vcvtqq2pd."""
    module = llvm.parse_assembly(f'target triple = "{machine.triple}"\n{_LONG_TO_DOUBLE}')
    return re.search(r"vcvtqq2pd\s+%ymm", str(target_machine(machine).emit_assembly(module))) is not None


def as_written(text: str) -> bool:
    """True for a text that begins with `AS_WRITTEN`."""
    return text.startswith(AS_WRITTEN)


def in_vectors(text: str) -> bool:
    """True for a text with the line `IN_VECTORS`."""
    return IN_VECTORS in text[: len(IN_ORDER) + len(IN_VECTORS) + 2]


def _few_passes() -> Any:
    """The passes for straight-line code on vectors."""
    manager = llvm.create_new_module_pass_manager()
    manager.add_always_inliner_pass()
    manager.add_sroa_pass()
    manager.add_instruction_combine_pass()
    manager.add_simplify_cfg_pass()
    return manager


def emit_object(text: str, machine: LLVMTarget) -> bytes:
    """Compile a text to a relocatable ELF object."""
    data = _object(text, machine)
    careful = _without_lost_masks(data, text, machine)
    return data if careful is machine else _object(text, careful)


def emit_assembly(text: str, machine: LLVMTarget) -> str:
    """Assembly of the code that `emit_object` produces."""
    return _assembly(text, _without_lost_masks(_object(text, machine), text, machine))


def _object(text: str, machine: LLVMTarget) -> bytes:
    module = optimised(text, machine)
    with _scheduler(text):
        return bytes(_emitter(text, machine).emit_object(module))


def _assembly(text: str, machine: LLVMTarget) -> str:
    module = optimised(text, machine)
    with _scheduler(text):
        return str(_emitter(text, machine).emit_assembly(module))


def _emitter(text: str, machine: LLVMTarget) -> Any:
    """LLVM's target machine for code generation from a text's module."""
    return target_machine(machine._replace(opt_level=0) if as_written(text) else machine)


def _without_lost_masks(data: bytes, text: str, machine: LLVMTarget) -> LLVMTarget:
    """Return the machine to compile a text for, given its object, without instructions that LLVM miscompiles.

    LLVM 22 (its X86CompressEVEX) combines a mask of signs with its copy to a general register,

        vpmovq2m  %xmm0, %k0                       vmovmskpd %xmm0, %eax
        kmovd     %k0, %eax             gives      korw      %k0, %k1, %k0
        korw      %k0, %k1, %k0

    even if, as here, the next instruction reads the mask before writing it: its result is then undefined. Combined
    vpmovd2m and vpmovq2m appear as vmovmskps and vmovmskpd, vpmovb2m as vpmovmskb. If the object has one of them, the
    text is compiled without AVX512DQ, or AVX512BW, the extensions with masks of signs. Raises RuntimeError if that is
    impossible because the text calls an instruction of AVX512BW.
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
def _has_masks(machine: LLVMTarget) -> bool:
    """True if the CPU has mask registers for 128-bit vectors (AVX512VL)."""
    module = llvm.parse_assembly(f'target triple = "{machine.triple}"\n{_COMPARISON}')
    return "%k" in str(target_machine(machine).emit_assembly(module))


@contextmanager
def _scheduler(text: str) -> Generator[None]:
    """Context manager: LLVM's machine scheduler is on, or off for a text with the line `IN_ORDER`."""
    wanted = not text.startswith(IN_ORDER)
    with _scheduling:
        if _scheduled[0] != wanted:
            llvm.set_option("", f"-enable-misched={'true' if wanted else 'false'}")
            _scheduled[0] = wanted
        yield


def emit_notes(text: str, machine: LLVMTarget) -> str:
    """Assembly with LLVM's comments on loops and spills; remarks of its loop passes go to stderr.

    Must run in a separate process: LLVM's options apply to the whole process.
    """
    initialize(machine.triple)
    for option in ("-pass-remarks", "-pass-remarks-missed", "-pass-remarks-analysis"):
        llvm.set_option("relax", f"{option}=^(loop-vectorize|loop-unroll|loop-idiom|slp-vectorizer)$")
    machine = _without_lost_masks(_object(text, machine), text, machine)
    target = target_machine(machine)
    target.set_asm_verbosity(True)
    return str(target.emit_assembly(optimised(text, machine)))


def packed(data: bytes) -> bytes:
    """Encode a message: length and bytes."""
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
    """Decode the complete messages in `data`."""
    stream, messages = io.BytesIO(data), list[bytes]()
    try:
        while True:
            messages.append(receive(stream))
    except EOFError:
        return messages


def setup(machine: LLVMTarget, errands: Errands) -> bytes:
    """First message to a worker process."""
    return json.dumps([machine, errands]).encode()


def with_machine(text: str, machine: LLVMTarget) -> bytes:
    """Message that lets a worker process compile a text for a machine."""
    return f"{json.dumps(machine)}\n{text}".encode()


def as_errand(order: bytes) -> bytes:
    """Message that lets a worker process do an errand."""
    return _ERRAND + b"\n" + order


_ERRAND = b'"errand"'


def serve() -> None:
    """Serve requests until the input ends. A thread reads requests in the meantime, so senders do not wait."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints does not disturb the answers
    try:
        machine, errands = json.loads(receive(sys.stdin.buffer))
        target_machine(LLVMTarget(*machine))
        do_errand = _doer(Errands(*errands))
        send(answers, READY if do_errand is None else READY_FOR_ERRANDS)
        orders = queue.SimpleQueue[bytes | None]()
        threading.Thread(target=_read_orders, args=(orders,), daemon=True).start()
        while (message := orders.get()) is not None:
            head, _, order = message.partition(b"\n")
            if head != _ERRAND:
                data = _compiled(order.decode(), LLVMTarget(*json.loads(head)))
            else:
                data = b"" if do_errand is None else do_errand(order)
            send(answers, data)
    except (EOFError, BrokenPipeError):
        pass


def _read_orders(orders: queue.SimpleQueue[bytes | None]) -> None:
    """Queue the requests from standard input, and None at its end."""
    try:
        while True:
            orders.put(receive(sys.stdin.buffer))
    except EOFError:
        orders.put(None)


def _doer(errands: Errands) -> Callable[[bytes], bytes] | None:
    """Function that does errands; None if its module is missing, or was found in another file."""
    gc.disable()
    try:
        module: Any = importlib.import_module(errands.module) if errands.module else None
    except ImportError:
        return None
    finally:
        gc.freeze()  # what was imported stays: the collector need not look at it
        gc.enable()
    return module.answer if module is not None and module.__file__ == errands.file else None


def _compiled(text: str, machine: LLVMTarget) -> bytes:
    """Object of a text; empty if LLVM rejects it."""
    try:
        return emit_object(text, machine)
    except RuntimeError:
        return b""


def note() -> None:
    """Answer each text by its commented assembly, and end its remarks on stderr with a zero byte.

    Stops at a text that LLVM rejects; the reason is on stderr.
    """
    machine = LLVMTarget(*json.loads(receive(sys.stdin.buffer)))
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
