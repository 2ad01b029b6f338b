"""What comes out: per figure PNG, SVG and result.json, and one index.html that holds them all."""

from __future__ import annotations

import base64
import html
import importlib.metadata
import json
import platform
import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from onkel import plots

from .experiment import Experiment, Numbers, Setting, overall

QUICK = (
    "Quick runs stand on small or made data in place of the papers', so the papers' own values are not theirs to meet; "
    "they show that everything runs and how the algorithms compare."
)
CHIP = {"reproduced": "yes", "in part": "part", "not reproduced": "no"}


def finish(experiment: Experiment, parts: dict[str, Numbers], setting: Setting, out: Path) -> dict[str, Any]:
    """Check the claims, draw the figure, write both; returns what result.json holds."""
    numbers = experiment.combine(parts)
    claims = experiment.claims(numbers)
    folder = out / experiment.name
    folder.mkdir(parents=True, exist_ok=True)
    for theme in plots.THEMES:
        with plots.style(theme):
            figure = experiment.draw(numbers, theme)
            for kind in ("png", "svg"):
                figure.savefig(
                    folder / f"{experiment.name}-{theme}.{kind}",
                    dpi=150,
                    bbox_inches="tight",
                    pad_inches=0.12,
                    metadata={"Date": None} if kind == "svg" else None,
                )
    result = {
        "name": experiment.name,
        "paper": experiment.paper,
        "title": experiment.title,
        "shows": experiment.shows.strip(),
        "notes": experiment.notes,
        "verdict": overall(claims),
        "claims": [{**asdict(claim), "checks": dict(claim.checks), "verdict": claim.verdict} for claim in claims],
        "table": experiment.table(numbers),
        "parameters": {part.name: dict(part.arguments) for part in experiment.parts(setting)},
        "size": setting.size,
        "seed": setting.seed,
        "seconds": round(sum(part.get("seconds", 0.0) for part in parts.values()), 2),
        "cpu_seconds": round(sum(part.get("cpu_seconds", 0.0) for part in parts.values()), 2),
        "versions": versions(),
        "rerun": f"onkel reproduce {experiment.name}{'' if setting.full else ' --quick'} --seed {setting.seed}",
    }
    (folder / "result.json").write_text(json.dumps(result, indent=1, default=plain, ensure_ascii=False) + "\n")
    return result


def plain(value: Any) -> Any:
    """NumPy's numbers and arrays as JSON knows them."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return str(value)


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("onkel", "numpy", "numba", "scipy", "scikit-learn", "matplotlib", "river"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def summary(results: Iterable[dict[str, Any]]) -> str:
    """One line per figure, for the terminal."""
    lines = []
    for result in results:
        lines.append(f"{result['verdict']:>15}  {result['name']:<18} {result['title']}")
        for claim in result["claims"]:
            lines.append(f"{'':>15}  {'':<18}   {claim['verdict']}: {claim['says']}")
            lines.append(f"{'':>15}  {'':<18}     paper: {claim['paper']};  here: {claim['ours']}")
    return "\n".join(lines)


def markdown(results: Iterable[dict[str, Any]]) -> str:
    """The claims as one table."""
    lines = ["| figure | the paper says | its value | ours | verdict |", "| --- | --- | --- | --- | --- |"]
    for result in results:
        for k, claim in enumerate(result["claims"]):
            cells = [f"{result['paper']}" if k == 0 else "", claim["says"], claim["paper"], claim["ours"], claim["verdict"]]
            lines.append("| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def collect(out: Path, names: Iterable[str]) -> list[dict[str, Any]]:
    """The results that are on disk, in the order of `names`."""
    files = [out / name / "result.json" for name in names]
    return [json.loads(file.read_text()) for file in files if file.exists()]


# --- index.html ---------------------------------------------------------------------------------------------


def index(out: Path, results: list[dict[str, Any]], missing: dict[str, str]) -> Path:
    """Everything in one file: no link leads out of it, no script, light and dark by the reader's setting.

    The claims alone are also written as summary.md.
    """
    counts = {verdict: sum(claim["verdict"] == verdict for r in results for claim in r["claims"]) for verdict in CHIP}
    body = [
        "<h1>The papers, reproduced</h1>",
        "<p>Every experiment of the papers on online kernel learning that this library implements, run again, with the "
        "claims of the papers checked by the numbers. A claim that fails stays in the table.</p>",
        f"<p>{sum(counts.values())} claims: "
        + ", ".join(f"{count} <span class='chip {CHIP[v]}'>{v}</span>" for v, count in counts.items())
        + f". Computed {time.strftime('%Y-%m-%d')}, {results[0]['size'] if results else 'no'} size.</p>",
        "" if all(r["size"] == "full" for r in results) else f"<p>{QUICK}</p>",
        "<table class='wide'><tr><th>figure<th>what<th>verdict</tr>",
        *(
            f"<tr><td><a href='#{r['name']}'>{esc(r['paper'])}</a><td>{esc(r['title'])}<td>{chip(r['verdict'])}</tr>"
            for r in results
        ),
        *(f"<tr><td>{esc(name)}<td>{esc(reason.strip().splitlines()[-1])}<td>not run</tr>" for name, reason in missing.items()),
        "</table>",
        *(section(out, result) for result in results),
    ]
    page = f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>onkel: the papers, reproduced</title>
<meta name="viewport" content="width=device-width"><style>{STYLE}</style><main>{"".join(body)}</main></html>"""
    file = out / "index.html"
    out.mkdir(parents=True, exist_ok=True)
    file.write_text(page, encoding="utf-8")
    (out / "summary.md").write_text(markdown(results), encoding="utf-8")
    return file


def section(out: Path, result: dict[str, Any]) -> str:
    name = result["name"]
    paragraphs = "".join(f"<p>{esc(text)}</p>" for text in result["shows"].split("\n\n"))
    rows = "".join(
        f"<tr><td>{esc(c['says'])}<td>{esc(c['paper'])}<td>{esc(c['ours'])}<td>{chip(c['verdict'])}"
        f"<div class='checks'>{'<br>'.join(('✓ ' if ok else '✗ ') + esc(check) for check, ok in c['checks'].items())}</div></tr>"
        for c in result["claims"]
    )
    light, dark = (embedded(out / name / f"{name}-{theme}.png") for theme in plots.THEMES)
    versions = ", ".join(f"{package} {version}" for package, version in result["versions"].items())
    return f"""<section id="{name}"><h2>{esc(result["paper"])}: {esc(result["title"])} {chip(result["verdict"])}</h2>
{paragraphs}<picture><source srcset="{dark}" media="(prefers-color-scheme: dark)"><img src="{light}" alt="{esc(result["title"])}">
</picture><table class="wide"><tr><th>the paper says<th>its value<th>ours<th>verdict</tr>{rows}</table>{numbers(result["table"])}
{f"<p>{esc(result['notes'])}</p>" if result["notes"] else ""}
<p class="small"><code>{esc(result["rerun"])}</code>: {result["cpu_seconds"]:.0f} s of computing; {esc(versions)}.
Parameters of each part are in <code>{name}/result.json</code>.</p></section>"""


def numbers(table: list[dict[str, Any]]) -> str:
    if not table:
        return ""
    head = "".join(f"<th>{esc(column)}" for column in table[0])
    rows = "".join("<tr>" + "".join(f"<td>{esc(str(value))}" for value in row.values()) + "</tr>" for row in table)
    return f"<details open><summary>The numbers</summary><table><tr>{head}</tr>{rows}</table></details>"


def embedded(image: Path) -> str:
    return "data:image/png;base64," + base64.b64encode(image.read_bytes()).decode()


def chip(verdict: str) -> str:
    return f"<span class='chip {CHIP[verdict]}'>{verdict}</span>"


def esc(text: str) -> str:
    return html.escape(text, quote=True)


STYLE = """
:root{color-scheme:light dark;--ink:#1c1c1c;--paper:#fff;--faint:#ddd;--yes:#00835f;--part:#a06b00;--no:#b3261e}
@media(prefers-color-scheme:dark){:root{--ink:#e8e6e3;--paper:#16181c;--faint:#3a3e45;--yes:#2fc79a;--part:#f0c23c;--no:#ff8a80}}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main{max-width:1060px;margin:0 auto;padding:1.5rem}
section{border-top:1px solid var(--faint);margin-top:2.5rem}
h2{font-size:1.25rem}img{width:100%;height:auto}
table{border-collapse:collapse;font-size:.9rem;margin:.6rem 0}.wide{width:100%}
th,td{text-align:left;vertical-align:top;padding:.3rem .7rem .3rem 0;border-bottom:1px solid var(--faint)}
.chip{white-space:nowrap;font-weight:600}.yes{color:var(--yes)}.part{color:var(--part)}.no{color:var(--no)}
.checks{font-size:.8rem;opacity:.8}.small{font-size:.85rem;opacity:.85}summary{cursor:pointer}
details{overflow-x:auto}
"""
