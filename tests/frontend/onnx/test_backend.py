"""Some of ONNX's own test cases, one or two a family of operators, through compiled code; `make test-onnx` runs all of them."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from onnx.backend.test.loader import load_model_tests

import onnx_backend

CASES = {
    "abs": "test_abs",
    "adam": "test_adam",
    "add": "test_add_bcast",
    "ai_onnx_ml.tree_ensemble": "test_ai_onnx_ml_tree_ensemble_single_tree",
    "and_": "test_and_bcast3v1d",
    "argmax": "test_argmax_keepdims_example",
    "batch_normalization": "test_batchnorm_epsilon",
    "bitshift": "test_bitshift_left_uint8",
    "bitwisenot": "test_bitwise_not_3d",
    "cast": "test_cast_FLOAT_to_FLOAT16 test_cast_FLOAT_to_FLOAT8E4M3FN",
    "clip": "test_clip_default_min",
    "col2im": "test_col2im",
    "compress": "test_compress_0",
    "concat": "test_concat_3d_axis_1",
    "constantofshape": "test_constantofshape_float_ones",
    "conv": "test_conv_with_strides_padding",
    "convinteger": "test_convinteger_with_padding",
    "convtranspose": "test_convtranspose_group_2",
    "cumsum": "test_cumsum_1d_reverse_exclusive",
    "deformconv": "test_basic_deform_conv_with_padding",
    "depthtospace": "test_depthtospace_example",
    "dequantizelinear": "test_dequantizelinear_axis",
    "det": "test_det_nd",
    "dynamicquantizelinear": "test_dynamicquantizelinear",
    "einsum": "test_einsum_batch_matmul",
    "expand": "test_expand_dim_changed",
    "eyelike": "test_eyelike_with_dtype",
    "gather": "test_gather_1",
    "gathernd": "test_gathernd_example_float32",
    "gelu": "test_gelu_tanh_1",
    "gemm": "test_gemm_all_attributes",
    "gridsample": "test_gridsample_bicubic",
    "gru": "test_gru_defaults",
    "identity": "test_identity_sequence",
    "if_": "test_if",
    "instance_normalization": "test_instancenorm_epsilon",
    "layernormalization": "test_layer_normalization_4d_axis1",
    "logsoftmax": "test_logsoftmax_axis_1",
    "loop": "test_loop11",
    "lstm": "test_lstm_with_peepholes",
    "matmul": "test_matmul_3d",
    "mod": "test_mod_mixed_sign_int64",
    "negativeloglikelihoodloss": "test_nllloss_NCd1_weight",
    "nonmaxsuppression": "test_nonmaxsuppression_limit_output_size",
    "nonzero": "test_nonzero_example",
    "onehot": "test_onehot_with_axis",
    "optionalgetelement": "test_optional_get_element_sequence",
    "pad": "test_reflect_pad",
    "pow": "test_pow_types_float32_int64",
    "prelu": "test_prelu_broadcast",
    "qlinearmatmul": "test_qlinearmatmul_2D_uint8_float32",
    "quantizelinear": "test_quantizelinear_axis",
    "rangeop": "test_range_int32_type_negative_delta",
    "reducesum": "test_reduce_sum_keepdims_example",
    "resize": "test_resize_upsample_scales_cubic test_resize_downsample_sizes_nearest",
    "reversesequence": "test_reversesequence_time",
    "rmsnormalization": "test_rms_normalization_3d_axis1_epsilon",
    "roialign": "test_roialign_aligned_true",
    "rotaryembedding": "test_rotary_embedding",
    "scan": "test_scan9_sum",
    "scatterelements": "test_scatter_elements_with_reduction_max",
    "scatternd": "test_scatternd_add",
    "sequence_map": "test_sequence_map_add_1_sequence_1_tensor",
    "sequenceinsert": "test_sequence_insert_at_front",
    "shape": "test_shape_start_1_end_2",
    "slice": "test_slice_neg_steps",
    "softmax": "test_softmax_axis_1",
    "split": "test_split_variable_parts_2d_opset18",
    "string_concat": "test_string_concat",
    "stringnormalizer": "test_strnormalizer_nostopwords_nochangecase",
    "tile": "test_tile_precomputed",
    "topk": "test_top_k_smallest",
    "transpose": "test_transpose_all_permutations_1",
    "trilu": "test_tril_neg",
    "unique": "test_unique_sorted_with_axis",
    "where": "test_where_example",
}
"""Cases by the modules of ``onnx.backend.test.case.node`` that make them."""

EXPORTED = {
    "pytorch-converted": "test_Conv2d_groups test_Embedding test_MaxPool2d_stride_padding_dilation test_AvgPool2d_stride",
    "simple": "test_expand_shape_model1 test_sequence_model3",
}
"""Cases of the kinds that are files."""


NOT_EXPORTED = {
    "test_ai_onnx_ml_tree_ensemble_single_tree": "ONNX cannot say the kernel",
    "test_identity_sequence": "ONNX cannot say the parameter x, which is no tensor",
    "test_optional_get_element_sequence": "ONNX cannot say the parameter optional_input, which is no tensor",
    "test_sequence_map_add_1_sequence_1_tensor": "ONNX cannot say the parameter x0, which is no tensor",
    "test_string_concat": "ONNX cannot say the parameter x, which is no tensor",
    "test_strnormalizer_nostopwords_nochangecase": "ONNX cannot say the parameter x, which is no tensor",
    "test_sequence_insert_at_front": "ONNX cannot say the parameter sequence, which is no tensor",
}
"""Cases that `to_onnx` refuses, with the reason."""


def names_in(table: dict[str, str]) -> list[str]:
    return [name for names in table.values() for name in names.split()]


@functools.cache
def cases() -> dict[str, Any]:
    """All cases of the modules and kinds, by name."""
    exported = [case for kind in EXPORTED for case in load_model_tests(kind=kind)]
    return {case.name: case for case in [*onnx_backend.load_node_cases(CASES), *exported]}


@pytest.mark.parametrize("name", names_in(CASES) + names_in(EXPORTED))
def test_a_case_passes(name):
    outcome = onnx_backend.run(cases()[name])
    assert (outcome.verdict, outcome.reason) == ("pass", "")


@pytest.mark.parametrize("name", [name for name in names_in(CASES) + names_in(EXPORTED) if name not in NOT_EXPORTED])
def test_a_case_is_exported_again(name):
    outcome = onnx_backend.export(cases()[name])
    assert (outcome.verdict, outcome.reason) == ("pass", "")


@pytest.mark.parametrize("name", NOT_EXPORTED)
def test_a_case_that_is_not_exported(name):
    outcome = onnx_backend.export(cases()[name])
    assert outcome.verdict == "refused"
    assert NOT_EXPORTED[name] in outcome.reason


@pytest.mark.slow
def test_most_cases_are_exported_again():
    every = onnx_backend.load_cases()
    outcomes = [onnx_backend.export(case) for case in every]
    assert [outcome for outcome in outcomes if outcome.verdict in ("wrong", "error")] == []
    assert sum(outcome.verdict == "pass" for outcome in outcomes) >= 1900


def test_a_result_that_differs_is_wrong():
    case = cases()["test_abs"]
    (inputs, outputs), *_ = case.data_sets
    changed = type(case)(**{**vars(case), "data_sets": [(inputs, [outputs[0] + 1])]})
    outcome = onnx_backend.run(changed)
    assert outcome.verdict == "wrong"
    assert "elements differ" in outcome.reason


def test_the_table_groups_cases_by_reason():
    outcomes = [
        onnx_backend.Outcome("test_a", "pass"),
        onnx_backend.Outcome("test_b", "unsupported", 'error[E6001]: Foo "y": a | b is not supported'),
        onnx_backend.Outcome("test_c", "unsupported", 'error[E6001]: Foo "z": a | b is not supported'),
        onnx_backend.Outcome("test_d", "random", "drawn by another generator"),
    ]
    assert onnx_backend.table(outcomes).splitlines() == [
        "1 of 4 cases pass.",
        "",
        "| cases | | reason |",
        "|---|---|---|",
        "| `test_b` `test_c` | unsupported | Foo: a \\| b is not supported |",
        "| `test_d` | random | drawn by another generator |",
    ]
