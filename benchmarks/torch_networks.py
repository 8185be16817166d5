"""Ten networks for benchmarks of torch.compile, each with inputs of several sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import torch
from torch import nn
from torch.nn import functional

Made = tuple[nn.Module, list[tuple[torch.Tensor, ...]]]


class Output(nn.Module):
    """One tensor of what a module of transformers returns."""

    def __init__(self, module: Any, name: str) -> None:
        super().__init__()
        self.module, self.name = module, name

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return getattr(self.module(*inputs, use_cache=False), self.name)


class Encoder(Output):
    """An encoder of transformers, which keeps no cache."""

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return getattr(self.module(*inputs), self.name)


def tokens(*shapes: tuple[int, int]) -> list[tuple[torch.Tensor, ...]]:
    """Return batches of token numbers."""
    return [(torch.randint(0, 1000, shape),) for shape in shapes]


def images(*shapes: tuple[int, int, int]) -> list[tuple[torch.Tensor, ...]]:
    """Return batches of pictures of three colours: count, height, width."""
    return [(torch.randn(count, 3, height, width),) for count, height, width in shapes]


def perceptron() -> Made:
    """Three layers of 512 with GELU and layer norm."""
    layers = [layer for _ in range(3) for layer in (nn.Linear(512, 512), nn.GELU(), nn.LayerNorm(512))]
    return nn.Sequential(*layers), [(torch.randn(count, 512),) for count in (4, 64, 33)]


class Residual(nn.Module):
    """A block of ResNet."""

    def __init__(self, into: int, out: int, stride: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(into, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU(),
            nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out),
        )  # fmt: skip
        self.short = nn.Sequential(nn.Conv2d(into, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.path(x) + self.short(x))


def residual() -> Made:
    """Four residual blocks from 32 to 256 channels."""
    stem = [nn.Conv2d(3, 32, 7, 2, 3, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    blocks = [Residual(32, 32, 1), Residual(32, 64, 2), Residual(64, 128, 2), Residual(128, 256, 2)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 100)]
    return nn.Sequential(*stem, *blocks, *head), images((1, 128, 128), (2, 128, 128), (1, 160, 192))


class Inverted(nn.Module):
    """A block of MobileNet: pointwise, depthwise, pointwise."""

    def __init__(self, width: int) -> None:
        super().__init__()
        inner = 4 * width
        self.path = nn.Sequential(
            nn.Conv2d(width, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.Hardswish(),
            nn.Conv2d(inner, inner, 3, 1, 1, groups=inner, bias=False), nn.BatchNorm2d(inner), nn.Hardswish(),
            nn.Conv2d(inner, width, 1, bias=False), nn.BatchNorm2d(width),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.path(x)


def mobile() -> Made:
    """Inverted residuals of 24 and 48 channels."""
    layers = [nn.Conv2d(3, 24, 3, 2, 1), Inverted(24), nn.Conv2d(24, 48, 3, 2, 1), Inverted(48), Inverted(48)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(48, 100)]
    return nn.Sequential(*layers, *head), images((1, 96, 96), (2, 96, 96), (1, 128, 160))


class Network(nn.Module):
    """A U-Net of three levels."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([self.pair(3, 16), self.pair(16, 32), self.pair(32, 64)])
        self.up = nn.ModuleList([self.pair(96, 32), self.pair(48, 16)])
        self.last = nn.Conv2d(16, 2, 1)

    @staticmethod
    def pair(into: int, out: int) -> nn.Module:
        """Two convolutions with group norms."""
        return nn.Sequential(
            nn.Conv2d(into, out, 3, padding=1), nn.GroupNorm(8, out), nn.SiLU(),
            nn.Conv2d(out, out, 3, padding=1), nn.GroupNorm(8, out), nn.SiLU(),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept: list[torch.Tensor] = []
        for level in self.down:
            x = level(x if not kept else functional.max_pool2d(kept[-1], 2))
            kept.append(x)
        for level, wide in zip(self.up, reversed(kept[:-1]), strict=True):
            x = level(torch.cat([functional.interpolate(x, size=wide.shape[2:], mode="bilinear"), wide], 1))
        return self.last(x)


def segmentation() -> Made:
    """A U-Net."""
    return Network(), images((1, 64, 64), (2, 64, 64), (1, 96, 80))


class Attention(nn.Module):
    """Causal self-attention between two linear layers."""

    def __init__(self, width: int = 256, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.into, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.into(self.norm(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).flatten(2))


def attention() -> Made:
    """One layer of attention."""
    return Attention(), [(torch.randn(*size, 256),) for size in ((2, 64), (4, 33), (3, 128))]


def bert() -> Made:
    """BERT of 4 layers of 256."""
    from transformers import BertConfig, BertModel  # noqa: PLC0415  (seconds, which the other networks need not)

    config = BertConfig(
        vocab_size=1000, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return Encoder(BertModel(config), "last_hidden_state"), tokens((1, 32), (2, 48), (1, 100))


def gpt2() -> Made:
    """GPT-2 of 4 layers of 256."""
    from transformers import GPT2Config, GPT2LMHeadModel  # noqa: PLC0415

    config = GPT2Config(
        vocab_size=1000, n_embd=256, n_layer=4, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0
    )
    return Output(GPT2LMHeadModel(config), "logits"), tokens((1, 32), (2, 48), (1, 100))


def llama() -> Made:
    """Llama of 4 layers of 256 with grouped heads."""
    from transformers import LlamaConfig, LlamaForCausalLM  # noqa: PLC0415

    config = LlamaConfig(
        vocab_size=1000, hidden_size=256, intermediate_size=688, num_hidden_layers=4, num_attention_heads=8,
        num_key_value_heads=2,
    )  # fmt: skip
    return Output(LlamaForCausalLM(config), "logits"), tokens((1, 32), (2, 48), (1, 100))


class Recommender(nn.Module):
    """Sums of embeddings, products of all pairs, and a perceptron, as DLRM has them."""

    def __init__(self, tables: int = 8, width: int = 32) -> None:
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(2000, width) for _ in range(tables)])
        self.dense = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, 256), nn.ReLU(), nn.Linear(256, 1), nn.Sigmoid())
        self.register_buffer("places", torch.triu_indices(tables + 1, tables + 1, 1))

    def forward(self, numbers: torch.Tensor, categories: torch.Tensor) -> torch.Tensor:
        x = self.dense(numbers)
        rows = [x, *(table(categories[:, i]).sum(1) for i, table in enumerate(self.tables))]
        stacked = torch.stack(rows, 1)
        products = stacked @ stacked.transpose(1, 2)
        return self.top(torch.cat([x, products[:, self.places[0], self.places[1]]], 1))


def recommender() -> Made:
    """A recommender of eight tables."""
    sizes = (16, 128, 50)
    return Recommender(), [(torch.randn(n, 13), torch.randint(0, 2000, (n, 8, 4))) for n in sizes]


class Chain(nn.Module):
    """A physical formula: long chains of elementwise functions and sums of rows."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for step in range(4):
            r = torch.sqrt(x * x + y * y + 0.01)
            angle = torch.atan2(y, x) + 0.1 * step
            x, y = r * torch.cos(angle) * torch.exp(-r / 10), torch.tanh(r * torch.sin(angle))
            x = x - x.mean(-1, keepdim=True)
            y = y / (y.abs().amax(-1, keepdim=True) + math.e)
        return torch.stack([x, y])


def formula() -> Made:
    """Elementwise chains over rows."""
    return Chain(), [(torch.randn(n, m), torch.randn(n, m)) for n, m in ((64, 500), (100, 1000), (31, 777))]


NETWORKS: Final[dict[str, Callable[[], Made]]] = {
    "mlp": perceptron,
    "resnet": residual,
    "mobilenet": mobile,
    "unet": segmentation,
    "attention": attention,
    "bert": bert,
    "gpt2": gpt2,
    "llama": llama,
    "recommender": recommender,
    "formula": formula,
}
