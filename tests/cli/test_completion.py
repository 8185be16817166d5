"""Completion scripts: bash runs its own; those of zsh and fish hold every option."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from relax.cli.completion import WRITERS, surfaces
from relax.cli.main import COMMANDS


@pytest.fixture(scope="module")
def surface():
    return surfaces()


def test_what_can_be_completed(surface):
    assert list(surface) == list(COMMANDS)
    flags = {flag for option in surface["run"].options for flag in option.flags}
    assert {"--input", "-i", "--size", "--seed", "-o", "--output", "--entry"} <= flags
    assert surface["cache"].choices == ("list", "clear", "prune", "export", "import", "warm")
    assert surface["cache"].has_actions
    assert surface["completion"].choices == ("bash", "zsh", "fish")


@pytest.mark.parametrize(
    "words, expected",
    [
        (["relax", "com"], ["compile", "complete", "completion"]),
        (["relax", "run", "--se"], ["--seed"]),
        (["relax", "profile", "--by", ""], ["kernel", "place"]),
        (["relax", "completion", "z"], ["zsh"]),
        (["relax", "run", "model"], []),
        (["relax", "cache", "ex"], ["export"]),
        (["relax", "cache", "export", "--pro"], ["--programs"]),
        (["relax", "cache", "prune", "--l"], ["--limit"]),
    ],
)
def test_bash(surface, words, expected):
    quoted = " ".join(f"'{word}'" for word in words)
    script = f"{WRITERS['bash'](surface)}\nCOMP_WORDS=({quoted})\nCOMP_CWORD={len(words) - 1}\n_relax\n"
    done = subprocess.run(
        ["bash", "-c", script + 'printf "%s\\n" "${COMPREPLY[@]}"'], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == expected


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_every_option_is_in_the_script(surface, shell):
    script = WRITERS[shell](surface)
    for name, command in surface.items():
        assert name in script
        for option in command.options:
            for flag in option.flags:
                shown = (
                    f"*{flag}[" if shell == "zsh" else f" -{'l' if flag.startswith('--') else 's'} {flag.strip('-')} "
                )
                assert shown in script
    for line in script.splitlines():
        assert line.replace("'\\''", "").replace("\\'", "").count("'") % 2 == 0


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_shell_reads_the_script(surface, shell, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    path = tmp_path / "relax"
    path.write_text(WRITERS[shell](surface), encoding="utf-8")
    subprocess.run([shell, "-n", str(path)], check=True)


def test_the_command(command):
    said = command("completion", "fish")
    assert said.status == 0
    assert said.out.startswith("# fish completion for relax\n")
    assert command("completion", "tcsh").status == 2
