"""SVMD paper, Figure 8: documents in a taxonomy, tree-structured loss.

Section D of WIPO-alpha, 1710 patents in 160 categories, unit-length bags of words, linear kernel times the number of common
ancestors of two labels, c = 1/n, buffer 1024, eta_0 = 1, mu = 0.1, decay 0.999. Two passes: around 75 % average error over
the first and 68 % over the second; average loss around 1.32 over the first pass and 1.28 over both.

Ours: the same 1710 documents in another representation: 100 LSA components, and 57 leaves instead of 160, so the numbers
are not comparable one to one. As a second, larger taxonomy 20 newsgroups (18,846 postings, TF-IDF reduced to 200 LSA
components). Beside the tree stands the flat multiclass loss, to show what the structure buys: both are judged by the
plain error and by the tree distance between the true and the predicted label. The tuned rows give both losses the same
grid (eta_0 and mu for SVMD; step and forgetting for SILK, which is added) on the start of a held-out order. Quick runs use
a synthetic taxonomy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import onkel
from onkel import data, plots
from onkel.experiments.experiment import Claim, Experiment, Numbers, Part, Setting, fewer, spread
from onkel.experiments.shared import images
from onkel.experiments.shared.contenders import described, grid, make, tune

LABELS = ("tree", "flat")
SETS = {"wipo_d": "WIPO section D", "newsgroups20": "20 newsgroups"}
ROWS = ("SVMD", "SVMD tuned", "SILK tuned")
BUDGET = 1024
HELD_OUT = 1_000_000


def parts(setting: Setting) -> list[Part]:
    sets = setting.pick(tuple(SETS), ("taxonomy",), ("taxonomy",))
    orders = setting.pick({"wipo_d": 10, "newsgroups20": 3}, {"taxonomy": 5}, {"taxonomy": 4})
    return [
        Part(
            f"{name} {labels} {row}",
            run,
            {"name": name, "labels": labels, "row": row, "orders": orders[name]},
            {"wipo_d": 5.0, "newsgroups20": 30.0}.get(name, 2.0) * (1 if row == "SVMD" else 2),
        )
        for name in sets
        for labels in LABELS
        for row in ROWS
    ]


def documents(setting: Setting, name: str) -> tuple[np.ndarray, np.ndarray, Any]:
    """Unit-length rows, leaf codes, the tree."""
    if name == "taxonomy":
        return taxonomy(setting.pick(0, 1200, 600), setting.seed)
    loaded = data.load(name, directory=setting.directory)
    X = loaded.X if name == "wipo_d" else latent(loaded.X)
    return images.unit(X), loaded.y, onkel.Labels.tree(data.label_tree(loaded.paths))


def latent(counts: Any, components: int = 200) -> np.ndarray:
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfTransformer

    weighted = TfidfTransformer(sublinear_tf=True).fit_transform(counts)
    return TruncatedSVD(components, n_iter=3, random_state=0).fit_transform(weighted)


def taxonomy(n: int, seed: int, branches: int = 4, leaves: int = 5, words: int = 120) -> tuple[np.ndarray, np.ndarray, Any]:
    """Documents from a tree of topics: a leaf's words are its branch's with some of its own; unit-length word counts."""
    rng = np.random.default_rng(seed)
    paths = [("root", f"b{b}", f"b{b}l{l}") for b in range(branches) for l in range(leaves)]
    branch = rng.gamma(0.15, size=(branches, words))
    topics = np.repeat(branch, leaves, axis=0) + 0.5 * rng.gamma(0.1, size=(len(paths), words))
    y = rng.integers(0, len(paths), n)
    X = np.array([rng.multinomial(40, topics[label] / topics[label].sum()) for label in y], float)
    return images.unit(X), y, onkel.Labels.tree(data.label_tree(paths))


def run(setting: Setting, name: str, labels: str, row: str, orders: int) -> Numbers:
    X, y, tree = documents(setting, name)
    n = len(y)
    loss = onkel.Structured(tree if labels == "tree" else onkel.Labels.flat(tree.m))

    def build(eta: float = 1.0, mu: float = 0.1, forget: float = 0.0) -> Any:
        if row.startswith("SVMD"):
            return onkel.svmd(onkel.Linear(), loss, eta=eta, lam=1 / n, mu=mu, decay=0.999, budget=BUDGET, eta_max=n)
        return make("SILK", onkel.Linear(), loss, eta=eta, forget=forget, budget=BUDGET)

    best: dict[str, Any] = {"eta": 1.0, "mu": 0.1}
    if "tuned" in row:
        held_out = np.random.default_rng(HELD_OUT + setting.seed).permutation(n)[:6000]
        own = {"mu": (0.001, 0.01, 0.1)} if row.startswith("SVMD") else {"forget": (0.0, 1e-5, 1e-4)}
        best, _ = tune(build, grid(eta=(0.03, 0.1, 0.3, 1.0), **own), [(X[held_out], y[held_out])])
    learner = build(**best)
    rng = np.random.default_rng(setting.seed)
    wrong, distance, margin = [], [], []
    for _ in range(orders):
        rows = np.concatenate([rng.permutation(n), rng.permutation(n)])
        trace = learner.learn(learner.init(), X[rows], y[rows])[1]
        wrong.append(np.asarray(trace.mistake, float))
        distance.append(tree.cost[y[rows], np.asarray(trace.scores).argmax(axis=1)])
        margin.append(np.asarray(trace.loss))
    wrong, distance, margin = (np.array(values) for values in (wrong, distance, margin))
    t = np.arange(n // 50, 2 * n + 1, n // 50)
    return {
        "t": t,
        "error": wrong.mean(axis=0).cumsum()[t - 1] / t,
        "distance": distance.mean(axis=0).cumsum()[t - 1] / t,
        "first": wrong[:, :n].mean(axis=1),
        "second": wrong[:, n:].mean(axis=1),
        "distance first": distance[:, :n].mean(axis=1),
        "distance both": distance.mean(axis=1),
        "loss first": margin[:, :n].mean(axis=1),
        "loss both": margin.mean(axis=1),
        "parameters": described(best),
    }


def names(numbers: Numbers) -> list[str]:
    return list(dict.fromkeys(part.split()[0] for part in numbers))


def claims(numbers: Numbers) -> list[Claim]:
    main = names(numbers)[0]
    tree = numbers[f"{main} tree SVMD"]
    published = [
        Claim(
            "Around 75 % average error over the first pass, 68 % over the second",
            "75 %, 68 % (160 labels)",
            f"{spread(tree['first'], 100)} %, {spread(tree['second'], 100)} % ({SETS.get(main, main)}, other labels)",
            {
                "first pass between 60 and 80 %": bool(0.6 <= tree["first"].mean() <= 0.8),
                "second pass lower": fewer(tree["second"], tree["first"]),
            },
        ),
        Claim(
            "Average loss around 1.32 over the first pass, 1.28 over both",
            "1.32, 1.28",
            f"tree distance {spread(tree['distance first'], digits=2)}, {spread(tree['distance both'], digits=2)}; "
            f"with the margin {spread(tree['loss first'], digits=2)}, {spread(tree['loss both'], digits=2)}",
            {
                "distance within 0.2 of 1.32": bool(abs(tree["distance first"].mean() - 1.32) <= 0.2),
                "lower over both passes": fewer(tree["distance both"], tree["distance first"]),
            },
        ),
    ]
    found = published if main == "wipo_d" else []  # the paper's values mean nothing for a made taxonomy
    for row in ROWS:
        pairs = {name: [numbers[f"{name} {labels} {row}"] for labels in LABELS] for name in names(numbers)}
        found.append(
            Claim(
                f"({row}) The tree loss keeps mistakes closer in the tree than the flat one",
                "not shown",
                "; ".join(
                    f"{SETS.get(name, name)}: tree distance {spread(t['distance both'], digits=3)} (tree), "
                    f"{spread(f['distance both'], digits=3)} (flat); error {spread((t['first'] + t['second']) / 2, 100)} % (tree), "
                    f"{spread((f['first'] + f['second']) / 2, 100)} % (flat)"
                    for name, (t, f) in pairs.items()
                ),
                {SETS.get(name, name): fewer(t["distance both"], f["distance both"]) for name, (t, f) in pairs.items()},
            )
        )
    return found


def table(numbers: Numbers) -> list[dict[str, str]]:
    return [
        {
            "run": name,
            "error % first pass": spread(part["first"], 100),
            "second": spread(part["second"], 100),
            "tree distance, first": spread(part["distance first"], digits=3),
            "both": spread(part["distance both"], digits=3),
            "parameters": part["parameters"],
        }
        for name, part in numbers.items()
    ]


def draw(numbers: Numbers, theme: str):
    found = names(numbers)
    figure, axes = plots.panels(2 * len(found), width=5.2, height=3.8, columns=2)
    for k, name in enumerate(found):
        left, right = axes[2 * k : 2 * k + 2]
        for labels, hue in (("tree", "green"), ("flat", "orange")):
            for row, dash in zip(ROWS, ("-", ":", "--")):
                part = numbers[f"{name} {labels} {row}"]
                style = {"color": plots.colour(hue, theme), "linestyle": dash, "label": f"{labels}, {row}"}
                left.plot(part["t"], 100 * part["error"], **style)
                right.plot(part["t"], part["distance"], **style)
        title = SETS.get(name, "a synthetic taxonomy")
        left.set(title=f"{title}: error, %", xlabel="examples, two passes")
        right.set(title="Distance in the tree", xlabel="examples, two passes")
        for axis in (left, right):
            axis.axvline(part["t"][-1] / 2, color=plots.FAINT[theme], linewidth=1)
            plots.name_lines(axis)
    return figure


EXPERIMENT = Experiment(
    name="svmd_fig8",
    paper="SVMD, Figure 8",
    title="Documents in a taxonomy: tree-structured against flat loss",
    shows=__doc__,
    parts=parts,
    claims=claims,
    table=table,
    draw=draw,
    needs=("wipo_d", "newsgroups20"),
    notes="SVMD's step is held at or below 1/c, without which it can run away. Mistakes with the tree loss are counted by "
    "the argmax of the scores, ties as mistakes.",
)
