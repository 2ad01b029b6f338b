"""The page of a run: one file that needs nothing else, light or dark by the reader's setting."""

from __future__ import annotations

import base64
import io
from typing import Any

from onkel import plots
from onkel.commands.results import summary
from onkel.commands.scorecard import Run
from onkel.terminal.escape import for_html

STYLE = """
:root{color-scheme:light dark;--ink:#1c1c1c;--paper:#fff;--faint:#ddd}
@media(prefers-color-scheme:dark){:root{--ink:#e8e6e3;--paper:#16181c;--faint:#3a3e45}}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main{max-width:1060px;margin:0 auto;padding:1.5rem}img{width:100%;height:auto}pre{white-space:pre-wrap}
table{border-collapse:collapse;font-size:.9rem;margin:.6rem 0}
th,td{text-align:left;vertical-align:top;padding:.3rem .9rem .3rem 0;border-bottom:1px solid var(--faint)}
"""
MANY = 200  # features that are listed


def page(work: Run, facts: dict[str, Any]) -> str:
    """The run in words, curves and tables."""
    name = f"{facts['target'] or 'novelty'} in {facts['stream']}"
    light, dark = (picture(work, theme) for theme in plots.THEMES)
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        f"<title>onkel: {for_html(name)}</title><style>{STYLE}</style></head><body><main>",
        f"<h1>{for_html(name)}</h1><pre>{for_html(summary(facts))}</pre>",
        f"<picture><source srcset='{dark}' media='(prefers-color-scheme: dark)'>",
        f"<img src='{light}' alt='error and more over the rows'></picture>",
        table("Errors", ERRORS[work.task], facts),
        listing("Classes", ("class", "rows"), facts.get("classes", {}).items()),
        listing(
            "Alerts, the worst first", ("row", "score"), [(a["row"], f"{a['score']:.6g}") for a in facts.get("worst_alerts", [])]
        ),
        listing("Parameters", ("name", "value"), [(k, v) for k, v in facts["parameters"].items() if v is not None]),
        listing("Features", ("column", "mean", "spread"), features(work)),
        listing("Bad rows", ("what was wrong",), [(message,) for message in facts["bad"]]),
        f"<p>{for_html(facts['estimator'])} of onkel {for_html(facts['onkel'])}.</p></main></body></html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


ERRORS = {
    "classes": {
        "error": "the model",
        "error_of_last_label": "the last label again",
        "error_of_most_frequent_label": "the most frequent",
    },
    "reals": {
        "mean_absolute_error": "the model, mean absolute error",
        "root_mean_squared_error": "the model, root mean squared error",
        "mean_absolute_error_of_last_value": "the last value again",
        "mean_absolute_error_of_running_mean": "the mean so far",
    },
    "novelty": {"alerts": "share of alerts"},
}


def picture(work: Run, theme: str) -> str:
    with plots.style(theme):
        image = io.BytesIO()
        plots.run(work, theme).savefig(image, format="png", dpi=110)
    return "data:image/png;base64," + base64.b64encode(image.getvalue()).decode()


def features(work: Run) -> list[tuple[str, str, str]]:
    """The columns, with the running mean and spread by which they were scaled."""
    if work.scale is None:
        return [(name, "", "") for name in work.features[:MANY]]
    scale, found = work.scale, []
    for k, name in enumerate(work.features[:MANY]):
        count = max(float(scale.count[k]), 1.0)
        mean = float(scale.sums[k]) / count
        spread = max(float(scale.squares[k]) / count - mean * mean, 0.0) ** 0.5
        found.append((name, f"{float(scale.first[k]) + mean:.6g}", f"{spread:.6g}"))
    return found


def table(title: str, names: dict[str, str], facts: dict[str, Any]) -> str:
    return listing(title, ("of", ""), [(words, f"{facts[name]:.6g}") for name, words in names.items()])


def listing(title: str, head: tuple[str, ...], rows: Any) -> str:
    cells = "".join("<tr>" + "".join(f"<td>{for_html(cell)}" for cell in row) + "</tr>" for row in rows)
    columns = "".join(f"<th>{for_html(name)}" for name in head)
    return f"<h2>{for_html(title)}</h2><table><tr>{columns}</tr>{cells}</table>" if cells else ""
