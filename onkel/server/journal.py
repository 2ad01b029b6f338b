"""What the server must never lose, in one sqlite file: models, their examples in order, snapshots, answers, open predictions.

Examples belong to a *stream*; a model and its shadows learn the same stream.  One transaction holds whatever a group of requests
changed, and nothing is answered before it is on the disk (WAL, synchronous=FULL).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

TABLES = """
create table if not exists models (
    id integer primary key, name text unique not null, stream integer not null, begins integer not null, shadow_of integer,
    about text not null, start blob not null, step integer not null, chain blob not null, stats text not null);
create table if not exists log (
    stream integer not null, step integer not null, id text, row blob not null, label text not null, weight real not null,
    judged text not null, prediction text, time real not null, primary key (stream, step)) without rowid;
create unique index if not exists log_ids on log (stream, id) where id is not null;
create table if not exists snapshots (
    model integer not null, step integer not null, chain blob not null, stats text not null, file blob not null,
    primary key (model, step));
create table if not exists answers (
    stream integer not null, key text not null, digest blob not null, answer text not null, step integer not null,
    time real not null, primary key (stream, key)) without rowid;
create table if not exists open_predictions (
    id text primary key, stream integer not null, row blob not null, prediction text not null, time real not null) without rowid;
create index if not exists open_by_time on open_predictions (time);
create table if not exists curve (
    model integer not null, step integer not null, point text not null, primary key (model, step)) without rowid;
create table if not exists facts (name text primary key, value text not null) without rowid;
"""
VERSION = 1


class Example(NamedTuple):
    """One line of the log."""

    step: int
    id: str | None
    row: np.ndarray
    label: Any
    weight: float
    judged: dict[str, list[Any]]  # of each model, by its number: loss of its prediction, whether its interval held
    prediction: Any  # kept with an id, so that a retry is answered as the first time
    time: float


class Journal:
    """The file; ``write`` is for the one writer's thread, ``reader`` makes a connection for anybody else."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "onkel.sqlite"
        self.db = self._open()
        self.db.execute("pragma auto_vacuum=incremental")
        self.db.execute("pragma journal_mode=wal")
        version = self.db.execute("pragma user_version").fetchone()[0]
        if version not in (0, VERSION):
            raise ValueError(f"{self.path} was written by another version of onkel (format {version}); this one reads {VERSION}")
        self.db.executescript(TABLES)
        self.db.execute(f"pragma user_version={VERSION}")

    def _open(self, read_only: bool = False) -> sqlite3.Connection:
        where = f"{self.path.absolute().as_uri()}?mode=ro" if read_only else str(self.path)
        db = sqlite3.connect(where, uri=read_only, isolation_level=None, check_same_thread=False, timeout=10.0)
        db.execute("pragma synchronous=full")
        db.execute("pragma secure_delete=on")  # what is forgotten is overwritten, not only unlinked
        return db

    @contextmanager
    def reader(self) -> Iterator[Journal]:
        """The same questions over a connection of one's own, on the state at its first question."""
        twin = Journal.to_read(self.path.parent)
        try:
            yield twin
        finally:
            twin.db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of it on the disk, or none of it."""
        self.db.execute("begin immediate")
        try:
            yield
            self.db.execute("commit")
        except BaseException:
            if self.db.in_transaction:
                self.db.execute("rollback")
            raise

    @classmethod
    def to_read(cls, folder: Path) -> Journal:
        """For looking only, beside a server or without one."""
        made = object.__new__(cls)
        made.path = folder / "onkel.sqlite"
        made.db = made._open(read_only=True)
        made.db.execute("begin")
        return made

    def close(self) -> None:
        self.db.close()

    # --- models

    def models(self) -> list[dict[str, Any]]:
        names = "id name stream begins shadow_of about step chain stats".split()
        rows = self.db.execute(f"select {', '.join(names)} from models order by name").fetchall()
        return [_from_json(dict(zip(names, row))) for row in rows]

    def add_model(
        self, name: str, stream: int | None, begins: int, shadow_of: int | None, about: Any, start: bytes, rest: Any
    ) -> int:
        step, chain, stats = rest
        if stream is None:
            stream = 1 + (self.db.execute("select max(stream) from models").fetchone()[0] or int(self.fact("streams", 0)))
            self.put_fact("streams", stream)
        values = (name, stream, begins, shadow_of, json.dumps(about), start, step, chain, json.dumps(stats))
        made = self.db.execute(
            "insert into models (name, stream, begins, shadow_of, about, start, step, chain, stats) values (?,?,?,?,?,?,?,?,?)",
            values,
        )
        return int(made.lastrowid or 0)

    def start_of(self, model: int) -> bytes:
        return bytes(self.db.execute("select start from models where id = ?", (model,)).fetchone()[0])

    def keep_model(self, model: int, step: int, chain: bytes, stats: Any, about: Any) -> None:
        self.db.execute(
            "update models set step = ?, chain = ?, stats = ?, about = ? where id = ?",
            (step, chain, json.dumps(stats), json.dumps(about), model),
        )

    def restart_model(self, model: int, begins: int, start: bytes) -> None:
        self.db.execute("update models set begins = ?, start = ? where id = ?", (begins, start, model))

    def drop_model(self, model: int, stream: int) -> None:
        self.db.execute("delete from models where id = ?", (model,))
        self.db.execute("delete from snapshots where model = ?", (model,))
        self.db.execute("delete from curve where model = ?", (model,))
        if not self.db.execute("select count(*) from models where stream = ?", (stream,)).fetchone()[0]:
            for table in ("log", "answers", "open_predictions"):
                self.db.execute(f"delete from {table} where stream = ?", (stream,))

    def swap_names(self, model: int, shadow: int) -> None:
        (first,) = self.db.execute("select name from models where id = ?", (model,)).fetchone()
        (second,) = self.db.execute("select name from models where id = ?", (shadow,)).fetchone()
        self.db.execute("update models set name = '' where id = ?", (model,))
        self.db.execute("update models set name = ?, shadow_of = null where id = ?", (first, shadow))
        self.db.execute("update models set name = ?, shadow_of = ? where id = ?", (second, shadow, model))
        self.db.execute("update models set shadow_of = ? where shadow_of = ?", (shadow, model))

    # --- the log

    def append(self, stream: int, examples: list[Example]) -> None:
        self.db.executemany(
            "insert into log (stream, step, id, row, label, weight, judged, prediction, time) values (?,?,?,?,?,?,?,?,?)",
            [
                (
                    stream,
                    e.step,
                    e.id,
                    e.row.tobytes(),
                    json.dumps(e.label),
                    e.weight,
                    json.dumps(e.judged),
                    None if e.prediction is None else json.dumps(e.prediction),
                    e.time,
                )
                for e in examples
            ],
        )

    def examples(self, stream: int, after: int, to: int) -> Iterator[Example]:
        """Those of the steps after + 1 ... to, in order."""
        found = self.db.execute(
            "select step, id, row, label, weight, judged, prediction, time from log "
            "where stream = ? and step > ? and step <= ? order by step",
            (stream, after, to),
        )
        for step, name, row, label, weight, judged, prediction, time in found:
            told = None if prediction is None else json.loads(prediction)
            yield Example(step, name, np.frombuffer(row), json.loads(label), weight, json.loads(judged), told, time)

    def steps_of(self, stream: int, ids: list[str]) -> dict[str, int]:
        found = {}
        for name in ids:
            row = self.db.execute("select step from log where stream = ? and id = ?", (stream, name)).fetchone()
            if row:
                found[name] = int(row[0])
        return found

    def example(self, stream: int, step: int) -> Example | None:
        return next(self.examples(stream, step - 1, step), None)

    def first_step(self, stream: int, last: int) -> int:
        """The oldest step of which the log still tells; one past the end where it is empty."""
        found = self.db.execute("select min(step) from log where stream = ?", (stream,)).fetchone()[0]
        return last + 1 if found is None else int(found)

    def cut_log(self, stream: int, after: int) -> None:
        """Nothing after this step ever happened."""
        self.db.execute("delete from log where stream = ? and step > ?", (stream, after))
        self.db.execute("delete from answers where stream = ? and step > ?", (stream, after))

    def remove(self, stream: int, steps: list[int]) -> None:
        """These examples were never there: those behind them move up."""
        for step in steps:
            self.db.execute("delete from log where stream = ? and step = ?", (stream, step))
        remaining = self.db.execute("select step from log where stream = ? and step > ? order by step", (stream, min(steps)))
        for new, (old,) in enumerate(remaining.fetchall(), min(steps)):
            self.db.execute("update log set step = ? where stream = ? and step = ?", (new, stream, old))
        self.db.execute("delete from answers where stream = ?", (stream,))  # they hold predictions of rows that are gone

    # --- snapshots

    def put_snapshot(self, model: int, step: int, chain: bytes, stats: Any, file: bytes) -> None:
        self.db.execute("insert or replace into snapshots values (?,?,?,?,?)", (model, step, chain, json.dumps(stats), file))

    def snapshot(self, model: int, at_most: int) -> tuple[int, bytes, Any, bytes] | None:
        """The newest one that is not after this step of the stream."""
        row = self.db.execute(
            "select step, chain, stats, file from snapshots where model = ? and step <= ? order by step desc limit 1",
            (model, at_most),
        ).fetchone()
        return None if row is None else (int(row[0]), bytes(row[1]), json.loads(row[2]), bytes(row[3]))

    def snapshot_steps(self, model: int) -> list[int]:
        return [step for (step,) in self.db.execute("select step from snapshots where model = ? order by step", (model,))]

    def drop_snapshots(self, model: int, condition: str, step: int) -> None:
        assert condition in ("step > ?", "step >= ?", "step < ?")
        self.db.execute(f"delete from snapshots where model = ? and {condition}", (model, step))
        if condition != "step < ?":
            self.db.execute(f"delete from curve where model = ? and {condition}", (model, step))

    def forget_before(self, stream: int, models: list[tuple[int, int]], step: int) -> None:
        """The log is kept from ``step`` on, and from where every model (its number, where it begins) can be replayed."""
        starts = [max([begins, *(s for s in self.snapshot_steps(model) if s <= step)]) for model, begins in models]
        self.db.execute("delete from log where stream = ? and step <= ?", (stream, min(step, *starts)))
        for (model, _), start in zip(models, starts):
            self.drop_snapshots(model, "step < ?", start)

    # --- answers and open predictions

    def answer(self, stream: int, key: str) -> tuple[bytes, str] | None:
        row = self.db.execute("select digest, answer from answers where stream = ? and key = ?", (stream, key)).fetchone()
        return None if row is None else (bytes(row[0]), row[1])

    def put_answer(self, stream: int, key: str, digest: bytes, answer: str, step: int, time: float) -> None:
        self.db.execute("insert into answers values (?,?,?,?,?,?)", (stream, key, digest, answer, step, time))

    def open(self, predictions: list[tuple[int, str, np.ndarray, str, float]]) -> None:
        """Predictions (stream, id, row, JSON, time) that wait for their labels."""
        self.db.executemany(
            "insert or ignore into open_predictions values (?,?,?,?,?)",
            [(name, stream, row.tobytes(), told, time) for stream, name, row, told, time in predictions],
        )

    def opened(self, stream: int, name: str) -> tuple[np.ndarray, Any] | None:
        row = self.db.execute("select row, prediction from open_predictions where id = ? and stream = ?", (name, stream)).fetchone()
        return None if row is None else (np.frombuffer(row[0]), json.loads(row[1]))

    def settle(self, name: str) -> None:
        self.db.execute("delete from open_predictions where id = ?", (name,))

    def count_open(self, stream: int) -> int:
        return int(self.db.execute("select count(*) from open_predictions where stream = ?", (stream,)).fetchone()[0])

    def expire(self, before: float) -> dict[int, int]:
        """Open predictions and answers that are older go; returns how many predictions of each stream."""
        gone = self.db.execute("select stream, count(*) from open_predictions where time < ? group by stream", (before,)).fetchall()
        self.db.execute("delete from open_predictions where time < ?", (before,))
        self.db.execute("delete from answers where time < ?", (before,))
        return dict(gone)

    # --- the rest

    def put_point(self, model: int, step: int, point: Any) -> None:
        self.db.execute("insert or replace into curve values (?,?,?)", (model, step, json.dumps(point)))

    def points(self, model: int, most: int = 500) -> list[Any]:
        """The curve so far, thinned out to what a picture can show."""
        rows = self.db.execute("select point from curve where model = ? order by step", (model,)).fetchall()
        every = max(1, -(-len(rows) // most))
        return [json.loads(point) for (point,) in rows[(len(rows) - 1) % every :: every]]

    def fact(self, name: str, default: Any) -> Any:
        row = self.db.execute("select value from facts where name = ?", (name,)).fetchone()
        return default if row is None else json.loads(row[0])

    def put_fact(self, name: str, value: Any) -> None:
        self.db.execute("insert or replace into facts values (?,?)", (name, json.dumps(value)))

    def tidy(self) -> None:
        """Give freed pages back to the disk and empty the write-ahead log."""
        self.db.execute("pragma incremental_vacuum").fetchall()
        self.db.execute("pragma wal_checkpoint(truncate)").fetchall()

    @property
    def bytes_on_disk(self) -> int:
        files = (self.path, self.path.with_name(self.path.name + "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())


def _from_json(model: dict[str, Any]) -> dict[str, Any]:
    return {**model, "about": json.loads(model["about"]), "stats": json.loads(model["stats"]), "chain": bytes(model["chain"])}
