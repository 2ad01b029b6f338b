"""What comes out of a run: the report as plain values, a summary in words, a figure."""

from __future__ import annotations

import heapq
import io
from typing import Any

import onkel
from onkel import plots
from onkel.commands.answers import Answers
from onkel.commands.scorecard import Run
from onkel.commands.tables import Table

WORST = 20  # alerts that are listed


class Alerts:
    """The rows of this call that raised an alert, the worst of them kept."""

    def __init__(self) -> None:
        self.heap: list[tuple[float, int]] = []

    def add(self, rows: list[int], answers: Answers) -> None:
        for row, alert, score in zip(rows, answers.prediction, answers.score):
            if alert:
                item = (-float(score), -row)
                (heapq.heappush if len(self.heap) < WORST else heapq.heappushpop)(self.heap, item)

    def worst(self) -> list[dict[str, Any]]:
        """Worst first; of equals the first row."""
        return [{"row": -row, "score": -score} for score, row in sorted(self.heap, reverse=True)]


def report(
    work: Run, table: Table, messages: list[str], seconds: float, fresh: int, complete: bool, alerts: Alerts
) -> dict[str, Any]:
    parameters = {
        name: value if isinstance(value, str | int | float | bool | None) else repr(value)
        for name, value in work.model.get_params().items()
    }
    return {
        "stream": table.name,
        "format": table.format,
        "task": work.task,
        "target": work.target,
        "features": work.features,
        "complete": complete,
        **work.report(),
        **({"worst_alerts": alerts.worst()} if work.task == "novelty" else {}),
        "bad": messages,
        "estimator": type(work.model).__name__,
        "parameters": parameters,
        "seconds": round(seconds, 3),
        "rows_per_second": round(fresh / max(seconds, 1e-9)),
        "onkel": onkel.__version__,
    }


def summary(facts: dict[str, Any], verbose: bool = False) -> str:
    lines = [
        f"{facts['rows']} rows, {facts['bad_rows']} bad; {facts['points']} points kept in {facts['bytes']} bytes; "
        f"{facts['seconds']:.1f} s, {facts['rows_per_second']} rows/s"
    ]
    if facts["task"] == "classes":
        lines.append(
            f"error {facts['error']:.4f}; the last label again {facts['error_of_last_label']:.4f}, "
            f"the most frequent {facts['error_of_most_frequent_label']:.4f}"
        )
    elif facts["task"] == "reals":
        lines.append(
            f"mean absolute error {facts['mean_absolute_error']:.6g}; the last value again "
            f"{facts['mean_absolute_error_of_last_value']:.6g}, the mean so far {facts['mean_absolute_error_of_running_mean']:.6g}"
        )
    else:
        lines.append(f"alerts {facts['alerts']:.4f}")
        if worst := facts["worst_alerts"]:
            lines.append("the worst in rows " + ", ".join(str(alert["row"]) for alert in worst[:10]))
    if verbose:
        lines += [f"  {name:<10} {value}" for name, value in facts["parameters"].items() if value is not None]
        lines += [f"  {message}" for message in facts["bad"]]
    return "\n".join(lines)


def figure(work: Run) -> bytes:
    """The error over the stream beside that of the simplest rival, as PNG."""
    with plots.style():
        drawn, (axes,) = plots.panels(1, width=7.2)
        rows, curve = work.tally.windows()
        title = {"classes": "Mistakes", "reals": "Mean absolute error", "novelty": "Alerts"}[work.task]
        axes.set(title=f"{title}, rows of {work.tally.width} together", xlabel="rows", xlim=(0, rows[-1]))
        axes.plot(rows, curve[:, 0], color=plots.colour("blue"), label=type(work.model).__name__)
        if work.target is not None:
            axes.plot(rows, curve[:, 1], color=plots.colour("grey"), linewidth=1.0, label="last one again")
        axes.set_ylim(bottom=0)
        plots.name_lines(axes)
        image = io.BytesIO()
        drawn.savefig(image, format="png")
    return image.getvalue()
