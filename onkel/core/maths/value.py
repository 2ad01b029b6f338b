"""Values: what kernels, losses, steps, budgets are.  A value is a frozen tuple of named fields that compiled code can read.

A class names its fields once, each with what it may be:

    class RBF(Kernel):
        sigma: float = number(1.0, above=0)

What is not allowed is refused when a value is made, what a class fails to say when it is defined.  Two values are equal if class
and fields are.  Compiled code reads fields by name and is compiled anew for each class.  Defining a class enters it under its name
in ``DEFINED``, by which saved files know it; bases, of which no value is made, are ``abstract=True``.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from operator import itemgetter
from typing import Any, ClassVar, NamedTuple, Self, dataclass_transform

from onkel.core.machine.compiled import compiled, inner

DEFINED: dict[str, type[Value]] = {}  # every class of values by its name

_REQUIRED = object()
Check = Callable[[str, str, Any], Any]  # (class, field, given) -> the value to keep, or an error


class Field(NamedTuple):
    """What a field is where nothing is given, and what it may be."""

    default: Any = _REQUIRED
    check: Check = lambda owner, name, given: given


# --- what a field may be ---------------------------------------------------------------------------------------------------------


def checked_number(
    owner: str, name: str, given: Any, *, above: float | None = None, low: float | None = None, high: float = math.inf
) -> float:
    """given as a finite float in its range, or an error that says what was given and what is allowed."""
    try:
        x = float(given)
    except (TypeError, ValueError, OverflowError):
        x = math.nan
    if not (math.isfinite(x) and (above is None or x > above) and (low is None or x >= low) and x <= high):
        limits = [f"above {above:g}"] if above is not None else [f"of at least {low:g}"] if low is not None else []
        limits += [f"at most {high:g}"] if high < math.inf else []
        raise ValueError(f"{owner}: {name} must be a finite number {' and '.join(limits)}; got {given!r}".replace(" ;", ";"))
    return x


def is_whole(given: Any, low: int = 1) -> bool:
    """Whether given is a whole number, at least ``low``, that an index can hold."""
    try:
        return not isinstance(given, bool | str | bytes) and low <= given < 2**62 and int(given) == given
    except (TypeError, ValueError, OverflowError):
        return False


def checked_whole(owner: str, name: str, given: Any, low: int = 1) -> int:
    if not is_whole(given, low):
        raise ValueError(f"{owner}: {name} must be a whole number, at least {low}; got {given!r}")
    return int(given)


def field(default: Any = _REQUIRED, check: Check | None = None) -> Any:
    return Field(default) if check is None else Field(default, check)


def number(
    default: Any = _REQUIRED, *, above: float | None = None, low: float | None = None, high: float = math.inf, none: bool = False
) -> Any:
    """A finite number ``above`` one limit, or from ``low`` on, and at most ``high``; or None, where ``none`` allows it."""

    def check(owner: str, name: str, given: Any) -> float | None:
        return None if none and given is None else checked_number(owner, name, given, above=above, low=low, high=high)

    return Field(default, check)


def whole(default: Any = _REQUIRED, *, low: int = 1) -> Any:
    """A whole number, at least ``low``."""
    return Field(default, lambda owner, name, given: checked_whole(owner, name, given, low))


def one_of(default: Any, *allowed: Any) -> Any:
    """One of a few."""

    def check(owner: str, name: str, given: Any) -> Any:
        if given not in allowed:
            *most, last = map(repr, allowed)
            raise ValueError(f"{owner}: {name} must be {', '.join(most)} or {last}; got {given!r}")
        return allowed[allowed.index(given)]

    return Field(default, check)


def flag(default: bool) -> Any:
    return Field(default, lambda owner, name, given: bool(given))


# --- classes ---------------------------------------------------------------------------------------------------------------------


@dataclass_transform(frozen_default=True)
class Definition(type):
    """Makes classes of values: finds their fields, compiles their formulas, asks for what they must say, enters their names."""

    def __new__(mcls, name: str, bases: tuple[type, ...], space: dict[str, Any], *, abstract: bool = False) -> Any:
        cls: Any = super().__new__(mcls, name, bases, {"__slots__": (), **space})
        if cls.__mro__[1] is tuple:
            return cls
        own = {key: cls.__dict__.get(key, _REQUIRED) for key in inspect.get_annotations(cls) if not _is_shared(cls, key)}
        cls._specs = cls._specs | {key: given if isinstance(given, Field) else Field(given) for key, given in own.items()}
        cls._fields = tuple(cls._specs)
        for key in own:
            setattr(cls, key, property(itemgetter(cls._fields.index(key))))
        if abstract and not cls.family:
            cls.family = name.lower()
        if "ours" not in space:
            cls.ours = cls.__module__.split(".")[0] == "onkel"
        for key, options in cls.formulas.items():  # plain functions; what is compiled already stays as it is
            if inspect.isfunction(space.get(key)):
                how = compiled if options.get("apart") else inner
                given = {name: option for name, option in options.items() if name != "apart"}
                setattr(cls, key, how(space[key], cache=cls.ours, **given))
        cls.__signature__ = inspect.Signature(
            [
                inspect.Parameter(
                    key,
                    inspect.Parameter.POSITIONAL_OR_KEYWORD,
                    default=inspect.Parameter.empty if spec.default is _REQUIRED else spec.default,
                )
                for key, spec in cls._specs.items()
            ]
        )
        if not abstract:
            cls.complete()
            _enter(cls)
        return cls

    def __init__(cls, name: str, bases: tuple[type, ...], space: dict[str, Any], **_: Any) -> None:
        super().__init__(name, bases, space)


def _is_shared(cls: Any, key: str) -> bool:
    """Whether an annotation is about the class, not about a field of its values."""
    return "ClassVar" in str(inspect.get_annotations(cls)[key])


def _enter(cls: type[Value]) -> None:
    """A class defined anew in its place replaces itself; one of another place would make two meanings of one name."""
    there = DEFINED.get(cls.__name__)
    if there is not None and (there.__module__, there.__qualname__) != (cls.__module__, cls.__qualname__):
        raise TypeError(
            f"{there.__module__} has a value called {cls.__name__}, and saved files know values by their names; take another name"
        )
    for other in DEFINED.values() if cls.name is not None else ():
        if other is not there and other.name == cls.name and other.family == cls.family:
            raise TypeError(f"{other.__name__} is the {cls.family} called {cls.name!r}; take another name for {cls.__name__}")
    DEFINED[cls.__name__] = cls


def named(base: type[Value], name: Any) -> type[Value] | None:
    """The class below ``base`` that estimators and the command line call so."""
    return next((cls for cls in DEFINED.values() if issubclass(cls, base) and cls.name is not None and cls.name == name), None)


def names(base: type[Value]) -> tuple[str, ...]:
    """What estimators and the command line may call classes below ``base``."""
    return tuple(cls.name for cls in DEFINED.values() if issubclass(cls, base) and cls.name is not None)


class Value(tuple, metaclass=Definition, abstract=True):  # type: ignore[type-arg]
    """Base of all values; see the module."""

    _specs: ClassVar[dict[str, Field]] = {}
    _fields: ClassVar[tuple[str, ...]] = ()
    family: ClassVar[str] = ""  # the first base below this one: kernel, loss, step, rule; names are unique in a family
    ours: ClassVar[bool] = True  # defined in this library: machine code made for it may stay on the disk
    formulas: ClassVar[dict[str, dict[str, Any]]] = {}  # functions that are compiled where they are given as plain ones
    name: ClassVar[str | None] = None  # what estimators and the command line call it
    asked: ClassVar[dict[str, str]] = {}  # what each class must say, and what that means

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        if len(args) > len(cls._fields):
            raise TypeError(f"{cls.__name__} takes at most {len(cls._fields)} values, {', '.join(cls._fields)}; got {len(args)}")
        given = dict(zip(cls._fields, args, strict=False))
        for key, value in kwargs.items():
            if key not in cls._specs or key in given:
                wrong = f"got {key!r} twice" if key in given else f"there is no {key!r}"
                raise TypeError(f"{cls.__name__}({', '.join(cls._fields)}): {wrong}")
            given[key] = value
        parts = []
        for key, spec in cls._specs.items():
            value = given.get(key, spec.default)
            if value is _REQUIRED:
                raise TypeError(f"{cls.__name__}({', '.join(cls._fields)}): {key} is missing")
            parts.append(spec.check(cls.__name__, key, value))
        return tuple.__new__(cls, parts).checked()

    def checked(self) -> Self:
        """The value, if its fields go together; here a class completes what depends on several of them."""
        return self

    @classmethod
    def complete(cls) -> None:
        """An error for what the class fails to say."""
        for key, meaning in cls.asked.items():
            if not hasattr(cls, key):
                raise TypeError(f"{cls.__name__} must say {key}: {meaning}")

    def _asdict(self) -> dict[str, Any]:  # by this name Numba knows tuples with names
        return dict(zip(self._fields, self, strict=True))

    def _replace(self, **changes: Any) -> Self:
        return type(self)(**{**self._asdict(), **changes})

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and bool(tuple.__eq__(self, other))  # type: ignore[arg-type]

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((type(self).__name__, tuple.__hash__(self)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in self._asdict().items())})"
