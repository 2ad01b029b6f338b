"""What comes out: a table on the screen, bench.json with every round, bench.md, and the charts."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from onkel import plots

from .measure import DGEMM, FMA, READ, SGEMM, Race, Results
from .rows import AT_LEAST, Row

HEAD = ("what", "against", "measured", "target", "", "ours", "theirs", "of SGEMM", "right")
PACKAGES = ("onkel", "numpy", "numba", "scipy", "scikit-learn", "river", "vowpalwabbit", "opencv-python-headless")


def cells(row: Row) -> tuple[str, ...]:
    """A row as text."""
    target = "" if row.target is None else f"{'>=' if row.sense == AT_LEAST else '<='} {row.target:g} {row.unit.split()[0]}"
    right = " / ".join(f"{q:.3f}" for q in (row.quality, row.their_quality) if q is not None)
    percent = row.value if row.against == "SGEMM peak" else row.percent_of_sgemm
    value = f"{significant(row.value)} {row.unit}"
    return (
        row.path, row.against, value, target, row.verdict, duration(row.ours), duration(row.theirs),
        "" if percent is None else f"{percent:.0f} %", right,
    )  # fmt: skip


def significant(value: float) -> str:
    """Three digits.

    >>> significant(118.42), significant(0.10449), significant(1520.0)
    ('118', '0.104', '1520')
    """
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def duration(seconds: float | None) -> str:
    """Per example, in the unit that reads best.

    >>> duration(1.3e-7), duration(4.2e-5), duration(0.31)
    ('0.13 us', '42 us', '310 ms')
    """
    if seconds is None:
        return ""
    return f"{significant(1e6 * seconds)} us" if seconds < 1e-3 else f"{significant(1e3 * seconds)} ms"


def table(rows: Sequence[Row]) -> str:
    """For the screen."""
    lines = [HEAD, *map(cells, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
    sides = "<<>><>>>>"
    text = ["  ".join(f"{cell:{side}{w}}" for cell, side, w in zip(line, sides, widths)).rstrip() for line in lines]
    return "\n".join([text[0], "-" * max(map(len, text)), *text[1:]])


def markdown(rows: Sequence[Row], header: Sequence[str]) -> str:
    """For a page."""
    lines = [HEAD, tuple("---" for _ in HEAD), *map(cells, rows)]
    return "\n".join([*header, "", *("| " + " | ".join(line) + " |" for line in lines)]) + "\n"


def machine() -> dict[str, Any]:
    """Processor, cores and how busy it is."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        named = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
        model = named[0] if named else model
    return {"processor": model, "cores": os.cpu_count(), "system": platform.platform(), "load": load()}


def load() -> float | None:
    """Average number of running processes over the last minute."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def limits_of(finished: Sequence[tuple[Race, Results]]) -> dict[str, float]:
    """Medians over all rounds of all races: GFLOP/s and GB/s."""
    found = {}
    labels = {SGEMM: "SGEMM GFLOP/s", DGEMM: "DGEMM GFLOP/s", FMA: "multiply-adds GFLOP/s", READ: "read GB/s"}
    for name, label in labels.items():
        seconds = [second for _, results in finished if name in results for second in results[name].seconds]
        if seconds:
            found[label] = round(1e-9 / statistics.median(seconds), 2)
    return found


def as_json(
    finished: Sequence[tuple[Race, Results]], rows: Sequence[Row], skipped: Sequence[str], before: dict[str, Any], command: str
) -> dict[str, Any]:
    """Everything, for the file."""
    return {
        "command": command,
        "when": time.strftime("%Y-%m-%d %H:%M"),
        "machine": {**before, "load after": load()},
        "versions": versions(),
        "threads": 1,
        "limits": limits_of(finished),
        "rows": [{**asdict(row), "verdict": row.verdict, "reached": row.reached} for row in rows],
        "skipped": list(skipped),
        "races": [
            {
                "name": race.name,
                "contenders": [
                    {"name": r.name, "examples": r.examples, "median": r.median, "seconds": r.seconds, "quality": r.quality}
                    for r in results.values()
                ],
                **race.extra,
            }
            for race, results in finished
        ],
    }


def header(result: dict[str, Any]) -> list[str]:
    """Where and how it was measured, in words."""
    limits = ", ".join(f"{name.split()[0]} {value:g} {name.split()[1]}" for name, value in result["limits"].items())
    place = result["machine"]
    return [
        f"{place['processor']}, one thread, load {place['load']} on {place['cores']} cores; {result['when']}; "
        + ", ".join(f"{name} {version}" for name, version in result["versions"].items()),
        *([f"Limits in the same rounds: {limits}."] if limits else []),
        "Times are CPU time per example, medians of rounds in turn; 'right' is the share predicted right before learning",
        "(novelty: area under the ROC curve; video: F1), ours / theirs. Rows with 'wall' are by the clock, best rounds.",
    ]


def write(out: Path, result: dict[str, Any], rows: Sequence[Row]) -> list[Path]:
    """bench.json, bench.md and, with matplotlib, the charts; returns what was written."""
    out.mkdir(parents=True, exist_ok=True)
    files = [out / "bench.json", out / "bench.md"]
    files[0].write_text(json.dumps(result, indent=1) + "\n")
    files[1].write_text(markdown(rows, [f"`{result['command']}`", "", *header(result)]))
    if not find_spec("matplotlib"):
        return files
    for theme in plots.THEMES:
        for name, draw in (("bench", draw_targets), ("growth", draw_growth)):
            with plots.style(theme):
                figure = draw(result, theme)
                for kind in ("png", "svg") if figure is not None else ():
                    files.append(out / f"{name}-{theme}.{kind}")
                    figure.savefig(files[-1], dpi=150, bbox_inches="tight", metadata={"Date": None} if kind == "svg" else None)
    return files


def draw_targets(result: dict[str, Any], theme: str) -> Any:
    """How many times its target each row reaches, on a logarithmic scale: right of the line is met."""
    rows = [row for row in result["rows"] if row["reached"]]
    if not rows:
        return None
    figure, (axes,) = plots.panels(1, width=9.0, height=1.2 + 0.3 * len(rows))
    for place, row in enumerate(reversed(rows)):
        hue = plots.colour("blue" if row["verdict"] == "met" else "orange", theme)
        axes.plot([1.0, row["reached"]], [place, place], "-", color=hue, linewidth=6, solid_capstyle="butt")
        right = row["reached"] >= 1.0
        axes.annotate(
            f"{significant(row['value'])} {row['unit']}", (row["reached"], place), xytext=(5 if right else -5, 0),
            textcoords="offset points", va="center", ha="left" if right else "right", fontsize=9, color=hue,
        )  # fmt: skip
    axes.set_yticks(range(len(rows)), [f"{row['path']}  |  {row['against']}".rstrip(" |") for row in reversed(rows)], fontsize=9)
    axes.set_xscale("log")
    reached = [row["reached"] for row in rows]
    axes.set_xlim(min(0.5, 0.6 * min(reached)), 2.0 * max(2.0, *reached))
    ticks = [tick for tick in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50) if axes.get_xlim()[0] <= tick <= axes.get_xlim()[1]]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.axvline(1.0, color=plots.INK[theme], linewidth=1)
    axes.set_title("Speed: times the target")
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    return figure


def draw_growth(result: dict[str, Any], theme: str) -> Any:
    """Time per example over the budget, over the features and over the stream; bytes over the stream."""
    races = {race["name"]: race for race in result["races"] if race["name"].startswith("growth")}
    if len(races) < 3:
        return None
    figure, axes = plots.panels(4, width=4.2, columns=4)
    hue = plots.colour("SILK", theme)
    for place, (name, race) in zip(axes, races.items()):
        if "nbytes" in race:
            (contender,) = race["contenders"]
            t = [(i + 2) * contender["examples"] for i in range(len(contender["seconds"]))]
            place.plot(t, [1e6 * s for s in contender["seconds"]], color=hue)
            place.set_ylim(0, 2e6 * max(contender["seconds"]))
            place.set_xlabel("t")
            axes[3].plot(t, [b / 1024 for b in race["nbytes"]], color=hue)
            axes[3].set_ylim(0, 2 * max(race["nbytes"]) / 1024)
            axes[3].set_xlabel("t")
            axes[3].set_title("nbytes, KiB")
        else:
            sizes = [float(c["name"]) for c in race["contenders"]]
            micros = [1e6 * c["median"] for c in race["contenders"]]
            place.loglog(sizes, micros, "o-", color=hue)
            guide = [micros[-1] * s / sizes[-1] for s in sizes]
            place.loglog(sizes, guide, ":", color=plots.FAINT[theme])
            place.set_xlabel("omega" if "omega," in name else "d")
        place.set_title("us per example, " + name.split(", ", 1)[1])
    return figure
