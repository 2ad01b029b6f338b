"""What requests must look like: one description, shown at /docs and checked here.

Rows are checked by hand, since they are most of what comes in; all else is small.
"""

from __future__ import annotations

import json
import re
from typing import Any

from .errors import Refused

NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")
MOST_ROWS, MOST_FEATURES, MOST_ID, DEEPEST = 10_000, 10_000, 200, 8

_row = {
    "anyOf": [
        {"type": "array", "items": {"type": "number"}, "minItems": 1, "maxItems": MOST_FEATURES},
        {"type": "object", "additionalProperties": {"type": "number"}, "minProperties": 1, "maxProperties": MOST_FEATURES},
    ]
}
_rows = {"type": "array", "items": _row, "minItems": 1, "maxItems": MOST_ROWS}
_label = {"anyOf": [{"type": "string", "maxLength": 1000}, {"type": "number"}, {"type": "boolean"}, {"type": "null"}]}
_labels = {"type": "array", "items": _label, "minItems": 1, "maxItems": MOST_ROWS}
_ids = {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": MOST_ID}, "minItems": 1, "maxItems": MOST_ROWS}
_weights = {
    "type": "array",
    "items": {"type": "number", "exclusiveMinimum": 0, "maximum": 1e6},
    "minItems": 1,
    "maxItems": MOST_ROWS,
}
_names = {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 200}, "minItems": 1, "maxItems": MOST_FEATURES}
_value = {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}, {"type": "null"}]}
_class = {"anyOf": [{"type": "string", "maxLength": 1000}, {"type": "integer"}, {"type": "boolean"}]}


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "additionalProperties": False, "properties": properties}


BODIES = {
    "create": _object(
        ["task"],
        task={"type": "string", "enum": ["classes", "reals", "novelty"]},
        model={"type": "string", "enum": ["kernel", "auto"]},
        params={"type": "object", "additionalProperties": _value},
        schema=_object([], features=_names, classes={"type": "array", "items": _class, "minItems": 2, "maxItems": 1000}),
        shadow_of={"type": "string"},
        ask={"type": "number", "minimum": 0, "maximum": 1},
    ),
    "predict": _object(["rows"], rows=_rows),
    "learn": _object(["rows"], rows=_rows, labels=_labels, weights=_weights, ids=_ids),
    "labels": _object(["ids", "labels"], ids=_ids, labels=_labels),
    "rollback": _object(["step"], step={"type": "integer", "minimum": 0}),
    "forget": _object(["ids"], ids=_ids),
}


def parsed(content: bytes, wanted: str) -> dict[str, Any]:
    """The body of a request; 400 where it is no JSON, 422 where it is not what the description says."""
    try:
        body = json.loads(content, parse_constant=_no_constant)
    except Refused:
        raise
    except RecursionError:
        raise Refused(422, "depth", "the JSON is nested too deeply") from None
    except ValueError as error:
        raise Refused(400, "json", f"the body is not JSON: {str(error)[:100]}") from None
    _check(body, BODIES[wanted], "the body", rows=wanted in ("predict", "learn"))
    return body  # type: ignore[no-any-return]


def _no_constant(name: str) -> None:
    raise Refused(422, "value", f"{name} is no number that JSON knows; every value must be finite")


def _check(value: Any, rule: dict[str, Any], where: str, rows: bool = False, depth: int = 0) -> None:
    """The few words of JSON Schema that stand above."""
    if rule is _row:  # its values are looked at when they become numbers
        if not isinstance(value, list | dict):
            raise Refused(422, "row", f"{where} must be a list of numbers, or an object with a number for each feature")
        if not 1 <= len(value) <= MOST_FEATURES:
            raise Refused(422, "features", f"{where} must have 1 to {MOST_FEATURES} values; it has {len(value)}")
        return
    if "anyOf" in rule:
        for choice in rule["anyOf"]:
            if _is(value, choice["type"]):
                return _check(value, choice, where)
        raise Refused(422, "type", f"{where} must be {_kinds([choice['type'] for choice in rule['anyOf']])}")
    kind = rule["type"]
    if not _is(value, kind):
        raise Refused(422, "type", f"{where} must be {_kinds([kind])}")
    if kind == "object":
        known = rule.get("properties", {})
        for name in rule.get("required", []):
            if name not in value:
                raise Refused(422, "missing", f"{where} lacks {name!r}")
        for name, part in value.items():
            if name in known:
                _check(part, known[name], name, rows)
            elif isinstance(rule["additionalProperties"], dict):
                _check(part, rule["additionalProperties"], name)
            else:
                raise Refused(422, "unknown", f"{where} has {name[:60]!r}, which is not known; known are {', '.join(known)}")
    elif kind == "array":
        if not rule["minItems"] <= len(value) <= rule["maxItems"]:
            raise Refused(422, "length", f"{where} must hold {rule['minItems']} to {rule['maxItems']} items; it holds {len(value)}")
        for i, item in enumerate(value):
            _check(item, rule["items"], f"{where}[{i}]")
    elif kind == "string":
        if "enum" in rule and value not in rule["enum"]:
            raise Refused(422, "value", f"{where} must be one of {', '.join(rule['enum'])}; got {value[:60]!r}")
        if not rule.get("minLength", 0) <= len(value) <= rule.get("maxLength", 10_000):
            raise Refused(
                422, "length", f"{where} must have {rule.get('minLength', 0)} to {rule.get('maxLength', 10_000)} characters"
            )
        if "\x00" in value or any("\ud800" <= c <= "\udfff" for c in value):
            raise Refused(422, "value", f"{where} holds characters that are no text")
    elif kind in ("number", "integer"):
        low, high = rule.get("minimum"), rule.get("maximum")
        above = rule.get("exclusiveMinimum")
        if (low is not None and value < low) or (high is not None and value > high) or (above is not None and value <= above):
            raise Refused(422, "value", f"{where} must be {_range(low, high, above)}; got {str(value)[:40]}")
        if kind == "integer" and abs(value) >= 2**53:
            raise Refused(422, "value", f"{where} is too large")


def _is(value: Any, kind: str) -> bool:
    if kind in ("number", "integer"):
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return kind == "number" or isinstance(value, int) or value.is_integer()
    return isinstance(value, {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}[kind])


def _kinds(kinds: list[str]) -> str:
    said = {
        "object": "an object",
        "array": "a list",
        "string": "a string",
        "boolean": "true or false",
        "null": "null",
        "number": "a number",
        "integer": "a whole number",
    }
    return " or ".join(said[kind] for kind in kinds)


def _range(low: Any, high: Any, above: Any) -> str:
    parts = (
        [f"at least {low}"] * (low is not None)
        + [f"above {above}"] * (above is not None)
        + [f"at most {high}"] * (high is not None)
    )
    return " and ".join(parts)


def learning(body: dict[str, Any], task: str) -> None:
    """What must agree within a request that learns."""
    n, ids = len(body["rows"]), body.get("ids")
    if task != "novelty" and "labels" not in body:
        raise Refused(422, "labels", "the body lacks 'labels', one for each row")
    for name in ("labels", "weights", "ids"):
        if name in body and len(body[name]) != n:
            raise Refused(422, name, f"{name} holds {len(body[name])} items, rows {n}: one for each row")
    if ids is not None and len(set(ids)) != n:
        raise Refused(422, "ids", "ids must differ from each other")


def a_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise Refused(422, "name", "a model's name has 1 to 64 letters, digits, dots, dashes and underscores, no dot in front")
    return name
