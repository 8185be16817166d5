"""Results of tuning as one HTML page without outside resources.

a section per kernel
    the result in words, times at each measured size
    curves of the best candidate so far, over time and over measurements
    the loops of the default schedule beside those that were chosen, as TVMScript
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Final

from .candidates import Candidate
from .measuring import CERTAINTY, Measurement
from .report import shown_outcome, time_in_words
from .search import LEAST_GAIN, Outcome, Step

_TEMPLATE: Final = Path(__file__).with_name("page.html")
_WIDTH: Final = 480
_HEIGHT: Final = 200
_LEFT: Final = 44
"""Width of the labels beside a curve."""
_LOWER: Final = 30
"""Height of the labels below a curve."""
_LONGEST: Final = 4000
"""Lines of loops from which on a function is not compared with another one line by line."""


def tuning_page(outcomes: Sequence[Outcome], title: str = "Tuning") -> str:
    """Return an HTML page about searches: for each kernel the curve of the best so far, and the loops.

    Parameters
    ----------
    outcomes
        Results of searches, as `Progress.outcome` holds them where `Progress.is_last` is True.
    title
        Heading of the page.

    Returns
    -------
    str
        A document that refers to no other file.
    """
    faster = sum(outcome.chosen is not None for outcome in outcomes)
    measured = sum(outcome.tried for outcome in outcomes)
    seconds = sum(outcome.seconds for outcome in outcomes)
    summary = (
        f"{_counted(len(outcomes), 'kernel')}, {faster} of them faster than by the default schedule; "
        f"{_counted(measured, 'candidate')} measured in {seconds:.0f} s."
    )
    sections = "\n".join(map(_section, outcomes))
    page = _TEMPLATE.read_text(encoding="utf-8")
    for part in (("@summary@", escape(summary)), ("@title@", escape(title)), ("@kernels@", sections)):
        page = page.replace(*part)
    return page


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _section(outcome: Outcome) -> str:
    """Return the HTML of one kernel."""
    kind = "none" if outcome.chosen is None else "gain"
    parts = [f'<section><h2>{escape(outcome.kernel.name)}</h2><p class="{kind}">{escape(shown_outcome(outcome))}</p>']
    if outcome.default is not None:
        parts += [f"<p>{escape(_certainty(outcome))}</p>", _times(outcome), _curves(outcome.steps)]
        parts += [_loops(outcome.default, outcome.chosen), _failures(outcome)]
    return "\n".join([*parts, "</section>"])


# -------------------------------------------------------------------------------------- words


def _certainty(outcome: Outcome) -> str:
    """Return gain and noise in words."""
    itself, own = outcome.itself, outcome.measurement
    needed = math.expm1(outcome.floor)
    reason = (
        "the least that is taken"
        if outcome.floor == LEAST_GAIN
        else "more than the default schedule, measured against itself, seemed to gain"
    )
    words = f"A gain had to exceed {needed:.1%}: {reason}"
    if itself is not None:
        words += f" (there {math.expm1(itself.gain):+.1%}, with a standard error of {itself.noise:.1%})"
    words += "."
    if own is None:
        return f"{words} No candidate was measured without a failure."
    if outcome.chosen is None:
        return (
            f"{words} The best candidate was at {math.expm1(own.gain):+.1%}, with a standard error of {own.noise:.1%}."
        )
    gain = math.expm1(own.gain)
    return (
        f"{words} The chosen loops gain {gain:.1%}, with a standard error of {own.noise:.1%}: "
        f"{'certainly' if own.gain > 2 * CERTAINTY * own.noise else 'just'} more than the noise."
    )


def _times(outcome: Outcome) -> str:
    """Return a table of times at each size: of the chosen loops, or of the default schedule against itself."""
    measurement = outcome.itself if outcome.chosen is None else outcome.measurement
    if measurement is None:
        return ""
    return _table(outcome, measurement, outcome.chosen is not None)


def _table(outcome: Outcome, measurement: Measurement, has_chosen: bool) -> str:
    header = ["size", "default", *(["chosen", "gain"] if has_chosen else [])]
    rows: list[list[str]] = []
    ours, theirs = measurement.seconds
    for sizes, own, default, gain in zip(outcome.kernel.sizes, ours, theirs, measurement.gains, strict=True):
        name = ", ".join(f"{size}={value}" for size, value in sizes.items()) or "all sizes are static"
        row = [name, time_in_words(default)]
        rows.append([*row, time_in_words(own), f"{math.expm1(gain):+.1%}"] if has_chosen else row)
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _failures(outcome: Outcome) -> str:
    """Return a folded list of the candidates that were dropped; "" if there are none."""
    if not outcome.failures:
        return ""
    lines = "".join(f"<li><code>{escape(name)}</code>: {escape(why)}</li>" for name, why in outcome.failures.items())
    return (
        f"<details><summary>{_counted(len(outcome.failures), 'candidate')} dropped</summary><ul>{lines}</ul></details>"
    )


# -------------------------------------------------------------------------------------- curves


def _curves(steps: Sequence[Step]) -> str:
    """Return the curves of the best so far over time and over measurements; "" without measurements."""
    if not steps:
        return ""
    by_time = _curve(steps, [step.seconds for step in steps], "seconds", lambda x: f"{x:.3g} s")
    by_number = _curve(steps, [*range(1, len(steps) + 1)], "measurements", lambda x: f"{x:.0f}")
    return (
        "<h3>Speed of the best candidate so far (line) and of each measurement (points), over the default's</h3>"
        f'<div class="sides">{by_time}{by_number}</div>'
    )


def _curve(steps: Sequence[Step], places: Sequence[float], label: str, written: Callable[[float], str]) -> str:
    """Return an SVG of the speed over `places`, the default's being 1; `written` makes the labels of the axis."""
    right, top = max(places) or 1.0, 1.1 * max(math.exp(max(step.best, step.gain or 0.0)) for step in steps)

    def x(place: float) -> float:
        return round(_LEFT + place / right * (_WIDTH - _LEFT - 8), 1)

    def y(speed: float) -> float:
        return round((_HEIGHT - _LOWER) * (1 - speed / top) + 4, 1)

    line = [(x(0), y(1.0))]
    points: list[str] = []
    for place, step in zip(places, steps, strict=True):
        line += [(x(place), line[-1][1]), (x(place), y(math.exp(step.best)))]
        if step.gain is None:
            a, b = x(place), y(0)
            mark = f'<path class="failed" d="M{a - 3} {b - 8}l6 6m0 -6l-6 6"><title>{escape(step.candidate)}: failed'
            points.append(f"{mark}</title></path>")
        else:
            speed = math.exp(step.gain)
            words = escape(f"{step.candidate}: {speed:.2f} times as fast")
            points.append(
                f'<circle class="tried" cx="{x(place)}" cy="{y(speed)}" r="3"><title>{words}</title></circle>'
            )
    path = "M" + "L".join(f"{a} {b}" for a, b in line)
    ticks = "".join(
        f'<text x="{_LEFT - 6}" y="{y(speed) + 4}" text-anchor="end">{speed:.3g}</text>' for speed in _ticks(top)
    ) + "".join(
        f'<text x="{x(right * part)}" y="{_HEIGHT - 14}" text-anchor="{anchor}">{written(right * part)}</text>'
        for part, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end"))
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="speed over {label}">'
        f'<path class="axis" d="M{_LEFT} 4V{y(0)}H{_WIDTH - 8}"/>'
        f'<line class="one" x1="{_LEFT}" x2="{_WIDTH - 8}" y1="{y(1.0)}" y2="{y(1.0)}"/>'
        f'{"".join(points)}<path class="best" d="{path}"/>{ticks}'
        f'<text x="{(_LEFT + _WIDTH) // 2}" y="{_HEIGHT - 2}" text-anchor="middle">{label}</text></svg>'
    )


def _ticks(top: float) -> list[float]:
    """Return up to six round numbers from 0 to `top`."""
    step = 10.0 ** math.floor(math.log10(top))
    size = next(size for size in (step / 5, step / 2, step, 2 * step) if top / size < 6)
    return [number * size for number in range(int(top / size) + 1)]


# -------------------------------------------------------------------------------------- loops


def _loops(default: Candidate, chosen: Candidate | None) -> str:
    """Return the loops of the default schedule beside those that were chosen; lines of one side alone are marked."""
    before = default.variant.func.script().splitlines()
    if chosen is None:
        return f"<h3>The default loops</h3><pre>{escape(chr(10).join(before))}</pre>"
    after = chosen.variant.func.script().splitlines()
    only_before, only_after = _differing(before, after)
    return (
        f'<div class="sides"><div><h3>The default loops</h3>{_marked(before, only_before)}</div>'
        f"<div><h3>The chosen loops: {escape(str(chosen))}</h3>{_marked(after, only_after)}</div></div>"
    )


def _differing(before: Sequence[str], after: Sequence[str]) -> tuple[set[int], set[int]]:
    """Return the numbers of lines that one text has and the other lacks, for both; none for very long texts."""
    if max(len(before), len(after)) > _LONGEST:
        return set(), set()
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=len(before) + len(after) > 1000)
    own_before, own_after = set[int](), set[int]()
    for kind, start, end, other_start, other_end in matcher.get_opcodes():
        if kind != "equal":
            own_before.update(range(start, end))
            own_after.update(range(other_start, other_end))
    return own_before, own_after


def _marked(lines: Sequence[str], own: set[int]) -> str:
    text = "\n".join(
        f'<span class="own">{escape(line)}</span>' if number in own else escape(line)
        for number, line in enumerate(lines)
    )
    return f"<pre>{text}</pre>"
