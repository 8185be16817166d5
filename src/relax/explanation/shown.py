"""Presentation of explanations: a table, the program with remarks at its loops, and an HTML page."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from ..ir import IRModule, Node, walk
from ..runtime.records import dataclass
from ..script.highlight import print_highlighted
from ..target import Target
from ..tir import For, While
from .report import LoopReport, MachineCode
from .rules import RuleReport, joined

_TEMPLATE: Final = Path(__file__).with_name("page.html")
_COLUMNS: Final = (
    "loop", "vectors", "instructions", "flops", "FMAs", "loads/flop", "stores/flop", "spills", "gathers", "shuffles",
    "least cycles",
)  # fmt: skip


@dataclass(frozen=True)
class Explanation:
    """Reports on the schedule rules and innermost loops of kernels."""

    module: IRModule
    """Kernels in the form in which they are compiled: lowered to plain loops."""
    target: Target
    loops: tuple[LoopReport, ...]
    rules: tuple[RuleReport, ...]
    """Report on the schedule rules of each function."""

    def show(self) -> None:
        """Print the kernels with a remark at each reported loop, and the table."""
        print_highlighted(self.script())
        console = Console()
        if console.is_terminal or console.is_jupyter:
            console.print(self._rich_table())
            for note in self._notes():
                console.print(note, markup=False, highlight=False)
        else:
            print(f"\n{self}")  # noqa: T201  (it is asked for)

    def script(self) -> str:
        """The kernels as TVMScript, with a remark at each reported loop."""
        return self.module.script(obj_to_annotate=self._remarks)

    def __str__(self) -> str:
        """The table as plain text; the reasons and the schedule rules below it."""
        rows = [_COLUMNS, *map(_cells, self.loops)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
        lines = ["  ".join(_aligned(row, widths)).rstrip() for row in rows]
        return "\n".join([*lines, *self._notes()])

    def html(self) -> str:
        """Self-contained HTML page: the kernels, and the reports beside them."""
        page = _TEMPLATE.read_text(encoding="utf-8")
        replacements = {
            "@title@": escape(", ".join(sorted({report.function for report in self.loops})) or "no loops"),
            "@target@": escape(str(self.target)),
            "@script@": self._marked_script(),
            "@rules@": "\n".join(map(_rules_card, joined(self.rules))),
            "@reports@": "\n".join(_card(index, report) for index, report in enumerate(self.loops)),
        }
        for mark, text in replacements.items():
            page = page.replace(mark, text)
        return page

    def save(self, path: str | Path) -> None:
        """Write the page to a file."""
        Path(path).write_text(self.html(), encoding="utf-8")

    def _repr_html_(self) -> str:
        """HTML page in a frame, for notebooks."""
        return f'<iframe srcdoc="{escape(self.html())}" width="100%" height="600"></iframe>'

    # ------------------------------------------------------------------ parts

    def _rich_table(self) -> Table:
        table = Table(*_COLUMNS[:2], box=None, header_style="bold")
        for column in _COLUMNS[2:]:
            table.add_column(column, justify="right")
        for report in self.loops:
            style = {True: "green", False: "yellow", None: "dim"}[report.is_vectorised]
            table.add_row(*_cells(report), style=style)
        return table

    def _notes(self) -> list[str]:
        """Lines below the table."""
        loops = [f"{report.name}: {'; '.join(notes)}" for report in self.loops if (notes := _notes(report))]
        return [*loops, *(line for report in joined(self.rules) for line in report.lines())]

    @cached_property
    def _remarks(self) -> Mapping[Node, str]:
        """Remarks by loop; loops printed on one line share theirs."""
        return self._at_lines({index: _verdict(report) for index, report in enumerate(self.loops)})

    def _at_lines(self, texts: Mapping[int, str]) -> dict[Node, str]:
        """Texts about reports, by the loop at whose line they are shown."""
        heads = self._heads()
        result: dict[Node, str] = {}
        for index, text in texts.items():
            head = heads.get(self.loops[index].loop, self.loops[index].loop)
            result[head] = f"{result[head]}; {text}" if head in result else text
        return result

    def _heads(self) -> dict[Node, Node]:
        """For each loop, the first loop on its line: ``for i, j in T.grid(…)`` is one line."""
        loops: list[Node] = []
        walk(self.module, lambda node: loops.append(node) if isinstance(node, (For, While)) else None)
        text = self.module.script(obj_to_annotate={loop: f"<{i}>" for i, loop in enumerate(loops)})
        heads: dict[Node, Node] = {}
        for i, loop in enumerate(loops):
            begins = f"# <{i}>" in text or not i
            heads[loop] = loop if begins else heads[loops[i - 1]]
        return heads

    def _marked_script(self) -> str:
        """Kernels as HTML, with the numbers of reports at the lines of their loops."""
        marks = self._at_lines({index: f"<{index}>" for index in range(len(self.loops))})
        out: list[str] = []
        for line in self.module.script(obj_to_annotate=marks).splitlines():
            code, _, remark = line.partition("  # <")
            if not remark:
                out.append(f"<span>{escape(line)}</span>")
                continue
            numbers = [int(text.strip(" <>")) for text in remark.split(";")]
            links = "".join(
                f'<a id="line{number}" class="{_state(self.loops[number])}" href="#loop{number}">{number + 1}</a>'
                for number in numbers
            )
            out.append(f'<span class="loop">{escape(code)} {links}</span>')
        return "\n".join(out)


def _aligned(row: tuple[str, ...], widths: list[int]) -> list[str]:
    return [
        cell.ljust(width) if column < 2 else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]


def _cells(report: LoopReport) -> tuple[str, ...]:
    """Row of the table for a report."""
    main = report.main
    if main is None:
        return report.name, "no loop", *[""] * (len(_COLUMNS) - 2)
    counts = (main.instructions, main.flops, main.fmas)
    ratios = (report.loads_per_flop, report.stores_per_flop)
    rest = (main.spills + main.reloads, main.gathers, main.shuffles)
    return (
        report.name,
        _vectors(report),
        *map(_number, counts),
        *("-" if main.flops == 0 else _number(ratio) for ratio in ratios),
        *map(_number, rest),
        "-" if main.calls else _number(main.cycles),
    )


def _number(value: float | None) -> str:
    if value is None:
        return "?"
    return str(value) if isinstance(value, int) else f"{value:.3g}"


def _vectors(report: LoopReport) -> str:
    if report.main is None:
        return "no loop"
    if report.main.vector_bits is None:
        return "?"
    return f"{report.main.vector_bits} bits" if report.main.vector_bits else "no"


def _verdict(report: LoopReport) -> str:
    """Short verdict of a report."""
    if report.main is None:
        return report.reason
    if report.is_vectorised is None:
        return f"{report.main.instructions} instructions"
    vectors = f"vectorised: {report.main.vector_bits} bits" if report.is_vectorised else "not vectorised"
    spills = report.main.spills + report.main.reloads
    return f"{vectors}, {report.main.instructions} instructions" + (f", {spills} spills" if spills else "")


def _notes(report: LoopReport) -> list[str]:
    """Return remarks on a loop, each a sentence: vectorisation, calls, gathers."""
    main = report.main
    if main is None:
        return [report.reason]
    notes: list[str] = []
    if report.is_vectorised is False:
        notes.append(f"not vectorised: {report.reason}")
    if report.is_vectorised and report.lanes:
        notes.append(f"an iteration computes {report.interleaved} x {report.lanes} elements")
    if report.is_vectorised and main.scalar_floats:
        notes.append(f"{main.scalar_floats} instructions compute on single elements")
    if main.calls and report.is_vectorised:
        notes.append(f"calls {', '.join(main.calls)}")
    if main.scatters:
        notes.append(f"{main.scatters} scatters")
    if main.spills or main.reloads:
        notes.append(f"too few registers: {main.spills} writes to the stack, {main.reloads} reads from it")
    if report.copies > 1:
        notes.append(f"{report.copies} copies: the loop around it is unrolled")
    if report.others:
        many = len(report.others) > 1
        notes.append(f"{len(report.others)} more {'loops do' if many else 'loop does'} the rest")
    return notes


def _state(report: LoopReport) -> str:
    """CSS class of a report."""
    return {True: "vectors", False: "scalar", None: "other"}[report.is_vectorised]


def _rules_card(report: RuleReport) -> str:
    """HTML of a report on schedule rules; rules for other kinds of loop nests are folded."""
    title, *refusals = report.lines()
    others = [f"{', '.join(rules)}: {reason}" for reason, rules in report.reasons(unrelated=True).items()]
    shown, folded = ("".join(f"<p>{escape(line)}</p>" for line in lines) for lines in (refusals, others))
    more = f"<details><summary>rules for other kinds of loop nests</summary>{folded}</details>" if others else ""
    return f"<section><h2>{escape(title)}</h2>{shown}{more}</section>"


def _card(index: int, report: LoopReport) -> str:
    """HTML of a report."""
    cells = zip(_COLUMNS[1:], _cells(report)[1:], strict=True)
    counts = "".join(f"<dt>{escape(name)}</dt><dd>{escape(cell)}</dd>" for name, cell in cells if cell)
    notes = "".join(f"<p>{escape(note)}</p>" for note in _notes(report))
    codes: list[tuple[str, MachineCode]] = [("code for the rest", other) for other in report.others]
    if report.main is not None:
        codes.insert(0, ("machine code", report.main))
    code = "".join(
        f"<details><summary>{title}</summary><pre>{escape(entry.assembly)}</pre></details>" for title, entry in codes
    )
    return (
        f'<section id="loop{index}" class="{_state(report)}"><h2><a href="#line{index}">{index + 1}</a> '
        f"{escape(report.name)}</h2><dl>{counts}</dl>{notes}{code}</section>"
    )
