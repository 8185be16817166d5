"""Records of tuning: the rule and parameters that were measured to be fastest for a kernel, on disk.

    key       digest of the kernel before it is scheduled, with symbolic sizes and without names; positions of constant
              arguments; target and its machine; files that schedule and generate kernels
    record    rule, parameters (of the rule ``Variants``: several rules, each for a range of a size), sizes measured,
              seconds of the candidate and of the default at each size, noise

`Database` is a SQLite file that several processes may write (write-ahead log), `JSONDatabase` a file of JSON lines,
which `export_lines` and `import_lines` read and write as well. `relax.build` consults the database of the context
(``with database:``), else the file that the environment names:

    RELAX_TUNE_DATABASE      file of records; empty: none (default: tuning.sqlite beside the cache of kernels)

Nothing in a file is trusted: texts are limited and checked, and a schedule is what a rule of the target makes of
parameters of its own space.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar, Token
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from ..ir import Diagnostic, DiagnosticError, nameless_digest
from ..runtime.records import dataclass
from ..runtime.rooms import ModuleWhenUsed
from ..target import Target
from ..tir import PrimFunc
from . import cache
from ._generator import FILES
from .store import digest
from .versions import compiler_files, compiler_version, target_words

if TYPE_CHECKING:
    import io
    import sqlite3
else:  # a build without a database needs no SQLite
    sqlite3 = ModuleWhenUsed("sqlite3")

VARIABLE: Final = "RELAX_TUNE_DATABASE"
"""Environment variable with the path of the database."""

UNREADABLE: Final = "E4111"
"""Error code: a database of tuning records, or a line of one, that is not as this module writes them."""

_FORMAT: Final = 1
_APPLICATION: Final = 0x52786C54
"""Application id in the head of the SQLite file."""
_LONGEST: Final = 1 << 20
"""Most characters of a text in a record."""
_PATIENCE: Final = 30.0
"""Seconds to wait for another process that writes."""
_KEPT_ATTRIBUTES: Final = frozenset({"tir.noalias"})
"""Attributes of a kernel that decide its schedule; others are names, or notes of passes."""

_COLUMNS: Final = (
    "kernel", "constants", "target", "version", "rule", "parameters", "sizes", "seconds", "default_seconds", "noise",
    "taken", "name", "machine", "created",
)  # fmt: skip
_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS records (kernel TEXT NOT NULL, constants TEXT NOT NULL, target TEXT NOT NULL, "
    "version TEXT NOT NULL, rule TEXT NOT NULL, parameters TEXT NOT NULL, sizes TEXT NOT NULL, seconds TEXT NOT NULL, "
    "default_seconds TEXT NOT NULL, noise REAL NOT NULL, taken INTEGER NOT NULL, name TEXT NOT NULL, "
    "machine TEXT NOT NULL, created REAL NOT NULL, "
    "PRIMARY KEY (kernel, constants, target, version, rule, parameters)) WITHOUT ROWID"
)


class KernelKey(NamedTuple):
    """Key of the records of a kernel."""

    kernel: str
    """Digest of the function before it is scheduled."""
    constants: tuple[int, ...]
    """Positions of constant arguments."""
    target: str
    """Digest of the target and its machine."""
    version: str
    """Digest of the files that schedule and generate kernels."""


@dataclass(frozen=True)
class Record:
    """A measured schedule of a kernel."""

    key: KernelKey
    rule: str
    parameters: Mapping[str, Any]
    """Fields of the rule's space that differ from the default, as JSON holds them."""
    sizes: tuple[Mapping[str, int], ...]
    """Values of the symbolic sizes at which was measured."""
    seconds: tuple[float, ...]
    """Median time of a call at each of `sizes`."""
    default_seconds: tuple[float, ...]
    """Median time of the default schedule, measured in alternation."""
    noise: float
    """Relative uncertainty of the ratio of the times."""
    taken: bool = False
    """True if `relax.build` shall use the schedule: its gain exceeds the noise."""
    name: str = ""
    """Name of the kernel in the program it was tuned for."""
    machine: str = ""
    """Text of the target."""
    created: float = field(default_factory=time.time)

    @property
    def gain(self) -> float:
        """Geometric mean over the sizes of the default's time over this schedule's."""
        ratios = [math.log(b / a) for a, b in zip(self.seconds, self.default_seconds, strict=True) if a > 0 and b > 0]
        return math.exp(sum(ratios) / len(ratios)) if ratios else 1.0

    @property
    def choice(self) -> dict[str, Any]:
        """Rule and parameters: the attribute ``relax.schedule`` that asks for the schedule (`relax.schedules.choice`).

        For ``Variants`` it is made for a function, by `relax.schedules.variants.attribute_of`.
        """
        return {"rule": self.rule, "parameters": dict(self.parameters)}

    def as_json(self) -> str:
        """Return the record as a line of JSON."""
        kernel, constants, target, version = self.key
        return json.dumps({
            "format": _FORMAT, "kernel": kernel, "constants": list(constants), "target": target, "version": version,
            "rule": self.rule, "parameters": dict(self.parameters), "sizes": [dict(s) for s in self.sizes],
            "seconds": list(self.seconds), "default_seconds": list(self.default_seconds), "noise": self.noise,
            "taken": self.taken, "name": self.name, "machine": self.machine, "created": self.created,
        }, sort_keys=True)  # fmt: skip

    @staticmethod
    def from_json(text: str) -> Record:
        """Read a record. Raises ValueError for any other text."""
        if len(text) > _LONGEST:
            raise ValueError(f"a record has more than {_LONGEST} characters")
        try:
            value = json.loads(text)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        if not isinstance(value, dict):
            raise ValueError(f"expected an object, found {type(value).__name__}")
        table = cast("dict[str, Any]", value)
        if table.get("format") != _FORMAT:
            raise ValueError(f"its format is {table.get('format')!r}, not {_FORMAT}")
        return _checked(table)


def key_of(func: PrimFunc, target: Target, constants: Sequence[int] = ()) -> KernelKey | None:
    """Key of a kernel that is not scheduled yet, for a resolved target; None if the compiler's files were edited."""
    version = records_version()
    if version is None:
        return None
    attrs = {name: value for name, value in func.attrs.items() if name in _KEPT_ATTRIBUTES}
    structure, _ = nameless_digest(func.replace(attrs=attrs))
    return KernelKey(structure.hex(), tuple(constants), target_digest(target), version)


def target_digest(target: Target) -> str:
    """Return the digest of a resolved target and its machine, as keys hold it."""
    return _digest_of(target_words(target))


def records_version() -> str | None:
    """Digest of the rules, passes on loops and code generator, which decide code; None if their files were edited."""
    files = compiler_files(("schedules", *FILES))
    return None if files is None else _digest_of(f"{files}\n{compiler_version()}")


def _digest_of(text: str) -> str:
    return digest([text.encode()], 16).hex()


# -------------------------------------------------------------------------------------- databases


class Database:
    """Records in a SQLite file, which is created by `prepare` or with the first record.

    ``with database:`` makes `relax.build` consult it. Methods raise DiagnosticError (E4111) if the file holds anything
    else.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).expanduser()
        self._tokens: list[Token[Database | None]] = []

    def __enter__(self) -> Database:
        self._tokens.append(_current.set(self))
        return self

    def __exit__(self, *error: object) -> None:
        _current.reset(self._tokens.pop())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    def __len__(self) -> int:
        return len(self.records())

    def add(self, record: Record) -> None:
        """Write a record, in place of one with the same key, rule and parameters; it displaces another one if taken."""
        with self._connected(write=True) as connection:
            _write(connection, record)

    def prepare(self) -> None:
        """Create the file if there is none. Raises DiagnosticError (E4111) if records cannot be written to it."""
        with self._connected(write=True):
            pass

    def records(self) -> list[Record]:
        """Return all records, of any target and version, in the order of their kernels' names."""
        return self._select("", ())

    def best(self, keys: Iterable[KernelKey]) -> dict[KernelKey, Record]:
        """Return the record that is taken for each of `keys` that has one."""
        wanted = {key.kernel: None for key in keys}
        by_key: dict[KernelKey, Record] = {}
        names = [*wanted]
        for start in range(0, len(names), 500):
            part = names[start : start + 500]
            marks = ",".join("?" * len(part))
            for record in self._select(f"WHERE taken = 1 AND kernel IN ({marks})", part):
                by_key[record.key] = record
        return {key: by_key[key] for key in keys if key in by_key}

    def measured(self, key: KernelKey) -> list[Record]:
        """Return all records of a kernel, the fastest first."""
        records = [r for r in self._select("WHERE kernel = ?", (key.kernel,)) if r.key == key]
        return sorted(records, key=lambda record: -record.gain)

    def remove(self, key: KernelKey) -> int:
        """Remove all records of a kernel; return their number."""
        with self._connected(write=True) as connection:
            where = "kernel = ? AND constants = ? AND target = ? AND version = ?"
            values = (key.kernel, json.dumps(list(key.constants)), key.target, key.version)
            return connection.execute(f"DELETE FROM records WHERE {where}", values).rowcount

    def export_lines(self, path: str | os.PathLike[str]) -> int:
        """Write all records to a file of JSON lines; return their number."""
        records = self.records()
        Path(path).write_text("".join(f"{record.as_json()}\n" for record in records), encoding="utf-8")
        return len(records)

    def import_lines(self, path: str | os.PathLike[str]) -> int:
        """Add the records of a file of JSON lines; return their number.

        Raises DiagnosticError (E4111), and adds nothing, if a line is no record.
        """
        records = list(_lines(Path(path)))
        with self._connected(write=True) as connection:
            for record in records:
                _write(connection, record)
        return len(records)

    # ---------------------------------------------------------------- SQLite

    def _select(self, where: str, values: Sequence[str]) -> list[Record]:
        if not self._exists():
            return []
        with self._connected() as connection:
            columns = ", ".join(_COLUMNS)
            rows = connection.execute(f"SELECT {columns} FROM records {where} ORDER BY name, kernel, rule", values)
            return [self._record(row) for row in rows]

    def _exists(self) -> bool:
        try:
            return self.path.stat().st_size > 0
        except FileNotFoundError:
            return False
        except OSError as error:
            raise unreadable(self.path, error.strerror or str(error)) from None

    def _record(self, row: Sequence[Any]) -> Record:
        table: dict[str, Any] = dict(zip(_COLUMNS, row, strict=True))
        try:
            for name in ("constants", "parameters", "sizes", "seconds", "default_seconds"):
                if not isinstance(table[name], str) or len(table[name]) > _LONGEST:
                    raise ValueError(f"{name} is no short text")
                table[name] = json.loads(table[name])
            if table["taken"] not in (0, 1):
                raise ValueError("taken is neither 0 nor 1")
            table["taken"] = bool(table["taken"])
            return _checked(table)
        except (ValueError, RecursionError) as error:
            raise unreadable(self.path, f"it has a damaged record ({error})") from None

    @contextlib.contextmanager
    def _connected(self, write: bool = False) -> Generator[sqlite3.Connection]:
        try:
            with contextlib.closing(self._opened(write)) as connection:
                self._check(connection, write)
                if write:
                    connection.execute("BEGIN IMMEDIATE")
                yield connection
                if write:
                    connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise unreadable(self.path, str(error)) from None
        except OSError as error:
            raise unreadable(self.path, error.strerror or str(error)) from None

    def _opened(self, write: bool) -> sqlite3.Connection:
        """Return a connection whose transactions are explicit. Raises OSError where no file can be."""
        if self.path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        if write:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None)
        else:
            alone = "" if os.access(self.path.parent, os.W_OK) else "&immutable=1"  # a log beside it cannot be written
            uri = f"{self.path.resolve().as_uri()}?mode=ro{alone}"
            connection = sqlite3.connect(uri, timeout=_PATIENCE, isolation_level=None, uri=True)
        connection.execute("PRAGMA trusted_schema = OFF")
        return connection

    def _check(self, connection: sqlite3.Connection, write: bool) -> None:
        """Raise DiagnosticError unless the file holds the table of records and nothing else; create it for a writer."""
        entries = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        if not entries and application == 0 and write:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(_TABLE)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {_FORMAT}")
            connection.execute("COMMIT")
            return
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        declared = _TABLE.replace("IF NOT EXISTS ", "")
        if application != _APPLICATION or [tuple(entry) for entry in entries] != [("table", "records", declared)]:
            raise unreadable(self.path, "it is another kind of database")
        if version != _FORMAT:
            raise unreadable(self.path, f"its format is {version}, not {_FORMAT}")


class JSONDatabase(Database):
    """Records in a file of JSON lines, one appended with each `add`; the last one of a kind counts.

    The file is read again for each question: a `Database` is faster for more than a few hundred records.
    """

    def add(self, record: Record) -> None:
        """Append a record."""
        self._append([record])

    def prepare(self) -> None:
        """Create the file if there is none. Raises DiagnosticError (E4111) if records cannot be written to it."""
        self._append([])

    def records(self) -> list[Record]:
        """Return all records that no later line replaces."""
        if not self._exists():
            return []
        rows: dict[tuple[KernelKey, str, str], Record] = {}
        taken: dict[KernelKey, tuple[KernelKey, str, str]] = {}
        for record in _lines(self.path):
            place = record.key, record.rule, json.dumps(dict(record.parameters), sort_keys=True)
            rows.pop(place, None)
            rows[place] = record
            if record.taken:
                taken[record.key] = place
        kept = (_not_taken(r) if r.taken and taken[r.key] != place else r for place, r in rows.items())
        return sorted(kept, key=lambda record: (record.name, record.key.kernel, record.rule))

    def remove(self, key: KernelKey) -> int:
        """Rewrite the file without the records of a kernel; return their number.

        A record that another process adds meanwhile may be lost.
        """
        records = self.records()
        kept = [record for record in records if record.key != key]
        if len(kept) < len(records):
            try:
                self.path.write_text("".join(f"{record.as_json()}\n" for record in kept), encoding="utf-8")
            except OSError as error:
                raise unreadable(self.path, error.strerror or str(error)) from None
        return len(records) - len(kept)

    def import_lines(self, path: str | os.PathLike[str]) -> int:
        """Append the records of a file of JSON lines; return their number.

        Raises DiagnosticError (E4111), and appends nothing, if a line is no record.
        """
        records = list(_lines(Path(path)))
        self._append(records)
        return len(records)

    def _append(self, records: Sequence[Record]) -> None:
        text = "".join(f"{record.as_json()}\n" for record in records)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "a+b", buffering=0) as file:  # one write: lines of two processes do not mix
                file.write(("" if _ends_with_line(file) else "\n").encode() + text.encode())
        except OSError as error:
            raise unreadable(self.path, error.strerror or str(error)) from None

    def _select(self, where: str, values: Sequence[str]) -> list[Record]:
        records = self.records()
        kernels = set(values)
        if "taken = 1" in where:
            records = [record for record in records if record.taken]
        return [record for record in records if not where or record.key.kernel in kernels]


def _ends_with_line(file: io.FileIO) -> bool:
    """True for an empty file, and one whose last line is complete: an editor may have left out its end."""
    if file.seek(0, os.SEEK_END) == 0:
        return True
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


def _write(connection: sqlite3.Connection, record: Record) -> None:
    """Insert or replace a record in the connection's transaction."""
    kernel, constants, target, version = record.key
    key = (kernel, json.dumps(list(constants)), target, version)
    if record.taken:
        where = "kernel = ? AND constants = ? AND target = ? AND version = ?"
        connection.execute(f"UPDATE records SET taken = 0 WHERE {where}", key)
    parameters = json.dumps(dict(record.parameters), sort_keys=True)
    lists = (list(map(dict, record.sizes)), list(record.seconds), list(record.default_seconds))
    row = (
        *key, record.rule, parameters, *map(json.dumps, lists), record.noise, int(record.taken), record.name,
        record.machine, record.created,
    )  # fmt: skip
    marks = ", ".join("?" * len(_COLUMNS))
    connection.execute(f"INSERT OR REPLACE INTO records ({', '.join(_COLUMNS)}) VALUES ({marks})", row)


def _not_taken(record: Record) -> Record:
    return replace(record, taken=False)


def _lines(path: Path) -> Iterator[Record]:
    """Yield the records of a file of JSON lines. Raises DiagnosticError with the line that is none."""
    try:
        with open(path, encoding="utf-8") as file:
            number = 0
            while text := file.readline(_LONGEST + 2):
                number += 1
                if not text.strip():
                    continue
                try:
                    yield Record.from_json(text)
                except ValueError as error:
                    raise unreadable(path, f"line {number} is no record ({error})") from None
    except UnicodeDecodeError:
        raise unreadable(path, "it is not UTF-8 text") from None
    except OSError as error:
        raise unreadable(path, error.strerror or str(error)) from None


def unreadable(path: Path, reason: str) -> DiagnosticError:
    """Return the error for a file that holds no tuning records."""
    hint = f"move it away, or name another file (or none) in {VARIABLE}"
    return DiagnosticError(Diagnostic(UNREADABLE, f"cannot use the tuning records in {path}: {reason}", hint=hint))


# -------------------------------------------------------------------------------------- checks


def _checked(table: Mapping[str, Any]) -> Record:
    """Return the record of a table of values. Raises ValueError for values of other kinds."""
    sizes = tuple(_sizes(entry) for entry in _list(table, "sizes"))
    seconds, default_seconds = (_seconds(table, name) for name in ("seconds", "default_seconds"))
    if not len(sizes) == len(seconds) == len(default_seconds):
        raise ValueError("sizes and seconds differ in length")
    constants = _list(table, "constants")
    if not all(type(position) is int and 0 <= position < 1 << 16 for position in constants):
        raise ValueError("constants are no positions")
    parameters = table.get("parameters")
    if not isinstance(parameters, dict) or not all(isinstance(n, str) for n in cast("dict[Any, Any]", parameters)):
        raise ValueError("parameters are no object")
    taken = table.get("taken", False)
    if not isinstance(taken, bool):
        raise ValueError("taken is neither true nor false")
    key = KernelKey(_text(table, "kernel"), tuple(constants), _text(table, "target"), _text(table, "version"))
    noise, created = (_number(table.get(name), name) for name in ("noise", "created"))
    own = cast("dict[str, Any]", parameters)
    name, machine = _text(table, "name"), _text(table, "machine")
    return Record(key, _text(table, "rule"), own, sizes, seconds, default_seconds, noise, taken, name, machine, created)


def _list(table: Mapping[str, Any], name: str) -> list[Any]:
    value = table.get(name)
    if not isinstance(value, list):
        raise ValueError(f"{name} is no list")
    return cast("list[Any]", value)


def _text(table: Mapping[str, Any], name: str) -> str:
    value = table.get(name)
    if not isinstance(value, str) or len(value) > _LONGEST:
        raise ValueError(f"{name} is no text")
    value.encode()  # JSON can escape lone surrogates, which SQLite and terminals cannot take
    return value


def _number(value: object, name: str) -> float:
    if type(value) not in (int, float) or not 0 <= cast(float, value) < math.inf:  # false for NaN, too
        raise ValueError(f"{name} is no positive number")
    try:
        return float(cast(float, value))
    except OverflowError:
        raise ValueError(f"{name} is too large") from None


def _seconds(table: Mapping[str, Any], name: str) -> tuple[float, ...]:
    return tuple(_number(value, name) for value in _list(table, name))


def _sizes(entry: object) -> dict[str, int]:
    if not isinstance(entry, dict):
        raise ValueError("sizes are no objects")
    pairs = cast("dict[Any, Any]", entry)
    if not all(isinstance(name, str) and type(value) is int and value >= 0 for name, value in pairs.items()):
        raise ValueError("sizes are no numbers by name")
    return cast("dict[str, int]", pairs)


# -------------------------------------------------------------------------------------- the database in use

_current: ContextVar[Database | None] = ContextVar("relax_tune_database", default=None)


def open_database(path: str | os.PathLike[str]) -> Database:
    """Return the database in a file: JSON lines if it is called *.json or *.jsonl, else SQLite."""
    return (JSONDatabase if Path(path).suffix in (".json", ".jsonl") else Database)(path)


def default_path() -> Path | None:
    """Path of the database that the environment names; None if it names none, or the user has no home directory."""
    path = os.environ.get(VARIABLE)
    if path is not None:
        return Path(path).expanduser() if path else None
    try:
        return cache.directory().with_name("tuning.sqlite")
    except OSError:
        return None


def current_database() -> Database | None:
    """Return the database that `relax.build` consults; None if there is no file."""
    database = _current.get()
    if database is None:
        path = default_path()
        database = None if path is None else open_database(path)
    return database if database is not None and database.path.exists() else None


# -------------------------------------------------------------------------------------- what a build asked


@dataclass
class Consulted:
    """Questions asked of a database during a build, with the answers.

    ``with consulted.collecting():`` collects those of the builds inside, except of builds that collect their own.
    """

    answers: dict[KernelKey, str] = field(default_factory=dict[KernelKey, str])
    """Choice as JSON by key; "" where there is no record."""

    @contextlib.contextmanager
    def collecting(self) -> Generator[None]:
        """Context manager: questions asked in this context are added to this list."""
        token = _consulted.set(self)
        try:
            yield
        finally:
            _consulted.reset(token)

    def as_json(self) -> list[Any]:
        """Return the questions and answers as JSON values."""
        return [[*key, answer] for key, answer in self.answers.items()]

    @staticmethod
    def still_holds(value: Sequence[Any], database: Database | None) -> bool:
        """True if a database gives the same answers now. Raises ValueError or TypeError for values of another form."""
        keys = {
            KernelKey(str(kernel), tuple(constants), str(target), str(version)): str(answer)
            for kernel, constants, target, version, answer in value
        }
        records = {} if database is None or not keys else database.best(keys)
        return all(answer_of(records.get(key)) == answer for key, answer in keys.items())


_consulted: ContextVar[Consulted | None] = ContextVar("relax_consulted_records", default=None)


def note_answer(key: KernelKey, record: Record | None) -> None:
    """Add a question to the database and its answer to the list that is collected in this context, if any."""
    consulted = _consulted.get()
    if consulted is not None:
        consulted.answers[key] = answer_of(record)


def answer_of(record: Record | None) -> str:
    """Choice of a record as JSON; "" for None."""
    return "" if record is None else json.dumps(record.choice, sort_keys=True)


def database_in_use() -> str:
    """Path of the database that `relax.build` consults, as text in the key of a program; "" if there is none."""
    database = current_database()
    return "" if database is None else str(database.path.absolute())
