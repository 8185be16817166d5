"""The page about searches: words, curves, and loops side by side."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from tuned_kernels import TARGET, product

from relax.schedules.cpu import RULES
from relax.tune import tuning_page
from relax.tune.candidates import Candidates
from relax.tune.design_spaces import Choice
from relax.tune.kernels import Kernel
from relax.tune.measuring import Measurement
from relax.tune.search import Outcome, Step

KERNEL = Kernel("matmul<1>", product())
CANDIDATES = Candidates(KERNEL, TARGET, RULES)
CHOSEN = CANDIDATES.make(Choice("Product", '{"strassen": false, "tile": [4, 2]}'))


def measurement(ours, theirs=1e-3):
    """Five pairs of samples, with the data in the caches and without."""
    pairs = tuple((ours * factor, theirs) for factor in (1.0, 1.01, 0.99, 1.0, 1.02))
    return Measurement((pairs,), (pairs,))


STEPS = [
    Step(0.5, "Product(depth=32)", -0.1, 0.0),
    Step(1.0, "Product(tile=[4, 2])", 0.3, 0.3),
    Step(1.5, "Product(chunk=10)", None, 0.3),
    Step(2.0, "Product(tile=[4, 2])", 0.25, 0.25),
]


def outcome(**fields):
    values = {
        "itself": measurement(1e-3), "measurement": measurement(0.8e-3), "tried": 3, "seconds": 2.5,
        "default": CANDIDATES.default, "steps": STEPS, "failures": {"Product(chunk=10)": "wrong result: at [0] <1>"},
    }  # fmt: skip
    return Outcome(KERNEL, **{**values, **fields})


TUNED = tuning_page([outcome(chosen=CHOSEN)], "Tuning of model.onnx")
KEPT = tuning_page([outcome(measurement=measurement(0.995e-3))])


class Tags(HTMLParser):
    """Checks that each tag but those without an end is closed in its order; collects the attributes of links."""

    def __init__(self, page):
        super().__init__()
        self.opened, self.resources = [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.resources += [value for name, value in attrs if name in ("src", "href", "data", "xlink:href")]
        if tag != "meta":
            self.opened.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.opened.pop() == tag


@pytest.mark.parametrize("page", [TUNED, KEPT, tuning_page([])], ids=["faster", "the default", "no kernel"])
def test_a_page_is_one_document_without_other_files(page):
    tags = Tags(page)
    assert tags.opened == []
    assert tags.resources == []
    assert not re.search(r"https?:|@import|url\(|@\w+@", page)


def test_the_result_in_words():
    assert "<title>Tuning of model.onnx</title>" in TUNED
    assert "1 kernel, 1 of them faster than by the default schedule; 3 candidates measured in 2 s." in TUNED
    assert "matmul&lt;1&gt;: 1.25 times as fast by Product(strassen=False, tile=[4, 2]) (3 measured" in TUNED
    assert "A gain had to exceed 2.0%: the least that is taken (there +0.0%, with a standard error of " in TUNED
    assert re.search(r"The chosen loops gain 25\.0%, with a standard error of \d\.\d%: certainly more than", TUNED)
    assert "<td>all sizes are static</td><td>1 ms</td><td>800 µs</td><td>+25.0%</td>" in TUNED


def test_the_curves():
    assert re.findall(r'aria-label="([^"]*)"', TUNED) == ["speed over seconds", "speed over measurements"]
    curve = TUNED.partition("<svg")[2].partition("</svg>")[0]
    assert curve.count("<circle") == 3
    assert "<title>Product(tile=[4, 2]): 1.35 times as fast</title>" in curve
    assert curve.count('class="failed"') == 1
    assert "<title>Product(chunk=10): failed</title>" in curve
    assert 'text-anchor="end">2 s</text>' in curve
    heights = [float(y) for y in re.findall(r" ([\d.]+)(?=L|$)", re.search(r'class="best" d="([^"]*)"', curve)[1])]
    assert heights[0] == heights[2]  # the default is the best after the first measurement
    assert heights[4] == heights[6] < heights[8] < heights[0]  # faster is higher; the last measurement corrects one


def test_loops_side_by_side():
    default, chosen = re.findall(r"<pre>(.*?)</pre>", TUNED, re.DOTALL)
    assert "def main(" in default
    assert "def main(" in chosen
    assert 'class="own"' in default
    assert '<span class="own">' in chosen
    lines = [re.sub("<[^>]*>", "", line) for line in chosen.splitlines() if 'class="own"' not in line]
    assert lines
    assert set(lines) <= set(re.sub("<[^>]*>", "", default).splitlines())
    assert "<h3>The chosen loops: Product(strassen=False, tile=[4, 2])</h3>" in TUNED


def test_a_kernel_whose_default_stays():
    assert "the default schedule stays (3 measured, 1 of them failed)" in KEPT
    assert "The best candidate was at +0.5%, with a standard error of " in KEPT
    assert len(re.findall("<pre>", KEPT)) == 1
    assert "<td>all sizes are static</td><td>1 ms</td></tr>" in KEPT


def test_candidates_that_were_dropped():
    assert "<summary>1 candidate dropped</summary>" in TUNED
    assert "<code>Product(chunk=10)</code>: wrong result: at [0] &lt;1&gt;" in TUNED


def test_a_kernel_that_was_not_tuned():
    page = tuning_page([Outcome(KERNEL, reason="its default schedule fails: a <crash>")])
    assert "matmul&lt;1&gt;: not tuned, since its default schedule fails: a &lt;crash&gt;" in page
    assert "<svg" not in page
