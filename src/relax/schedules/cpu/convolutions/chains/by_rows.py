"""Chains of three convolutions (`chain`), such as inverted residuals, fused row by row: intermediates stay in cache.

    for n, chunk in T.parallel(N * chunks):                 some rows of the result
        for band in bands:                                      as many as fit the caches with intermediates
            panel[:, :, :] = X[n, :, new lines of the data, :]
            for g in T.parallel(groups):                            groups of 48 channels
                for r in lines of the band:
                    for q in new lines of the data, t in tiles of 7 pixels:
                        ring[g, q % 3, t * 7 + …, :] = f(We[g, ci, :] * panel[q, ci, t * 7 + …])    summed in registers
                    for c in vectors of the group, t in tiles of 7 pixels:
                        D[r, t * 7 + …, g * 48 + c * 16 + …] = g(Wd[i, j, c] * ring[g, (r * 2 + i) % 3, …, c * 16 + …])
            for part, jo in T.parallel(parts * groups):             some rows of the band, groups of 48 channels
                for r in lines of the part, t in tiles of 7 pixels:
                    sums[r, t * 7 + …, :] = Wp[jo, c, :] * D[r, t * 7 + …, c]
                C[n, jo, lines of the part, :] = k(sums transposed)

Intermediate images are channels-last and vectorised over channels, so vectors are full whatever the image width. The
ring buffer holds as many rows of the expanded image as a window. Padding consists of zero columns beside the rows, and
zero rows above and below. The `D` rows of a band fit a quarter of the L2 cache.

The first convolution may have windows over a few input channels instead of being pointwise, as a network's first layer:
`chains.panels` has both panel layouts, from which tiles read the elements of each tap.

Each core processes its own images, or chunks of rows of one image, with intermediates in its own cache; rows at the
seams of chunks are expanded twice. An image of few rows is a single chunk, whose groups and parts are divided among the
cores.

Channels-last data and results need neither panel nor transpose (`pixels`). bfloat16 chains have loops of their own
(`dot_loops`) if the target has bfloat16 dot products.

All weights must be constants, as they are packed. Otherwise, and for other chains, each convolution is scheduled by its
own rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .....runtime.records import dataclass
from .....target import Target
from .....tir import Buffer, PrimFunc
from .....tir.buffer import decl_buffer
from .....tir.nests import root_of, with_root
from ....rule import ALIASED, PackedFunction, Packing, Refusal, ScheduleRule
from ...products.packed_panels import users_of
from ...tile.division import tile_for
from ..depthwise import Depthwise
from ..direct import Convolution
from ..dot_convolution import DotConvolution
from ..few_channels import FewChannels
from ..pointwise.dot_pointwise import WordPixels
from ..pointwise.pointwise import Pointwise
from .chain import DTYPE, Chain, chain_of, weights_of
from .channels_last import Images, images_at, with_channels_first, with_copies
from .dot_loops import word_rows
from .loops import RowLoops
from .pixels import PixelRowLoops


class ByRows(ScheduleRule):
    """Schedule rule for chains of three convolutions."""

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> PrimFunc | Refusal:
        """Schedule each convolution by itself: a fused chain needs constant weights, which it packs."""
        copied = _separable(func)
        return _one_by_one(copied, target, tunable) if copied else copied

    def accepts(self, func: PrimFunc, target: Target | None, constants: Sequence[int] = ()) -> FusedChain | Refusal:
        """Return the chain that is fused row by row; its weights must be among the constants."""
        if not func.attrs.get("tir.noalias"):
            return ALIASED
        usual, last = with_channels_first(func)
        chain = chain_of(usual)
        if isinstance(chain, Refusal):
            return chain
        if target is not None and writer_of(chain, target, last) is None:
            return Refusal("the target has no vectors, or no dot products of bfloat16")
        buffers = dict(func.buffer_map)
        positions = {buffers[func.params[i]]: i for i in constants if func.params[i] in buffers}
        weights = weights_of(chain)
        if not all(w in positions and users_of(func, w) == 1 for w in weights):
            return Refusal("the weights are not constants that only their convolution reads")
        return FusedChain(chain, last, tuple(positions[w] for w in weights))

    def images(self, func: PrimFunc) -> Images | Refusal:
        """Return the parameters of a fused chain that may be channels-last: of float32 only."""
        chain = chain_of(func)
        if isinstance(chain, Refusal):
            return chain
        finish, params = chain.project.finish, list(func.buffer_map.values())
        data, result = chain.expand.windows.data, finish.store.buffer
        images = Images(data, result, images_at(finish.store, params), weights_of(chain), chain.is_first)
        if data not in params or result not in params:
            return Refusal("the data or the result are no parameters")
        if any(image.dtype != DTYPE for image in (data, result, *images.beside)):
            return Refusal("images are not of float32")
        return images

    def pack(self, func: PrimFunc, target: Target, constants: Sequence[int]) -> PackedFunction | Refusal:
        """Return the fused function for weights packed as its tiles read them."""
        accepted = self.accepts(func, target, constants)
        if not isinstance(accepted, Refusal):
            writer = writer_of(accepted.chain, target, accepted.last)
            assert writer is not None
            return _by_rows(func, writer, accepted.weights)
        copied = _separable(func)
        if not copied:
            return copied
        return _packed_one_by_one(copied, target, constants)


def _separable(func: PrimFunc) -> PrimFunc | Refusal:
    """Return the function of a chain whose convolutions are scheduled one by one, with channels-first data."""
    if not func.attrs.get("tir.noalias"):
        return ALIASED
    copied = with_copies(func)
    chain = chain_of(func) if copied is func else None
    return chain if isinstance(chain, Refusal) else copied


@dataclass(frozen=True)
class FusedChain:
    """Chain that a function computes in channels-first layout."""

    chain: Chain
    last: Mapping[Buffer, Buffer]
    """The function's own buffers, by their channels-first replacements."""
    weights: tuple[int, ...]
    """Positions of the parameters that are weights."""


def writer_of(chain: Chain, target: Target, last: Mapping[Buffer, Buffer]) -> RowLoops | None:
    """Return the writer of a chain's loops, or None if the target's vectors do not support its dtype."""
    lanes = tile_for(target, 32).lanes
    if lanes == 1:
        return None
    if chain.is_narrow:
        return None if last else word_rows(chain, target, lanes)
    return PixelRowLoops(chain, target, lanes, last) if last else RowLoops(chain, target, lanes)


def _by_rows(func: PrimFunc, writer: RowLoops, positions: Sequence[int]) -> PackedFunction:
    """Return the function fused row by row, for packed weights at `positions`."""
    buffers, packed = dict(func.buffer_map), list[Buffer]()
    packings = dict(zip(positions, writer.packings(), strict=True))
    for position, packing in packings.items():
        param = func.params[position]
        dtype = writer.packed_dtypes[len(packed)]
        buffers[param] = decl_buffer(packing.shape, dtype, f"{buffers[param].name}_packed")
        packed.append(buffers[param])
    allocated, _ = root_of(func)
    arranged = with_root(func, [writer.loops(*packed)], allocated)
    return PackedFunction(arranged.replace(buffer_map=buffers), packings)


def _packed_one_by_one(func: PrimFunc, target: Target, constants: Sequence[int]) -> PackedFunction | Refusal:
    """Schedule each convolution by its own rule, for constant weights packed for that rule."""
    result, packings = func, dict[int, Packing]()
    for rule in (WordPixels(), FewChannels(), DotConvolution(), Pointwise()):
        variant = rule.pack(result, target, [i for i in constants if i not in packings])
        if not isinstance(variant, Refusal):
            result, packings = variant.func, {**packings, **variant.packings}
    if not packings:
        return Refusal("no convolution of the chain packs its weights")
    return PackedFunction(_one_by_one(result, target, False) or result, packings)


def _one_by_one(func: PrimFunc, target: Target, tunable: bool) -> PrimFunc | Refusal:
    """Schedule each convolution by its own rule."""
    result = func
    for rule in (Depthwise(), DotConvolution(), Pointwise(), Convolution()):
        result = rule.apply(result, target, tunable) or result
    return Refusal("no rule takes a convolution of the chain") if result is func else result
