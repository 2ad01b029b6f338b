"""What the writer does for a request: each function checks first, refuses with nothing changed, then changes."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable
from typing import Any

import numpy as np

from .errors import Refused
from .journal import Example
from .served import Served, first_link
from .shelf import rebuilt
from .writer import Desk

Step = tuple[str | None, np.ndarray, Any, float, dict[str, Any] | None]  # id, row, label, weight, and a prediction made before


def new_id(now: float) -> str:
    """Of a prediction: its time, then chance."""
    return f"{int(now * 1000):011x}{secrets.token_hex(8)}"


def time_of(name: str) -> float | None:
    try:
        return int(name[:11], 16) / 1000 if len(name) == 27 else None
    except ValueError:
        return None


def once(key: str | None, content: bytes, change: Callable[[Desk, Served], dict[str, Any]], name: str) -> Callable[[Desk], str]:
    """The change, done once for an idempotency key: a retry is given the first answer, another content under it is refused."""

    def job(desk: Desk) -> str:
        served = desk.find(name)
        digest = hashlib.sha256(content).digest()
        if key is not None and (kept := desk.journal.answer(served.stream, key)) is not None:
            if kept[0] != digest:
                raise Refused(
                    409, "conflict", f"the key {key!r} came before with another content; take a new key for another request"
                )
            return kept[1]
        answer = json.dumps(change(desk, served))
        if key is not None:
            desk.begun = True
            desk.journal.put_answer(served.stream, key, digest, answer, served.step, desk.now)
        return answer

    return job


def learn(body: dict[str, Any]) -> Callable[[Desk, Served], dict[str, Any]]:
    """Test, then train, row after row."""

    def change(desk: Desk, served: Served) -> dict[str, Any]:
        main = desk.shelf.answering(served)
        if main is not None:
            raise Refused(409, "shadow", f"{served.name!r} is a shadow and learns what {main.name!r} learns; send rows there")
        rows, ids = body["rows"], body.get("ids")
        labels = body.get("labels") or [None] * len(rows)
        weights = body.get("weights") or [1.0] * len(rows)
        shape = served.copy_of_entry()  # a request's first row may fix what the others must be like
        steps: list[Step] = []
        for given, label, weight, name in zip(rows, labels, weights, ids or [None] * len(rows)):
            row = shape.row(given)
            shape.fix_shape(given, row)
            label = shape.label(label)
            shape.fix_label(label)
            steps.append((name, row, label, float(weight), None))
        known = _known(desk, served, steps) if ids else {}
        desk.begun = True
        served.about |= shape.about
        told = take(desk, served, [step for step in steps if step[0] not in known])
        fresh = iter(told)
        predictions = [known[step[0]] if step[0] in known else next(fresh) for step in steps]  # type: ignore[index]
        return {"model": served.name, "step": served.steps, "hash": served.chain.hex(), "predictions": predictions}

    return change


def _known(desk: Desk, served: Served, steps: list[Step]) -> dict[str, Any]:
    """Predictions of rows that were learned under their ids before; refused where they were other rows."""
    found = desk.journal.steps_of(served.stream, [str(step[0]) for step in steps])
    known = {}
    for name, row, label, weight, _ in steps:
        if name in found:
            before = desk.journal.example(served.stream, found[name])
            assert before is not None
            if not np.array_equal(before.row, row) or before.label != label or before.weight != weight:
                raise Refused(409, "conflict", f"the id {name!r} was learned before with another row, label or weight")
            known[name] = before.prediction
    return known


def take(desk: Desk, served: Served, steps: list[Step]) -> list[dict[str, Any]]:
    """Learn examples on every model of the stream and write them down; returns what was predicted before each."""
    learning = desk.together(served)
    for other in learning:
        other.about |= {name: served.about[name] for name in ("features", "width", "label") if name in served.about}
    written, told = [], []
    for name, row, label, weight, made_before in steps:
        judged: dict[str, list[Any]] = {}
        for other in learning:
            prediction = other.predict(row)
            if other is served:
                told.append(prediction)
                prediction = made_before or prediction
            judged[str(other.id)] = other.judge(prediction, label)
            if other is not served:
                other.compare(judged[str(other.id)], judged[str(served.id)])
            other.count(judged[str(other.id)], label)
            other.learn(row, label, weight)
        written.append(Example(served.step, name, row, label, weight, judged, told[-1] if name else None, desk.now))
    desk.journal.append(served.stream, written)
    return told


def labels(body: dict[str, Any]) -> Callable[[Desk, Served], dict[str, Any]]:
    """Labels of predictions that were made before: learned now, judged as they were predicted then."""

    def change(desk: Desk, served: Served) -> dict[str, Any]:
        if served.shadow_of is not None:
            raise Refused(409, "shadow", f"{served.name!r} is a shadow: its predictions have no ids of their own")
        rejected, steps, seen = [], [], set()
        shape = served.copy_of_entry()
        counted = {"late": 0, "unknown": 0}
        for name, given in zip(body["ids"], body["labels"]):
            label = shape.label(given)
            shape.fix_label(label)
            opened = None if name in seen else desk.journal.opened(served.stream, name)
            if opened is not None:
                seen.add(name)
                row, prediction = opened
                shape.fix_shape([], row)
                if len(row) == shape.about["width"]:
                    steps.append((name, row, label, 1.0, prediction))
                    continue
                reason = "its row has another width than the rows that were learned since"
            elif name in seen or desk.journal.steps_of(served.stream, [name]):
                reason = "it has its label already"
            elif (then := time_of(name)) is not None and then < desk.now - desk.expire:
                reason = f"it came too late: predictions wait {desk.expire:g} seconds for their labels"
                counted["late"] += 1
            else:
                reason = "no prediction with this id is known: it was never made, was lost in a crash, or has expired"
                counted["unknown"] += 1
            rejected.append({"id": name, "reason": reason})
        desk.begun = True
        served.about |= shape.about
        take(desk, served, steps)
        for name, *_ in steps:
            desk.journal.settle(name)
        for what, count in (*counted.items(), ("labelled", len(steps))):
            served.stats[what] = served.stats.get(what, 0) + count
        return {"step": served.steps, "learned": len(steps), "rejected": rejected}

    return change


# --- making, moving and ending models


def create(name: str, about: dict[str, Any], file: bytes, shadow_of: str | None, most: int) -> Callable[[Desk], dict[str, Any]]:
    def job(desk: Desk) -> dict[str, Any]:
        if name in desk.shelf.entries:
            raise Refused(409, "exists", f"there is a model {name!r} already; DELETE it first, or take another name")
        if len(desk.shelf.entries) >= most:
            raise Refused(507, "models", f"this server holds at most {most} models; delete one first")
        main = None if shadow_of is None else desk.find(shadow_of)
        if main is not None:
            if main.shadow_of is not None:
                raise Refused(422, "shadow", f"{shadow_of!r} is a shadow itself; name the model that answers")
            if main.task != about["task"]:
                raise Refused(422, "shadow", f"a shadow needs the task of its model: {main.task!r}, not {about['task']!r}")
            about.update({part: main.about[part] for part in ("features", "width", "label") if part in main.about})
        desk.begun = desk.renamed = True
        begins = main.step if main is not None else 0
        stream, shadowed = (main.stream, main.id) if main is not None else (None, None)
        desk.journal.add_model(name, stream, begins, shadowed, about, file, (begins, first_link(file), {}))
        return {"name": name}

    return job


def delete(name: str) -> Callable[[Desk], None]:
    def job(desk: Desk) -> None:
        served = desk.shelf.find(name)
        if shadows := desk.shelf.shadows(served):
            raise Refused(409, "shadow", f"{shadows[0].name!r} shadows it; promote or delete that first")
        desk.begun = True
        desk.gone.add(served.id)
        desk.journal.drop_model(served.id, served.stream)

    return job


def promote(name: str) -> Callable[[Desk], dict[str, Any]]:
    """The shadow answers under the name of its model, which becomes its shadow, in one step."""

    def job(desk: Desk) -> dict[str, Any]:
        served = desk.shelf.find(name)
        main = desk.shelf.answering(served)
        if main is None:
            raise Refused(409, "shadow", f'{name!r} shadows no model; make one with "shadow_of"')
        desk.begun = desk.renamed = True
        for other in desk.together(served):
            for part in ("better", "worse", "pairs", "difference"):
                other.stats.pop(part, None)
        desk.journal.swap_names(main.id, served.id)
        return {"promoted": main.name, "shadow": served.name}

    return job


def rollback(name: str, steps: int) -> Callable[[Desk], dict[str, Any]]:
    """Every model of the stream as it was after so many examples; what came later never happened."""

    def job(desk: Desk) -> dict[str, Any]:
        served = desk.find(name)
        if not 0 <= steps <= served.steps:
            raise Refused(422, "step", f"step must be from 0 to {served.steps}, how far this model is; got {steps}")
        target = served.begins + steps
        models = desk.together(served)
        before = [rebuilt(desk.journal, other, target) if other.begins <= target else None for other in models]
        desk.begun = True
        for other, made in zip(models, before):
            _restore(desk, other, made, target)
        desk.journal.cut_log(served.stream, target)
        return {"name": name, "step": steps, "hash": desk.copies[served.id].chain.hex()}

    return job


def _restore(desk: Desk, served: Served, made: Served | None, step: int) -> None:
    """Put a rebuilt model in the place of the present one; None: it begins afresh at this step."""
    if made is None:
        desk.journal.restart_model(served.id, step, desk.journal.start_of(served.id))
        served.begins = step
        made = rebuilt(desk.journal, served, step)
    served.model, served.step, served.chain, served.stats = made.model, made.step, made.chain, made.stats
    served.stats["drawn"] = min(served.stats.get("drawn", 0), served.steps)
    desk.journal.drop_snapshots(served.id, "step > ?", step)


def forget(name: str, ids: list[str]) -> Callable[[Desk], dict[str, Any]]:
    """Replay every model of the stream without these examples; neither log nor snapshots hold them afterwards."""

    def job(desk: Desk) -> dict[str, Any]:
        served = desk.find(name)
        found = desk.journal.steps_of(served.stream, ids)
        waiting = [one for one in ids if one not in found and desk.journal.opened(served.stream, one) is not None]
        unknown = [one for one in ids if one not in found and one not in waiting]
        if not found and not waiting:
            raise Refused(404, "ids", f"none of these ids was learned here, or the log no longer holds them: {', '.join(ids[:5])}")
        first = min(found.values(), default=served.step + 1)
        models = desk.together(served)
        for other in models:
            if found and other.begins >= first:
                raise Refused(409, "shadow", f"{other.name!r} began after some of these examples; delete this shadow first")
        past = [rebuilt(desk.journal, other, min(first - 1, other.step)) for other in models]
        desk.begun = True
        for one in waiting:
            desk.journal.settle(one)
        if found:
            desk.journal.remove(served.stream, sorted(found.values()))
        certificates = []
        for other, made in zip(models, past):
            removed, base = len(found), made.step
            last = other.step - removed
            for example in desk.journal.examples(other.stream, base, last):
                made.count(made.judge(made.predict(example.row), example.label), example.label)
                made.learn(example.row, example.label, example.weight)
            desk.journal.drop_snapshots(other.id, "step >= ?", first)
            other.model, other.step, other.chain, other.stats = made.model, made.step, made.chain, made.stats
            other.stats["drawn"], other.stats["kept"] = 0, made.begins
            certificates.append(_certificate(other, base - other.begins, removed))
        desk.journal.put_snapshot(served.id, served.step, served.chain, served.stats, served.file())
        return {"forgotten": [*found, *waiting], "unknown": unknown, "step": served.steps, "certificates": certificates}

    return job


def _certificate(served: Served, base: int, removed: int) -> dict[str, Any]:
    """What a replay must come to: ``onkel replay`` makes the same file from the same log."""
    parameters = json.dumps([served.task, served.about["kind"], served.about["params"]], sort_keys=True)
    return {
        "model": served.name,
        "examples": served.steps,
        "removed": removed,
        "replayed_from": base,
        "parameters_sha256": hashlib.sha256(parameters.encode()).hexdigest(),
        "stream_digest": served.chain.hex(),
        "state_sha256": hashlib.sha256(served.file()).hexdigest(),
    }
