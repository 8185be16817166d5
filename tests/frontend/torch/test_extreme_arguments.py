"""Extreme arguments of every operator: each gives torch's result or a diagnostic; see tools/differential/extreme_arguments.py."""

from __future__ import annotations

import logging

import pytest

pytest.importorskip("torch")

from differential import extreme_arguments
from relax.frontend.torch import registry

OVERLOADS = {
    "aten.bool", "aten.cudnn_batch_norm", "aten.detach_", "aten.float", "aten.half", "aten.sym_numel",
    "aten._adaptive_avg_pool1d", "aten._upsample_linear1d_aa", "aten._upsample_trilinear3d_aa", "aten._unique",
}  # fmt: skip
"""Names without an overload that a program on CPUs can hold."""

OTHERS = {
    "aten.stft.default",  # complex
    "aten._linalg_check_errors",  # an effect
    "aten.linalg_pinv.rcond_tensor", "aten.linalg_matrix_rank.tol_tensor",  # refused
    "aten._scaled_dot_product_flash_attention_for_cpu_backward",  # of sums of exponents: tests/frontend/torch/compile
}  # fmt: skip
"""Names whose nodes cannot be compared by themselves."""

TESTED_APART = {
    "aten._efficientzerotensor", "aten._neg_view", "aten._trilinear", "aten._weight_int4pack_mm_for_cpu",
    "aten._weight_int8pack_mm", "aten.addbmm", "aten.as_strided_scatter", "aten.igamma", "aten.igammac",
    "aten.masked_scatter_backward", "aten.resolve_conj", "aten.resolve_neg",
    "aten.special_chebyshev_polynomial_t", "aten.special_chebyshev_polynomial_u",
    "aten.special_chebyshev_polynomial_v", "aten.special_chebyshev_polynomial_w", "aten.special_gammainc",
    "aten.special_gammaincc", "aten.special_hermite_polynomial_h", "aten.special_hermite_polynomial_he",
    "aten.special_laguerre_polynomial_l", "aten.special_legendre_polynomial_p",
    "aten.special_shifted_chebyshev_polynomial_t", "aten.special_shifted_chebyshev_polynomial_u",
    "aten.special_shifted_chebyshev_polynomial_v", "aten.special_shifted_chebyshev_polynomial_w",
    "aten.special_zeta", "aten.view.dtype",
    "quantized_decomposed._choose_qparams_per_token_asymmetric_impl", "quantized_decomposed.choose_qparams.tensor",
    "quantized_decomposed.choose_qparams_per_token", "quantized_decomposed.choose_qparams_per_token_asymmetric",
    "quantized_decomposed.choose_qparams_symmetric.tensor", "quantized_decomposed.dequantize_per_channel",
    "quantized_decomposed.dequantize_per_channel_group", "quantized_decomposed.dequantize_per_tensor",
    "quantized_decomposed.dequantize_per_token", "quantized_decomposed.quantize_per_channel",
    "quantized_decomposed.quantize_per_channel_group", "quantized_decomposed.quantize_per_tensor",
    "quantized_decomposed.quantize_per_token",
    "relax.gru.default", "relax.lstm.default", "relax.rnn_relu.default", "relax.rnn_tanh.default",
}  # fmt: skip
"""Names whose operands the table has not, or whose operators are not torch's: test_complex.py, test_few_bits.py,
test_indexing.py, test_integers.py, test_iterated.py, test_linear.py, test_quantized.py, test_recurrent.py.
"""

BACKWARD = {
    "aten._adaptive_avg_pool2d_backward", "aten._adaptive_avg_pool3d_backward", "aten._cdist_backward",
    "aten._embedding_bag_backward", "aten._embedding_bag_per_sample_weights_backward", "aten._pdist_backward",
    "aten._upsample_nearest_exact1d_backward", "aten._upsample_nearest_exact2d_backward",
    "aten._upsample_nearest_exact3d_backward", "aten.adaptive_max_pool2d_backward",
    "aten.adaptive_max_pool3d_backward", "aten.avg_pool2d_backward", "aten.avg_pool3d_backward",
    "aten.convolution_backward", "aten.grid_sampler_2d_backward", "aten.grid_sampler_3d_backward",
    "aten.max_pool2d_with_indices_backward", "aten.max_pool3d_with_indices_backward",
    "aten.replication_pad1d_backward", "aten.replication_pad2d_backward", "aten.replication_pad3d_backward",
    "aten.upsample_bicubic2d_backward", "aten.upsample_bilinear2d_backward", "aten.upsample_linear1d_backward",
    "aten.upsample_nearest1d_backward", "aten.upsample_nearest2d_backward", "aten.upsample_nearest3d_backward",
    "aten.upsample_trilinear3d_backward",
}  # fmt: skip
"""Names of gradients: test_backward.py, test_bags.py, test_linear.py."""

GRAPHS = {"cond", "map_impl", "scan", "while_loop", "transformers.grouped_mm_fallback"}
"""Operators that hold graphs, or are not torch's own."""


@pytest.fixture(autouse=True)
def _without_logs():
    """Torch logs what it rejects."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.slow
@pytest.mark.parametrize("name", extreme_arguments.cases())
def test_extreme_arguments_are_computed_or_refused(name):
    assert extreme_arguments.failures(name) == {}


QUICK = ["aten.softmax.int", "aten.celu.default", "aten.all.dims", "aten.tril_indices.default", "aten.topk.default"]


@pytest.mark.parametrize("name", QUICK)
def test_extreme_arguments_of_some_operators(name):
    assert extreme_arguments.failures(name) == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", extreme_arguments.cases())
def test_the_nodes_of_the_table_are_imported(name):
    for case in extreme_arguments.cases()[name]:
        assert extreme_arguments.verdict(case, case) in ("equal", "imported")


def test_every_converted_operator_is_in_the_table():
    covered = {key for name in extreme_arguments.cases() for key in (name, name.rpartition(".")[0])}
    assert registry._CONVERTERS.keys() - covered == OVERLOADS | OTHERS | TESTED_APART | BACKWARD | GRAPHS
