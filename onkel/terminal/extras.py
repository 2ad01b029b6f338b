"""What is not installed: told before any work, in one line that names the extra which brings it."""

from __future__ import annotations

from importlib.util import find_spec

EXTRAS = {  # module: the extra of onkel that brings it, or the package
    "matplotlib": "plot",
    "river": "river",
    "cv2": "video",
    "av": "video",
    "cupy": "gpu",
    "pyarrow": "tables",
    "zstandard": "tables",
    "fastapi": "serve",
    "uvicorn": "serve",
    "prometheus_client": "serve",
    "httpx": "serve",
}


class MissingExtra(ImportError):
    """A package that this part of onkel needs is not installed."""


def need(what: str, *modules: str) -> None:
    """Raise :class:`MissingExtra` unless all ``modules`` are installed; ``what`` needs them.

    >>> need("this line", "json")
    >>> need("this line", "json", "nothing")
    Traceback (most recent call last):
    onkel.terminal.extras.MissingExtra: this line needs nothing, which is not installed: pip install nothing
    """
    if missing := [module for module in modules if not installed(module)]:
        raise MissingExtra(f"{what} needs {missing[0]}, which is not installed: {how(missing[0])}", name=missing[0])


def installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ValueError, ModuleNotFoundError):  # its __spec__ is None, or its parent is missing
        return False


def how(module: str) -> str:
    """The command that installs it.

    >>> how("cv2"), how("cv3")
    ("pip install 'onkel[video]'", 'pip install cv3')
    """
    return f"pip install 'onkel[{EXTRAS[module]}]'" if module in EXTRAS else f"pip install {module}"
