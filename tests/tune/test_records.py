"""Records of tuning on disk: several writers, files of others, other versions."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from dataclasses import replace

import pytest
from tuned_kernels import TARGET, product, record

from relax import te
from relax.codegen import resolve
from relax.farm import tuning_records
from relax.farm.tuning_records import Consulted, Database, JSONDatabase, key_of, note_answer, open_database
from relax.ir import DiagnosticError


@pytest.fixture(params=["tuning.sqlite", "tuning.jsonl"])
def database(request, tmp_path):
    return open_database(tmp_path / request.param)


def test_a_record_comes_back(database):
    assert database.records() == []
    one = record(sizes=({"n": 1}, {"n": 16}))
    database.add(one)
    assert type(database)(database.path).records() == [one]
    assert database.best([one.key]) == {one.key: one}
    assert one.gain == pytest.approx(2.0)
    assert one.choice == {"rule": "Product", "parameters": {"tile": [4, 2], "strassen": False}}


def test_the_schedule_that_is_taken_displaces_another(database):
    slow, fast = record(), record(parameters={"tile": [8, 2], "strassen": False}, gain=3.0)
    database.add(slow)
    database.add(fast)
    assert database.best([fast.key]) == {fast.key: fast}
    assert [(r.parameters["tile"], r.taken) for r in database.measured(fast.key)] == [([8, 2], True), ([4, 2], False)]
    database.add(replace(fast, taken=False))
    assert database.best([fast.key]) == {}
    assert database.remove(fast.key) == 2
    assert database.records() == []


def test_lines_of_json(tmp_path):
    here, there = Database(tmp_path / "a.sqlite"), JSONDatabase(tmp_path / "b.jsonl")
    several = [record(name="a"), record(rule="default", parameters={}, taken=False, name="b")]
    for one in several:
        here.add(one)
    assert here.export_lines(tmp_path / "records.jsonl") == 2
    assert there.import_lines(tmp_path / "records.jsonl") == 2
    assert there.records() == here.records() == several
    again = Database(tmp_path / "c.sqlite")
    assert again.import_lines(there.path) == 2
    assert again.records() == several


WRITER = """
import sys
from tuned_kernels import record
from relax.farm.tuning_records import open_database
database = open_database(sys.argv[1])
for number in range(20):
    database.add(record(parameters={"depth": number, "writer": sys.argv[2]}, taken=False))
"""


def test_two_processes_write_at_once(database):
    command = [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}\n{WRITER}", str(database.path)]
    processes = [subprocess.Popen([*command, name]) for name in ("one", "two")]
    assert [process.wait() for process in processes] == [0, 0]
    assert len(database) == 40


# -------------------------------------------------------------------------------------- keys


def test_the_key_is_the_structure():
    n, m = te.var("n", "int64"), te.var("m", "int64")
    keys = [key_of(product(rows), TARGET) for rows in (48, 50, n, m)]
    assert len({key.kernel for key in keys}) == 3
    assert keys[2] == keys[3]  # the name of a size does not count
    named = product().with_attr("global_symbol", "product")
    assert key_of(named, TARGET) == keys[0]
    assert key_of(product(), TARGET, (1,)) != keys[0]


def test_another_target_is_another_key():
    other = resolve("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell")
    assert key_of(product(), other).target != key_of(product(), TARGET).target


def test_a_record_of_another_version_is_not_found(database, monkeypatch):
    old = record()
    database.add(old)
    monkeypatch.setattr(tuning_records, "compiler_version", lambda: "pipeline 99")
    key = key_of(product(), TARGET)
    assert key.kernel == old.key.kernel
    assert database.best([key]) == {}
    assert database.measured(key) == []


def test_without_a_version_there_is_no_key(monkeypatch):
    monkeypatch.setattr(tuning_records, "compiler_files", lambda rooms: None)
    assert key_of(product(), TARGET) is None


# -------------------------------------------------------------------------------------- what a build asked


def test_a_build_inside_another_one_collects_its_own_questions():
    outer, inner = Consulted(), Consulted()
    before, inside, behind = (key_of(product(rows), TARGET) for rows in (1, 2, 3))
    with outer.collecting():
        note_answer(before, None)
        with inner.collecting():
            note_answer(inside, record())
        note_answer(behind, None)
    note_answer(inside, None)  # of a build that is not kept
    assert outer.answers == {before: "", behind: ""}
    assert inner.answers == {inside: json.dumps(record().choice, sort_keys=True)}


# -------------------------------------------------------------------------------------- files of others


def refusal(call):
    """The message of E4111 that a call raises."""
    with pytest.raises(DiagnosticError, match="E4111") as caught:
        call()
    return str(caught.value)


def test_a_file_that_is_no_database(tmp_path):
    path = tmp_path / "tuning.sqlite"
    path.write_bytes(b"\x7fELF" + bytes(5000))
    assert "file is not a database" in refusal(Database(path).records)
    assert "move it away" in refusal(lambda: Database(path).add(record()))
    assert path.read_bytes().startswith(b"\x7fELF")


@pytest.mark.parametrize("name", ["tuning.sqlite", "tuning.jsonl"])
def test_a_folder_in_place_of_a_file(tmp_path, name):
    (tmp_path / name).mkdir()
    database = open_database(tmp_path / name)
    assert "folder" in refusal(database.records).lower() or "is a directory" in refusal(database.records).lower()
    assert refusal(lambda: database.add(record()))


def test_a_file_of_lines_that_an_editor_saved(tmp_path):
    """With an empty line, and without an end of the last one."""
    database = JSONDatabase(tmp_path / "tuning.jsonl")
    first, second = record(name="a"), record(rule="default", parameters={}, taken=False, name="b")
    database.path.write_text(f"\n{first.as_json()}", encoding="utf-8")
    database.add(second)
    assert database.records() == [first, second]


def test_a_database_of_somebody_else(tmp_path):
    path = tmp_path / "tuning.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE people (name TEXT)")
    assert "it is another kind of database" in refusal(Database(path).records)
    assert "it is another kind of database" in refusal(lambda: Database(path).add(record()))


def test_a_view_or_a_trigger_beside_the_records(tmp_path):
    database = Database(tmp_path / "tuning.sqlite")
    database.add(record())
    with sqlite3.connect(database.path) as connection:
        connection.execute("CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records; END")
    assert "it is another kind of database" in refusal(database.records)


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("parameters", "[1]", "parameters are no object"),
        ("parameters", "{" * 5000, "damaged record"),
        ("seconds", "[-1]", "seconds is no positive number"),
        ("seconds", "[NaN]", "seconds is no positive number"),
        ("seconds", "[1, 2]", "sizes and seconds differ in length"),
        ("constants", '["0"]', "constants are no positions"),
        ("taken", 7, "taken is neither 0 nor 1"),
    ],
)
def test_a_damaged_record(tmp_path, column, value, reason):
    database = Database(tmp_path / "tuning.sqlite")
    database.add(record())
    with sqlite3.connect(database.path) as connection:
        connection.execute(f"UPDATE records SET {column} = ?", (value,))
    assert reason in refusal(database.records)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"format": 2}, "line 2 is no record (its format is 2, not 1)"),
        ({"taken": "yes"}, "taken is neither true nor false"),
        ({"sizes": [{"n": -1}]}, "sizes are no numbers by name"),
        ({"noise": None}, "noise is no positive number"),
        ({"noise": 10**400}, "noise is too large"),
        ({"name": "\ud800"}, "surrogates not allowed"),
        (None, "line 2 is no record (expected an object, found list)"),
    ],
)
def test_a_line_that_is_no_record(tmp_path, change, reason):
    good = record().as_json()
    bad = json.dumps([] if change is None else {**json.loads(good), **change})
    path = tmp_path / "records.jsonl"
    path.write_text(f"{good}\n{bad}\n", encoding="utf-8")
    database = Database(tmp_path / "tuning.sqlite")
    assert reason in refusal(lambda: database.import_lines(path))
    assert database.records() == []  # nothing of the file
    assert reason in refusal(JSONDatabase(path).records)
