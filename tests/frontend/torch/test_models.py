"""Small models of transformers by torch.compile and by the importer, at three sizes from one build."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch_models  # noqa: E402
from support import PLAIN_LOOPS  # noqa: E402

FAST = {"tier": "now", "target": PLAIN_LOOPS}


@pytest.mark.parametrize(
    ("name", "door"),
    [
        ("bert", "compile"),
        ("gpt2", "import"),
        ("qwen3", "import"),
        ("gemma", "import"),
        ("mistral", "import"),
        ("bloom", "import"),
        ("mixtral", "import"),
        ("whisper", "import"),
    ],
)
def test_a_model_is_equal_at_three_sizes_from_one_build(name, door):
    outcome = torch_models.check("transformers", name, door, FAST)
    assert (outcome.verdict, outcome.reason) == ("right", "")
    assert (outcome.recompilations, outcome.breaks, outcome.eager) == (0, [], [])


def test_a_wrong_result_is_wrong():
    ones = torch.ones(2, 3)
    assert torch_models.difference([ones], [ones + 1e-6]) == ""
    two = ones.index_fill(1, torch.tensor([0]), 2)
    assert "Mismatched elements: 2 / 6" in torch_models.difference([two], [ones])
    assert (
        torch_models.difference([ones[:1]], [ones]) == "result 0: [1, 3] torch.float32, expected [2, 3] torch.float32"
    )
    assert torch_models.difference([], [ones]) == "0 results, expected 1"


def test_the_page_lists_what_is_not_right():
    outcomes = [
        torch_models.Outcome("timm", "resnet18", "compile", "right", graphs=1, pieces=1),
        torch_models.Outcome("timm", "other", "import", "refused", "the operator a|b is not supported"),
    ]
    assert torch_models.table(outcomes) == [
        "| library | check | models | right | graphs split by torch | compiled again | parts in eager torch |",
        "|---|---|---|---|---|---|---|",
        "| timm | compile | 1 | 1 | 0 | 0 | 0 |",
        "| timm | import | 1 | 0 | 0 | 0 | 0 |",
        "",
        "timm: `other` `resnet18`.",
        "",
        "| model | check | result | remark |",
        "|---|---|---|---|",
        r"| timm `other` | import | refused | the operator a\|b is not supported |",
    ]
