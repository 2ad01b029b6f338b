"""What options may be given, checked in one way: a value that is not allowed is told with what is."""

from __future__ import annotations

import argparse
import csv
import re
from collections.abc import Callable
from typing import Any, TypeVar

Number = TypeVar("Number", int, float)
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
LARGEST_SIDE = 8192  # pixels


def number(kind: Callable[[str], Number], low: float, high: float, what: str) -> Callable[[str], Number]:
    """A reader of numbers of one kind from ``low`` to ``high``; ``what`` says which these are."""

    def read(text: str) -> Number:
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not low <= value <= high:
            raise argparse.ArgumentTypeError(f"needs {what}, got {text!r}")
        return value

    return read


whole = number(int, 1, 10**18, "a whole number from 1 on")
natural = number(int, 0, 10**18, "a whole number from 0 on")
positive = number(float, 5e-324, 1.7e308, "a positive number")
share = number(float, 5e-324, 1.0, "a number above 0 and at most 1")


def names(text: str) -> list[str]:
    """Names with commas between them; one that holds a comma stands in quotation marks, as in a table.

    >>> names('a, b,,"c, d"')
    ['a', 'b', 'c, d']
    """
    try:
        found = next(csv.reader([text], skipinitialspace=True, strict=True), [])
    except csv.Error as error:
        raise argparse.ArgumentTypeError(f"needs names with commas between them, got {text!r} ({error})") from None
    return [name for name in found if name.strip()]


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def size(text: str) -> int:
    """A number of bytes.

    >>> size("16M"), size("1000")
    (16777216, 1000)
    """
    found = re.fullmatch(r"([0-9]{1,15})([KMG]?)i?B?", text.strip(), re.IGNORECASE)
    if found is None or int(found[1]) == 0:
        raise argparse.ArgumentTypeError(f"needs a number of bytes, such as 1000, 64K, 16M or 2G; got {text!r}")
    return int(found[1]) * UNITS[found[2].upper()]


def gamma(text: str) -> Any:
    return text if text in ("scale", "auto") else positive(text)


def one_character(text: str) -> str:
    text = text.replace("\\t", "\t")
    if len(text) != 1 or text in '"\r\n':
        raise argparse.ArgumentTypeError(f"needs one character, got {text!r}")
    return text


def encoding(text: str) -> str:
    try:
        if "a\n".encode(text) == b"a\n":
            return text
    except (LookupError, UnicodeError):
        pass
    raise argparse.ArgumentTypeError(f"needs an encoding that Python knows and that contains ASCII, got {text!r}")


def rectangle(text: str) -> tuple[int, int, int, int]:
    """
    >>> rectangle("0,10,320,240")
    (0, 10, 320, 240)
    """
    found = re.fullmatch(r" *(\d{1,9}) *, *(\d{1,9}) *, *(\d{1,9}) *, *(\d{1,9}) *", text)
    if found is None or not (int(found[3]) and int(found[4])):
        raise argparse.ArgumentTypeError(f"{text!r}: give x,y,width,height in pixels, x and y from 0, width and height from 1")
    return int(found[1]), int(found[2]), int(found[3]), int(found[4])


def width_and_height(text: str) -> tuple[int, int]:
    """
    >>> width_and_height("640x480")
    (640, 480)
    """
    found = re.fullmatch(r" *(\d{1,9}) *[xX] *(\d{1,9}) *", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r}: give WIDTHxHEIGHT, such as 640x480")
    w, h = int(found[1]), int(found[2])
    if not (1 <= w <= LARGEST_SIDE and 1 <= h <= LARGEST_SIDE):
        raise argparse.ArgumentTypeError(f"{text!r}: width and height from 1 to {LARGEST_SIDE}")
    return w, h
