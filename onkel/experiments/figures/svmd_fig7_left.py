"""SVMD paper, Figure 7 left: the step size in novelty detection over the counting sequence.

SVMD with mu = decay = 1 "markedly reduces the initial step size, it does not anneal it down to zero". Spikes of the step
correspond to events of the sequence: after the first non-zero digit at t = 6, as the counter wraps from 19 to 20 at
t = 60 (likewise 120, 150, 180), at 300, 1200, 1500 as the hundreds change, and at 3000 as the whole sequence wraps.

Ours: the paper does not say whether the margin is fixed here or adapted by the nu-trick, so both are run with eta_0 = 1 and
c = 1: margin 1, which is drawn in full and judged, and nu = 0.05 beside it. A time t counts as a spike if the step rises by
more within the next max(10, t/5) examples than it does from 90 % of all other times.
"""

from __future__ import annotations

import numpy as np

import onkel
from onkel import plots
from onkel.experiments.experiment import Claim, Experiment, Numbers, Part, Setting
from onkel.experiments.shared import images

EVENTS = (6, 60, 120, 150, 180, 300, 1200, 1500, 3000)
MARGINS = {"fixed margin": {}, "nu 0.05": {"nu": 0.05, "epsilon": 0.01}}


def parts(setting: Setting) -> list[Part]:
    draws = setting.pick(5, 3, 2)
    return [Part(f"{margin} {k}", run, {"margin": margin, "draw": k}) for margin in MARGINS for k in range(draws)]


def events(setting: Setting) -> list[int]:
    """The paper's times; in quick runs, which count to 99, those where the tens change and the sequence wraps."""
    return list(EVENTS) if setting.full else [4, 20, 40, 60, 80, 200, 400]


def run(setting: Setting, margin: str, draw: int) -> Numbers:
    X, _ = images.counting(setting, 1000 * setting.seed + draw)
    kernel = onkel.RBF(images.width(X))
    learner = onkel.svmd(kernel, onkel.Novelty(1.0), eta=1.0, lam=1.0, mu=1.0, decay=1.0, budget=512, **MARGINS[margin])
    eta = np.asarray(learner.learn(learner.init(), X, None)[1].eta)
    times = np.arange(3, int(len(eta) / 1.2))
    rise = np.array([eta[t : t + max(10, t // 5)].max() / eta[t - 1] for t in times])
    rank = [np.mean(rise < rise[t - times[0]]) for t in events(setting)]
    return {"eta": eta, "events": np.array(events(setting)), "rank": np.array(rank)}


def judged(numbers: Numbers) -> list[Numbers]:
    return [part for name, part in numbers.items() if name.startswith("fixed")]


def claims(numbers: Numbers) -> list[Claim]:
    runs = judged(numbers)
    eta = [part["eta"] for part in runs]
    tail = np.mean([np.median(e[len(e) // 2 :]) for e in eta])
    lowest = min(e.min() for e in eta)
    ranks = np.mean([part["rank"] for part in runs], axis=0)
    spikes = ranks >= 0.9
    times = runs[0]["events"]
    return [
        Claim(
            "SVMD markedly reduces the initial step",
            "from 1 to below 0.1 early on",
            f"median step of the second half {tail:.3g}",
            {"below a tenth of the initial step": bool(tail < 0.1)},
        ),
        Claim(
            "It does not anneal it down to zero",
            "no trend to zero",
            f"lowest step {lowest:.2g}, {lowest / tail:.2f} of that median",
            {"the lowest step is above a tenth of the median": bool(lowest > 0.1 * tail)},
        ),
        Claim(
            "Spikes of the step follow the events of the sequence",
            "at t = " + ", ".join(map(str, EVENTS)),
            "; ".join(f"t = {t}: above {100 * r:.0f} % of all times" for t, r in zip(times, ranks)),
            {f"spike at t = {t}": bool(s) for t, s in zip(times, spikes)},
        ),
    ]


def draw(numbers: Numbers, theme: str):
    figure, (axis,) = plots.panels(1, width=9.6, height=4.2)
    for name, hue in (("nu 0.05", plots.FAINT[theme]), ("fixed margin", plots.colour("SVMD", theme))):
        part = numbers[f"{name} 0"]
        axis.plot(np.arange(1, len(part["eta"]) + 1), part["eta"], color=hue, linewidth=1.2, label=name)
    ranks = np.mean([run["rank"] for run in judged(numbers)], axis=0)
    for k, (t, rank) in enumerate(zip(part["events"], ranks)):
        hue = plots.colour("orange" if rank >= 0.9 else "grey", theme)
        axis.axvline(t, color=hue, linewidth=1.0, linestyle=":")
        axis.annotate(str(t), (t, 1.01 + 0.05 * (k % 2)), xycoords=("data", "axes fraction"), ha="center", fontsize=9, color=hue)
    axis.set(xlabel="examples", ylabel="step size", xscale="log", yscale="log", xlim=(1, len(part["eta"])))
    axis.set_title("Step size; above, the paper's events, orange where the step spikes", pad=34)
    plots.name_lines(axis)
    return figure


EXPERIMENT = Experiment(
    name="svmd_fig7_left",
    paper="SVMD, Figure 7 left",
    title="Novelty detection on the counting sequence: the step follows the events",
    shows=__doc__,
    parts=parts,
    claims=claims,
    draw=draw,
    needs=("usps",),
)
