"""The KV cache of relax/kv_cache.h: commands to it and to the cache in Python, with the same answers and errors."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import struct
import tempfile
from pathlib import Path

import numpy as np
import pytest

import relax
from cpp_programs import compile_program, needs_compiler, run
from paged_model import builtin, cache_function, tensor
from relax.llm.exporting import write_tensors
from relax.runtime.export import IN_HEADERS
from relax.runtime.tensor import numpy_view, tensor_of_numpy

pytestmark = needs_compiler

PROGRAM = """
@I.ir_module
class Step:
    @R.function(pure=False)
    def step(qkv: R.Tensor(("n", 32), "float32"), state: R.Object) -> R.Tensor(("n", 4, 4), "float32"):
        n = T.int64()
        with R.dataflow():
            a = R.call_dps_packed(
                "vm.builtin.attention_kv_cache_attention_with_fused_qkv",
                (state, R.prim_value(0), R.prim_value(T.float64(0.7)), qkv), out_sinfo=R.Tensor((n, 4, 4), "float32"),
            )
            rows = R.reshape(a, (n, 16))
            b = R.call_dps_packed(
                "vm.builtin.attention_kv_cache_attention_with_fused_qkv",
                (state, R.prim_value(1), R.prim_value(T.float64(0.7)), R.concat((rows, rows), axis=1)),
                out_sinfo=R.Tensor((n, 4, 4), "float32"),
            )
            R.output(b)
        return b
"""
OPTIONS = 'R.str("local_theta"), R.prim_value(7.0), R.str("page_dtype"), R.str("float16")'
CASES = {"full": (0, "0, 0"), "mixed": (6, "0, 3"), "sliding": (6, "3, 3")}
ROOM = 4, 64
SOURCE = Path(__file__).parent / "cache_commands.cpp"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_program(SOURCE, tmp_path_factory.mktemp("program"))


@functools.cache
def built(case):
    """Build the program of a case; return its library and the machine that runs it in Python."""
    folder = Path(tempfile.mkdtemp(prefix=f"relax-{case}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    window, kinds = CASES[case]
    mod = relax.script.from_source(PROGRAM)
    mod["cache"] = cache_function(16, window, kinds, OPTIONS)
    executable = relax.build(mod, "llvm")
    assert {"cache", "step"} <= set(executable.program.compiled)
    executable.export_library(folder / "cache.so")
    return str(folder / "cache.so"), relax.VirtualMachine(executable, relax.cpu())


def filled(shape, salt):
    index = np.arange(int(np.prod(shape)), dtype=np.uint32)
    numbers = (index * np.uint32(2654435761) + np.uint32(salt * 40503)) >> np.uint32(8)
    return (numbers.astype(np.float32) / np.float32(1 << 24) - np.float32(0.5)).reshape(shape)


def state(name, *args):
    return builtin(f"kv_state_{name}")(*args)


def attention(name, *args):
    return builtin(f"attention_kv_cache_{name}")(*args)


class Cache:
    """The cache in Python, with the answers of cache_commands.cpp."""

    def __init__(self, machine):
        self.state, self.step_function = machine["cache"](relax.ShapeTuple(ROOM)), machine["step"]
        self.tokens = 0

    def answer(self, line):
        name, *numbers = line.split()
        try:
            answer = getattr(self, name)(*map(int, numbers))
        except (ValueError, TypeError) as error:
            return f"{type(error).__name__}: {str(error).removeprefix('step: ')}"  # a machine names its function
        return "done" if answer in (None, ()) else str(answer)

    def add(self, seq): state("add_sequence", self.state, seq)  # fmt: skip

    def remove(self, seq): state("remove_sequence", self.state, seq)  # fmt: skip

    def fork(self, parent, child, pos): state("fork_sequence", self.state, parent, child, pos)  # fmt: skip

    def popn(self, seq, count): state("popn", self.state, seq, count)  # fmt: skip

    def end(self): state("end_forward", self.state)  # fmt: skip

    def clear(self): state("clear", self.state)  # fmt: skip

    def pages(self): return attention("get_num_available_pages", self.state)  # fmt: skip

    def total(self): return attention("get_total_sequence_length", self.state)  # fmt: skip

    def slide(self, seq, window, sink):
        attention("enable_sliding_window_for_seq", self.state, seq, window, sink)

    def begin(self, *pairs):
        state("begin_forward", self.state, pairs[::2], pairs[1::2])
        self.tokens = sum(pairs[1::2])

    def step(self, salt):
        out = self.step_function(tensor_of_numpy(filled((self.tokens, 32), salt)), self.state)
        return " ".join(f"{x:.6f}" for x in out.numpy().reshape(-1).tolist())

    def positions(self):
        return " ".join(map(str, numpy_view(attention("get_query_positions", self.state)).tolist()))

    def kv(self, seq, start, end):
        k, v = (tensor(2, max(end - start, 0), 2, 4) for _ in "kv")
        attention("debug_get_kv", self.state, seq, start, end, k, v)
        return f"{numpy_view(k).sum(dtype=np.float64) + 2 * numpy_view(v).sum(dtype=np.float64):.4f}"


def random_commands(rng, count):
    """Random commands: forwards of one to three sequences, forks, windows, and now and then what is refused."""
    seqs, lines, salt = range(5), [f"add {seq}" for seq in range(3)], 0
    for _ in range(count):
        kind = rng.choice(["forward", "forward", "forward", "fork", "popn", "slide", "remove", "add", "kv"])
        a, b = (int(rng.choice(seqs)) for _ in "ab")
        match kind:
            case "forward":
                batch = rng.permutation(5)[: rng.integers(1, 4)]
                lengths = rng.choice([1, 1, 2, 5, 7], len(batch))
                lines.append("begin " + " ".join(f"{seq} {n}" for seq, n in zip(batch, lengths)))
                salt += 1
                lines += [f"step {salt}", "positions", "end"]
            case "fork":
                lines.append(f"fork {a} {b} {rng.choice([-1, -1, 0, 3, 9])}")
            case "popn":
                lines.append(f"popn {a} {rng.choice([0, 1, 2, 3, 8])}")
            case "slide":
                lines.append(f"slide {a} {rng.choice([0, 3, 5, 9])} {rng.choice([0, 0, 2, 5])}")
            case "kv":
                lines.append(f"kv {a} {b} {b + int(rng.integers(0, 9))}")
            case _:
                lines.append(f"{kind} {a}")
        lines += ["pages", "total"]
    return lines


def assert_same(lines, found, expected):
    assert len(found) == len(lines)
    for line, a, b in zip(lines, found, expected):
        if line.startswith(("step", "kv")) and "Error" not in a + b:
            np.testing.assert_allclose([*map(float, a.split())], [*map(float, b.split())], atol=2e-5, err_msg=line)
        else:
            assert a == b, line


def test_the_headers_register_what_exports_expect(program):
    done = run(program, "--missing", text="\n".join([*IN_HEADERS, "vm.builtin.none"]))
    assert (done.returncode, done.stdout) == (0, "ValueError: there is no packed function vm.builtin.none\n")


@pytest.mark.parametrize("case", CASES)
def test_a_cache_answers_as_in_python(case, program):
    """Prefill, decode, batches of unequal lengths, forks, popn, windows and sinks; the errors have the same words."""
    library, machine = built(case)
    lines = random_commands(np.random.default_rng(3), 250)
    cache = Cache(machine)
    expected = [cache.answer(line) for line in lines]
    assert sum(line.startswith("step") and "Error" not in b for line, b in zip(lines, expected)) > 20
    assert len({b.split(":")[1][:12] for b in expected if "Error" in b}) > 6
    done = run(program, library, *map(str, ROOM), text="\n".join(lines))
    assert (done.returncode, done.stderr) == (0, "")
    assert_same(lines, done.stdout.splitlines(), expected)


def test_samplers_choose_as_in_python(program):
    library, _ = built("full")
    rng = np.random.default_rng(4)
    cases = [(*rng.integers(0, 200, 1), *rng.integers(1, 101, 1), *rng.integers(0, 100, 1), i) for i in range(50)]
    done = run(program, library, "1", "16", text="\n".join(f"sample {t} {p} {u} {s}" for t, p, u, s in cases))
    expected = []
    for heat, top_p, share, salt in cases:
        logits = tensor_of_numpy(filled((1, 300), int(salt)) * np.float32(12))
        ids = tensor_of_numpy(np.array([0, 5], np.int32))
        builtin("apply_repetition_penalty")(logits, ids, 1.5)
        builtin("apply_presence_and_frequency_penalty")(logits, ids, ids, 0.5, 0.25)
        heat, top_p, share = heat / 100, top_p / 100, share / 100
        first = builtin("sample_top_p_from_logits")(logits, heat, top_p, share)
        builtin("apply_softmax_with_temperature")(logits, 0.7)
        second = builtin("sample_top_p_from_prob")(logits, top_p, share)
        third = builtin("multinomial_from_uniform")(logits, tensor_of_numpy(np.array([share], np.float32)))
        expected.append(f"{first} {second} {numpy_view(third).item()}")
    assert done.stdout.splitlines() == expected


def test_other_arguments_are_refused(program):
    library, _ = built("full")
    lines = ["add 0", "begin 0 2", *(f"wrong {i}" for i in range(13)), "step 1"]
    done = run(program, library, "1", "16", text="\n".join(lines))
    assert done.stdout.splitlines()[2:-1] == [
        "TypeError: expected a paged KV cache",
        "TypeError: expected an integer as the id of a sequence",
        "ValueError: token trees are not implemented in C++",
        "TypeError: vm.builtin.kv_state_popn got 1 arguments, expected 3",
        "ValueError: qkv has the shape (1, 3), expected (2, 32)",
        "TypeError: qkv has another dtype than the cache",
        "ValueError: there is no layer 9: layers are numbered from 0 to 1",
        "ValueError: penalty is 0.000000, expected a positive number",
        "ValueError: token_ids has the id 3, expected one from 0 to 2",
        "ValueError: uniform_sample is 1.000000, expected a number in [0, 1)",
        "ValueError: logits have the greatest value nan, expected a finite one",
        "ValueError: prob has values from 0.000000 to 0.000000, expected probabilities",
        "TypeError: paged_attention_kv_cache_create: expected a tensor of the cache's dtype as argument 11 or 12, behind "
        "rotary_theta and rope_ext_factors, in a call with 1 arguments",
    ]


@pytest.mark.parametrize(
    "sequences, tokens, message",
    [
        (0, 16, "max_sequences is 0, expected a positive number"),
        (2, 1 << 40, "total_tokens is 1099511627776, and has more than 31 bits"),
        (2, (1 << 31) - 1, "a cache of 536870912 pages of 4 tokens has too many for 32 bits"),
    ],
)
def test_sizes_that_fit_no_cache(program, sequences, tokens, message):
    library, _ = built("full")
    done = run(program, library, str(sequences), str(tokens))
    assert done.stdout == f"ValueError: {message}\n"


def weights_file(path):
    arrays = {"a": np.arange(6, dtype=np.int8).reshape(2, 3), "b": np.ones((4, 1), np.float32), "c\n\u00e9": np.ones(0)}
    write_tensors(path, {name: tensor_of_numpy(array) for name, array in arrays.items()}, {"made": '"by" this\\test'})
    return path.read_bytes()


def test_tensors_are_read(program, tmp_path):
    weights_file(tmp_path / "w")
    done = run(program, "--tensors", str(tmp_path / "w"))
    assert done.stdout == "a (2, 3)\npadding.1 (58,)\nb (4, 1)\npadding.3 (48,)\nc\n\u00e9 (0,)\n"


def test_corrupt_tensors_are_refused(program, tmp_path):
    data = weights_file(tmp_path / "w")
    (size,) = struct.unpack("<Q", data[:8])
    offsets = data.replace(b'"data_offsets": [64, 80]', b'"data_offsets": [64, 99]')
    huge = data.replace(b'"shape": [2, 3]', b'"shape": [2, 9]')
    for broken in (b"", data[:7], data[:40], data[: 8 + size], struct.pack("<q", -1) + data[8:], offsets, huge):
        (tmp_path / "x").write_bytes(broken)
        done = run(program, "--tensors", str(tmp_path / "x"))
        assert (done.returncode, done.stdout) == (
            1, "ValueError: the header of the safetensors file is no JSON of that format\n",
        )  # fmt: skip
    missing = run(program, "--tensors", str(tmp_path / "none"))
    assert missing.stdout.startswith("OSError: cannot open ")


@pytest.mark.slow
def test_no_memory_outside_of_tensors_is_read(tmp_path):
    """The same commands, wrong calls, and files with random faults, under sanitizers of memory and of undefined behaviour."""
    program = compile_program(SOURCE, tmp_path, "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    env = os.environ | {"ASAN_OPTIONS": "detect_leaks=0"}  # libraries stay loaded
    for case in CASES:
        library, _ = built(case)
        lines = [
            *random_commands(np.random.default_rng(5), 400),
            *(f"wrong {i}" for i in range(13)),
            "sample 80 90 50 1",
        ]
        done = run(program, library, *map(str, ROOM), text="\n".join(lines), env=env)
        assert (done.returncode, done.stderr) == (0, "")
    data = np.frombuffer(weights_file(tmp_path / "w"), np.uint8)
    rng = np.random.default_rng(6)
    for _ in range(60):
        broken = data.copy()
        broken[rng.integers(0, len(data) - 128, 2)] = rng.integers(0, 256, 2)
        (tmp_path / "x").write_bytes(broken.tobytes()[: rng.choice([len(data), 100, 300])])
        done = run(program, "--tensors", str(tmp_path / "x"), env=env)
        assert done.returncode in (0, 1)
        assert done.stderr == ""
