"""Arguments of `vm.builtin.paged_attention_kv_cache_create`, checked: see `paged_kv_cache_builtins`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import numpy as np
import tvm_ffi

from .devices import Device
from .dtypes import Array, canonical_dtype
from .kv_state import direct_callable, integer, integers
from .paged_layout import (
    CONFIGURATION,
    FACTORS,
    FUNCTIONS,
    HEADS,
    KINDS,
    LAYERS,
    PAGE_DTYPES,
    ROPE_MODE,
    SCALE,
    THETA,
    TRANSFER,
    AttnKind,
    CacheLayout,
    Kernels,
)
from .rotary import Rotary
from .tensor import device_of, numpy_view
from .values import is_tuple, kind_of

_TENSORS: Final = (tvm_ffi.Tensor, np.ndarray, list, tuple)
_OPTIONS: Final[dict[str, tuple[str, tuple[type, ...]]]] = {
    "interleaved": ("a bool", (bool, int)),
    "rotary_dim": ("an int", (int,)),
    "factors": ("a tensor", _TENSORS),
    "scaling": ("a number", (float, int)),
    "local_theta": ("a number", (float, int)),
    "local_scale": ("a number", (float, int)),
    "local_factors": ("a tensor", _TENSORS),
    "softcap": ("a number", (float, int)),
    "page_dtype": ("a string", (str,)),
}
"""Options by name: their values in words, and as classes."""


def cache_settings(args: tuple[Any, ...]) -> tuple[CacheLayout, Kernels | None, Device]:
    """Return the layout, the kernels (None: NumPy's) and the device of a cache. Raises TypeError and ValueError."""
    parameters, factors, init, rest = _divided(args)
    functions, kernels, options = _trailing(rest)
    if any(not _is_missing(function) for function in functions):
        raise ValueError(
            "kernels of TVM's contract cannot read the pages of this cache; give None or an empty list for them, and "
            "kernels of relax.runtime.paged_kernels' contract as a tuple (append, attend) behind them"
        )
    return _layout(parameters, factors, init, _options(options)), _kernels(kernels), device_of(init)


def _divided(args: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any, tvm_ffi.Tensor, tuple[Any, ...]]:
    """Divide arguments into parameters, rope_ext_factors, the initial tensor, and those behind it."""
    at = FACTORS
    behind = args[at + 1 : at + 2]
    has_factors = bool(behind) and isinstance(behind[0], tvm_ffi.Tensor)
    init_at = at + 1 if has_factors else at
    if len(args) <= init_at or not isinstance(args[init_at], tvm_ffi.Tensor):
        raise TypeError(
            "paged_attention_kv_cache_create: expected a tensor of the cache's dtype as argument 11 or 12, behind "
            f"rotary_theta and rope_ext_factors, in a call with {len(args)} arguments"
        )
    return args[:at], args[at] if has_factors else None, args[init_at], args[init_at + 1 :]


def _trailing(rest: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any, Any]:
    """Divide the arguments behind the initial tensor into TVM's functions, our kernels and options (None: neither)."""
    least, most = FUNCTIONS
    kernels, options, count = None, None, _without_none(rest, len(rest))
    if count > least and _is_options(rest[count - 1]):
        options = rest[count - 1]
        count = _without_none(rest, count - 1)
    if count > least and is_tuple(rest[count - 1]):  # the last function of TVM's is none
        kernels = rest[count - 1]
        count = _without_none(rest, count - 1)
    if not least <= count <= most:
        raise TypeError(
            f"paged_attention_kv_cache_create: expected {least} or {most} functions behind the initial tensor, then "
            f"kernels and options if there are any; found {len(rest)} arguments"
        )
    return rest[:count], kernels, options


def _without_none(rest: tuple[Any, ...], count: int) -> int:
    """Return `count` less the arguments before it that are None, as long as TVM's functions remain."""
    while count > FUNCTIONS[0] and rest[count - 1] is None:
        count -= 1
    return count


def _is_options(value: Any) -> bool:
    if isinstance(value, Mapping | tvm_ffi.Map):
        return True
    return is_tuple(value) and len(value) > 0 and isinstance(value[0], str)


def _is_missing(value: Any) -> bool:
    return value is None or (is_tuple(value) and not len(value)) or (isinstance(value, list) and not value)


def _kernels(value: Any) -> Kernels | None:
    """Return the pair `(append, attend)`; None if there are none."""
    if _is_missing(value):
        return None
    if len(value) != 2:
        raise ValueError(f"expected the kernels (append, attend) of a cache, found {kind_of(value)}")
    append, attend = (direct_callable(function, "a kernel of a cache") for function in value)
    return Kernels(append, attend, tuple(value))


def _options(value: Any) -> dict[str, Any]:
    """Return options as a dictionary. Raises TypeError and ValueError for unknown ones and values of other kinds."""
    if value is None:
        return {}
    if isinstance(value, Mapping | tvm_ffi.Map):
        table = cast("Mapping[Any, Any]", value)
        options: dict[str, Any] = {str(name): table[name] for name in table}
    else:
        if len(value) % 2:
            raise ValueError(f"expected names and values of options in turn, found {kind_of(value)}")
        options = {str(value[i]): value[i + 1] for i in range(0, len(value), 2)}
    for name, option in options.items():
        if name not in _OPTIONS:
            raise ValueError(f"there is no option {name!r} of a KV cache; the options are {', '.join(_OPTIONS)}")
        expected, classes = _OPTIONS[name]
        if option is not None and not isinstance(option, classes):
            raise TypeError(f"the option {name!r} of a KV cache is {kind_of(option)}, expected {expected}")
    return {name: option for name, option in options.items() if option is not None}


def _layout(parameters: tuple[Any, ...], factors: Any, init: tvm_ffi.Tensor, options: dict[str, Any]) -> CacheLayout:
    """Check the settings of a cache."""
    config = integers(parameters[CONFIGURATION], "cache_config")
    if len(config) not in (4, 5):
        raise ValueError(f"cache_config has {len(config)} numbers, expected 4 or 5")
    heads = tuple(integer(value, name) for value, name in zip(parameters[HEADS], _HEADS, strict=True))
    for name, number in zip((*_SIZES, *_HEADS), (*config[:4], *heads), strict=True):
        if number <= 0:
            raise ValueError(f"{name} is {number}, expected a positive number")
    query_heads, key_heads, key_dim, value_dim = heads
    if query_heads % key_heads:
        raise ValueError(f"{query_heads} query heads cannot share {key_heads} key and value heads")
    layers = integers(parameters[LAYERS], "layer_indptr")
    if len(layers) != 2 or not 0 <= layers[0] < layers[1]:
        raise ValueError(f"layer_indptr is {layers}, expected the first layer and the end of the layers")
    if parameters[TRANSFER]:
        raise ValueError("enable_kv_transfer: transfer of pages between machines is not supported")
    mode = integer(parameters[ROPE_MODE], "rope_mode")
    if mode not in (0, 1, 2):
        raise ValueError(f"rope_mode is {mode}, expected 0 (none), 1 (normal) or 2 (inline)")
    dtype = canonical_dtype(init.dtype)
    page_dtype = str(options.get("page_dtype", dtype))
    for name, each in (("dtype of init", dtype), ("page_dtype", page_dtype)):
        if each not in PAGE_DTYPES:
            raise ValueError(f"the {name} is {each}, expected one of {', '.join(PAGE_DTYPES)}")
    rotary, local_rotary = _rotaries(mode, key_dim, parameters, factors, options)
    layout = CacheLayout(
        max_sequences=config[0],
        total_tokens=config[1],
        prefill_chunk=config[2],
        page_size=config[3],
        sliding_window=config[4] if len(config) == 5 and config[4] > 1 else 0,
        first_layer=layers[0],
        kinds=_kinds(parameters[KINDS], layers),
        query_heads=query_heads,
        key_heads=key_heads,
        key_dim=key_dim,
        value_dim=value_dim,
        dtype=dtype,
        page_dtype=page_dtype,
        rotary=rotary,
        local_rotary=local_rotary,
        interleaved=bool(options.get("interleaved", False)),
        rotates_inline=mode == 2,
        softcap=float(options.get("softcap", 0.0)),
    )
    if layout.pages * layout.page_size >= 1 << 31:
        raise ValueError(f"a cache of {layout.pages} pages of {layout.page_size} tokens has too many for 32 bits")
    return layout


_SIZES: Final = ("max_sequences", "total_tokens", "prefill_chunk", "page_size")
_HEADS: Final = ("num_qo_heads", "num_kv_heads", "qk_head_dim", "v_head_dim")


def _kinds(value: Any, layers: Sequence[int]) -> tuple[AttnKind, ...]:
    """Return the kinds of the layers. Raises ValueError if there are not enough, or of unknown ones."""
    kinds = integers(value, "attn_kinds")
    if len(kinds) < layers[1]:
        raise ValueError(f"attn_kinds has {len(kinds)} kinds, expected one for each of {layers[1]} layers")
    chosen = kinds[layers[0] : layers[1]]
    for kind in chosen:
        if kind not in set(AttnKind):
            raise ValueError(f"attn_kinds has the kind {kind}, expected 0 (MHA), 1 (MLA), 2 (linear) or 3 (sliding)")
    return tuple(map(AttnKind, chosen))


def _rotaries(
    mode: int, key_dim: int, parameters: tuple[Any, ...], factors: Any, options: dict[str, Any]
) -> tuple[Rotary, Rotary | None]:
    """Return the rotary embedding of a cache, and that of layers that slide if it is another one."""
    if mode == 0:
        return Rotary(0, 1.0), None
    dim = int(options.get("rotary_dim", key_dim))
    if dim > key_dim:
        raise ValueError(f"rotary_dim is {dim}, and keys have {key_dim} elements")
    scaling = float(options.get("scaling", 1.0))
    divisors = _numbers(options.get("factors", factors))
    rotary = Rotary(
        dim, _number(parameters[THETA], "rotary_theta"), _number(parameters[SCALE], "rotary_scale"), divisors, scaling
    )
    if "local_theta" not in options:
        return rotary, None
    local_scale, local_divisors = float(options.get("local_scale", 1.0)), _numbers(options.get("local_factors"))
    return rotary, Rotary(dim, float(options["local_theta"]), local_scale, local_divisors)


def _number(value: Any, name: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"expected a number as {name}, found {kind_of(value)}")
    return float(value)


def _numbers(value: Any) -> Array | None:
    if value is None:
        return None
    array: Array = np.asarray(numpy_view(value) if isinstance(value, tvm_ffi.Tensor) else value, np.float64)
    return array
