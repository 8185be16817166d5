"""FuseAttention: kernels of attention as models spell it out are grouped, and stream keys and values as one kernel."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.ir import DataType
from relax.optimize import FuseAttention
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.tir.attention import attention_of
from relax.transform import AnnotateTIROpPattern, FuseTIR, LegalizeOps, PassContext, ToMixedPrecision


@I.ir_module
class Bert:
    """Heads are split and transposed, and a mask of keys is added."""

    @R.function
    def main(
        q: R.Tensor(("b", "m", 32), "float32"),
        k: R.Tensor(("b", "n", 32), "float32"),
        v: R.Tensor(("b", "n", 32), "float32"),
        mask: R.Tensor(("b", 1, 1, "n"), "float32"),
    ):
        b, m, n = T.int64(), T.int64(), T.int64()
        with R.dataflow():
            q1 = R.permute_dims(R.reshape(q, (b, m, 4, 8)), (0, 2, 1, 3))
            k1 = R.permute_dims(R.reshape(k, (b, n, 4, 8)), (0, 2, 3, 1))
            v1 = R.permute_dims(R.reshape(v, (b, n, 4, 8)), (0, 2, 1, 3))
            scores = R.add(R.divide(R.matmul(q1, k1), R.const(2.828, "float32")), mask)
            mixed = R.permute_dims(R.matmul(R.nn.softmax(scores, -1), v1), (0, 2, 1, 3))
            result = R.reshape(mixed, (b, m, 32))
            R.output(result)
        return result


@I.ir_module
class Cached:
    """New keys and values stand behind those of a cache, which is given back."""

    @R.function
    def main(
        q: R.Tensor((1, 2, "m", 8), "float32"),
        k: R.Tensor((1, 2, "m", 8), "float32"),
        v: R.Tensor((1, 2, "m", 8), "float32"),
        past_k: R.Tensor((1, 2, "p", 8), "float32"),
        past_v: R.Tensor((1, 2, "p", 8), "float32"),
        mask: R.Tensor(("m", "p + m"), "float32"),
    ):
        with R.dataflow():
            k1 = R.concat([past_k, k], axis=2)
            v1 = R.concat([past_v, v], axis=2)
            products = R.matmul(q, R.permute_dims(k1, (0, 1, 3, 2)))
            scores = R.add(R.multiply(products, R.const(0.35, "float32")), mask)
            result = R.matmul(R.nn.softmax(scores), v1)
            R.output(result, k1, v1)
        return result, k1, v1


def kernels(module):
    return AnnotateTIROpPattern()(LegalizeOps()(relax.get_pipeline("graph")(module)))


def arrays(*shapes):
    generator = np.random.default_rng(0)
    return [generator.standard_normal(shape).astype("float32") for shape in shapes]


def bert(b, m, n):
    return arrays((b, m, 32), (b, n, 32), (b, n, 32), (b, 1, 1, n))


def cached(m, p):
    return arrays(*[(1, 2, m, 8)] * 3, *[(1, 2, p, 8)] * 2, (m, p + m))


BERT = [bert(2, 3, 5), bert(1, 1, 1), bert(1, 3, 0), bert(1, 0, 4)]
CACHED = [cached(1, 9), cached(6, 0), cached(0, 3)]


def hide_keys(mask):
    """Hide keys: in the first row half of them, in the second one all, which makes it NaN."""
    mask[..., : mask.shape[-1] // 2] = -np.inf
    mask[1:2] = -np.inf


def same(run, module, operands):
    """A function of the operands returns what the module's main function does."""
    for arguments in operands:
        hide_keys(arguments[-1])
        expected, result = (
            [np.asarray(x) for x in (value if isinstance(value, (tuple, list)) else [value])]
            for value in (relax.interpret(module, "main", *arguments), run(*arguments))
        )
        for x, y in zip(expected, result, strict=True):
            np.testing.assert_allclose(y, x, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("module", "operands"), [(Bert, BERT), (Cached, CACHED)])
def test_one_kernel_computes_the_same(module, operands):
    before = kernels(module)
    after = FuseAttention()(before)
    assert FuseAttention()(after) is after
    assert "fused_attention" in [g.name_hint for g in after.functions]
    merged = FuseTIR()(after)
    assert attention_of(merged["fused_attention"]) is not None
    assert not [g for g in merged.functions if "softmax" in g.name_hint or "matmul" in g.name_hint]
    same(lambda *arguments: relax.interpret(merged, "main", *arguments), module, operands)


@pytest.mark.parametrize(
    ("module", "operands"),
    [(Cached, [*CACHED, cached(7, 130)]), pytest.param(Bert, [*BERT, bert(1, 70, 9)], marks=pytest.mark.slow)],
)
def test_built(module, operands):
    same(relax.VirtualMachine(relax.build(module))["main"], module, operands)


def test_transposes_belong_to_the_kernel():
    """Operands and the result are read and written in the order that they have before and behind the transposes."""
    function = FuseTIR()(FuseAttention()(kernels(Bert)))["fused_attention"]
    found = attention_of(function)
    assert found is not None
    assert [str(load.indices[1]) for load in (found.query, found.keys, found.values, found.out)] == [
        str(found.row.var), str(found.key.var), str(found.key.var), str(found.row.var),
    ]  # fmt: skip


@pytest.mark.parametrize("narrow", ["bfloat16", pytest.param("float16", marks=pytest.mark.slow)])
def test_mixed_precision(narrow):
    """Weights are rounded in the kernel, as they were between kernels; the result is converted there."""
    mixed = ToMixedPrecision(fp16_input_names=["q", "k", "v"], mixed_precision_type=narrow)(Bert)
    after = FuseTIR()(FuseAttention()(kernels(mixed)))
    found = attention_of(after["fused_attention"])
    assert found is not None
    assert found.rounded == found.query.dtype == found.keys.dtype == found.values.dtype == narrow
    assert found.product.dtype == "float32"
    assert not [g for g in after.functions if "softmax" in g.name_hint or "matmul" in g.name_hint]
    vm = relax.VirtualMachine(relax.build(mixed))
    for *operands, mask in [*BERT, bert(1, 70, 9)]:
        hide_keys(mask)
        arguments = [*(x.astype(DataType(narrow).numpy()) for x in operands), mask]
        expected = relax.interpret(mixed, "main", *arguments).numpy()
        for run in (lambda *a: relax.interpret(after, "main", *a), vm["main"]):
            result = run(*arguments).numpy()
            np.testing.assert_allclose(result, expected, rtol=2**-8, atol=2**-8)
            assert not result.size or np.isclose(result, expected, equal_nan=True).mean() > 0.95


def other(scores, result, shapes=((2, 50, 8), (2, 8, 70), (2, 70, 8))):
    """A program whose scores are made, and whose results are chosen, by expressions."""
    q, k, v = (f'R.Tensor({shape}, "float32")' for shape in shapes)
    return relax.script.from_source(f"""
from relax.script import ir as I, relax as R
@I.ir_module
class Module:
    @R.function
    def main(q: {q}, k: {k}, v: {v}):
        with R.dataflow():
            products = R.matmul(q, k)
            scores = {scores}
            weights = R.nn.softmax(scores, axis=-1)
            mixed = R.matmul(weights, v)
            result = {result}
            R.output(result)
        return result
""")


@pytest.mark.parametrize(
    ("scores", "result"),
    [
        ("R.exp(products)", "R.add(R.sum(weights), mixed)"),  # the weights are used elsewhere
        ("R.exp(products)", "R.add(R.sum(products), mixed)"),
        ("R.add(products, R.max(products))", "mixed"),  # a score depends on others
    ],
)
def test_declines(scores, result):
    before = kernels(other(scores, result))
    assert FuseAttention()(before) is before


@pytest.mark.parametrize(
    "shapes",
    [((2, 5, 8), (2, 8, 7), (2, 7, 8)), ((2, 50, 800), (2, 800, 70), (2, 70, 800))],
    ids=["few multiplications", "heads of many elements"],
)
def test_declines_what_the_rule_does_not_stream(shapes):
    before = kernels(other("R.exp(products)", "mixed", shapes))
    assert FuseAttention()(before) is before


def test_declines_rounded_weights_of_keys_in_columns():
    columns = relax.script.from_source("""
from relax.script import ir as I, relax as R
@I.ir_module
class Module:
    @R.function
    def main(q: R.Tensor((2, 50, 8), "bfloat16"), k: R.Tensor((2, 8, 70), "bfloat16"), v: R.Tensor((2, 70, 8), "bfloat16")):
        with R.dataflow():
            weights = R.astype(R.nn.softmax(R.matmul(q, k, out_dtype="float32")), dtype="bfloat16")
            result = R.matmul(weights, v, out_dtype="float32")
            R.output(result)
        return result
""")
    before = kernels(columns)
    assert FuseAttention()(before) is before


def test_does_nothing_at_level_0():
    before = kernels(other("products", "mixed"))
    assert FuseAttention()(before) is not before
    with PassContext(opt_level=0):
        assert FuseAttention()(before) is before
