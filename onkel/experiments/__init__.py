"""The experiments of the papers, one file per figure; `onkel reproduce` runs them.

Each file's docstring says what the paper shows. `every_figure()` lists them in the order of the report.
"""

from __future__ import annotations

from importlib import import_module

from .experiment import Experiment

NAMES = (
    "ilk_fig1",
    "ilk_fig2",
    "ilk_fig3",
    "ilk_fig4",
    "norma_fig2",
    "norma_fig3",
    "norma_alert_rate",
    "norma_truncation",
    "svmd_fig3",
    "svmd_fig4",
    "svmd_fig5",
    "svmd_fig6",
    "svmd_fig7_left",
    "svmd_fig7_right",
    "svmd_fig8",
    "drifting_streams",
)


def figure(name: str) -> Experiment:
    """The experiment called `name`."""
    if name not in NAMES:
        raise ValueError(f"no figure is called {name!r}; there are {', '.join(NAMES)}")
    return import_module(f".figures.{name}", __package__).EXPERIMENT


def every_figure() -> list[Experiment]:
    return [figure(name) for name in NAMES]
