"""A decoder of torch in the shape of Llama, handed to each library: what torch computes, saved, and run without the compiler."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest

import relax
from relax.backend import partition
from relax.frontend.torch import from_exported_program
from relax.op.base import operator_of
from support import nodes, packed_runtime, same, values

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402 (it needs torch)

WIDTH, HEADS, GROUPS, HEAD, WORDS, LAYERS = 32, 4, 2, 8, 50, 2


def rotated(x, angles):
    """Rotary embedding: pairs of halves, turned by the angles of their positions."""
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), -1)
    return x * angles.cos() + turned * angles.sin()


class Layer(nn.Module):
    """Grouped-query attention with a cache, and SwiGLU."""

    def __init__(self):
        super().__init__()
        self.before, self.between = nn.RMSNorm(WIDTH, 1e-6), nn.RMSNorm(WIDTH, 1e-6)
        self.query = nn.Linear(WIDTH, HEADS * HEAD, bias=False)
        self.key, self.value = (nn.Linear(WIDTH, GROUPS * HEAD, bias=False) for _ in range(2))
        self.out = nn.Linear(HEADS * HEAD, WIDTH, bias=False)
        self.gate, self.up = (nn.Linear(WIDTH, 2 * WIDTH, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def forward(self, x, angles, mask, past_key, past_value):
        batch, length = x.shape[0], x.shape[1]
        normal = self.before(x)
        query, key, value = (
            projection(normal).view(batch, length, -1, HEAD).transpose(1, 2)
            for projection in (self.query, self.key, self.value)
        )
        query, key = rotated(query, angles), torch.cat((past_key, rotated(key, angles)), 2)
        value = torch.cat((past_value, value), 2)
        every = [tensor.repeat_interleave(HEADS // GROUPS, 1) for tensor in (key, value)]
        mixed = nn.functional.scaled_dot_product_attention(query, *every, attn_mask=mask)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, HEADS * HEAD))
        normal = self.between(x)
        return x + self.down(nn.functional.silu(self.gate(normal)) * self.up(normal)), key, value


class Decoder(nn.Module):
    """Logits of the next words, and the cache with them."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.last, self.head = nn.RMSNorm(WIDTH, 1e-6), nn.Linear(WIDTH, WORDS, bias=False)
        self.register_buffer("frequencies", 10000.0 ** (-torch.arange(0, HEAD, 2) / HEAD))

    def forward(self, words, keys, values):
        past, length = keys.shape[3], words.shape[1]
        places = torch.arange(past, past + length)
        angles = (places[:, None].float() * self.frequencies).repeat(1, 2)
        mask = torch.arange(past + length)[None, :] <= places[:, None]
        x, present = self.words(words), []
        for layer, key, value in zip(self.layers, keys, values, strict=True):
            x, *cache = layer(x, angles, mask, key, value)
            present.append(cache)
        keys, values = (torch.stack(parts) for parts in zip(*present, strict=True))
        return self.head(self.last(x)), keys, values


def inputs(batch, length, past):
    """Words, and a cache of keys and values."""
    random = torch.Generator().manual_seed(length)
    caches = [torch.randn(LAYERS, batch, GROUPS, past, HEAD, generator=random) for _ in range(2)]
    return torch.randint(WORDS, (batch, length), generator=random), *caches


SIZES = [(2, 5, 3), (1, 1, 7), (2, 9, 0), (3, 17, 1)]
"""Batch, words and words in the cache."""


@pytest.fixture(scope="module")
def decoder():
    torch.manual_seed(0)
    return Decoder().eval()


@pytest.fixture(scope="module")
def imported(decoder):
    dynamic = torch.export.Dim.DYNAMIC
    cache = {1: dynamic, 3: dynamic}
    program = torch.export.export(decoder, inputs(2, 5, 3), dynamic_shapes=({0: dynamic, 1: dynamic}, cache, cache))
    return from_exported_program(program)


PACKAGES = {"torch": "torch", "onnxruntime": "onnxruntime", "openvino": "openvino", "openblas": "scipy_openblas64"}
"""The package of each library."""
LEFT = {
    "torch": {"arange"},
    "onnxruntime": set(),
    "openvino": {"arange", "astype", "expand_dims", "less_equal", "nn.attention"},
}
"""Operators that stay with the compiler."""


@pytest.fixture(params=PACKAGES)
def library(request):
    if importlib.util.find_spec(PACKAGES[request.param]) is None:
        pytest.skip(f"{request.param} is not installed")
    return request.param


def operators_of(function):
    """Names of the operators that a function calls."""
    found = (operator_of(call) for call in nodes(function, relax.expr.Call))
    return {operator.short_name for operator in found if operator is not None} - {"call_dps_packed"}


def test_a_decoder(library, decoder, imported, tmp_path):
    split = partition(imported, library)
    left = operators_of(split["main"])
    assert "matmul" not in left
    assert library not in LEFT or left == LEFT[library]
    executable = relax.build(split)
    assert {module.kind for module in executable.modules} == {library}
    executable.save(tmp_path / "model.relax")
    main = relax.VirtualMachine(executable)["main"]
    given, expected = {}, []
    for number, sizes in enumerate(SIZES):
        args = inputs(*sizes)
        with torch.no_grad():
            expected.append([part.numpy() for part in decoder(*args)])
        given |= {f"{number}.{at}": arg.numpy() for at, arg in enumerate(args)}
        same(list(values(main(*args))), expected[-1], 1e-4, 1e-5)
    np.savez(tmp_path / "inputs.npz", **given)
    assert without_the_compiler(tmp_path) == ""
    results = np.load(tmp_path / "results.npz")
    for number, parts in enumerate(expected):
        same([results[f"{number}.{at}"] for at in range(3)], parts, 1e-4, 1e-5)
    error = without_the_compiler(tmp_path, f"sys.modules[{PACKAGES[library]!r}] = None")
    assert f"ExecutableError: cannot load the module of kind {library!r} with the functions fused_" in error
    assert f"it needs the library {PACKAGES[library]}: pip install" in error


RUN = """
import numpy as np
from relax import runtime

main = runtime.VirtualMachine(runtime.load_executable("model.relax"))["main"]
given, results = np.load("inputs.npz"), {}
for number in range(len(given.files) // 3):
    for at, result in enumerate(main(*(given[f"{number}.{at}"] for at in range(3)))):
        results[f"{number}.{at}"] = result.numpy()
np.savez("results.npz", **results)
assert "onnx" not in sys.modules
try:
    import relax.ir
except ImportError:
    pass
else:
    raise AssertionError("the compiler is installed")
"""


def without_the_compiler(folder, before=""):
    """Run the saved decoder where relax-runtime is installed alone; return the last line of the error, "" if there is none."""
    home = folder / "packed"
    path = str(home if home.exists() else packed_runtime(home))
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{before}\n{RUN}"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([path, os.environ.get("PYTHONPATH", "")])},
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stderr.strip().splitlines()[-1] if done.returncode else ""
