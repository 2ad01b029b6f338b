"""Rules of budgets: which term goes when one too many comes."""

from __future__ import annotations

from typing import Any, ClassVar

from onkel.core.maths.value import Value

KINDS = ("OLDEST", "SMALLEST", "MERGE", "PROJECT", "OTHER")


class Rule(Value, abstract=True):
    """Which term goes when one too many comes.  A class says it all, and has no fields; ``drop="..."`` finds it by its name.

    The loop has the four below.  Any other has kind "OTHER" and a function of its own, which is compiled when a learner needs it:
    make_room(kappa, j, K, r, kxx, settings, num, slots, gram, m, base) -> the slot for the new term, or -1 if that goes itself.
    j is the slot of the smallest coefficient, -1 where that is the new term's; row r of K holds the new point's kernel values with
    the stored ones, which stand in the slots 0 .. num[N] - 1, gram[0] theirs with each other; slots as in loop/layout.py.
    """

    formulas: ClassVar = {"make_room": {"apart": True}}
    asked: ClassVar = {
        "name": 'what drop="..." calls it',
        "kind": "the name that loop/layout.py has for it; OTHER for a rule with a function of its own",
        "make_room": "that function, or None where the loop has it",
        "in_turn": "whether the oldest goes, whatever the coefficients are",
        "adaptive": "whether it keeps <f, v> and |f|^2 as they are, which adaptive steps ask for",
        "matrices": "how many matrices over the stored points are kept: 0, 1 (kernel values) or 2 (and one of its own)",
        "on_card": "whether the graphics card knows it",
    }
    kind: ClassVar[str]
    make_room: ClassVar[Any]
    in_turn: ClassVar[bool]
    adaptive: ClassVar[bool]
    matrices: ClassVar[int]
    on_card: ClassVar[bool]

    @classmethod
    def complete(cls) -> None:
        super().complete()
        if cls.name is None:
            raise TypeError(f"{cls.__name__} must say name: {cls.asked['name']}")
        if cls.kind not in KINDS:
            raise TypeError(f"{cls.__name__}: kind must be one of {', '.join(map(repr, KINDS))}; got {cls.kind!r}")
        if cls._fields or (cls.kind == "OTHER") != callable(cls.make_room):
            raise TypeError(f'{cls.__name__}: a rule has no fields, and a function make_room where its kind is "OTHER"')


class _Inside(Rule, abstract=True):
    """Rules that the loop knows by heart."""

    make_room = None
    in_turn = on_card = False
    adaptive = True
    matrices = 0


class Oldest(_Inside):
    name, kind = "oldest", "OLDEST"
    in_turn = on_card = True


class Smallest(_Inside):
    name, kind = "smallest", "SMALLEST"
    on_card = True


class Merge(_Inside):
    name, kind = "merge", "MERGE"
    matrices = 1


class Project(_Inside):
    name, kind = "project", "PROJECT"
    matrices = 2
