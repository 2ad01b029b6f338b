"""Who is believed: the mixture's loss against the best member and the best sequence of members, on random and hostile streams."""

import math

import numpy as np
import pytest

from onkel.core.portfolio import combine
from onkel.core.portfolio.parts import Combiner

E, K = 5, 3
N = E + 1  # the stack is one more to choose from
STAY = math.log(1 / (1 - combine.SHARE + combine.SHARE / N))
SWITCH = math.log(N / combine.SHARE)


def losses(logp, stack, labels):
    """The mixture's loss at each row, and each expert's."""
    c = Combiner(np.zeros(E), np.zeros(E), np.full(E, 1.0 / E), np.zeros((E, E)), np.full(N, 1.0 / N))
    p, mixture, own = np.zeros(K), [], []
    for row, q, y in zip(logp, stack, labels):
        combine.mixed(c, row, q, p)
        mixture.append(-math.log(p[y]))
        own.append([*(-row[:, y]), -math.log(q[y])])
        combine.learn_share(c, row, q, y, 1.0)
    return np.array(mixture), np.array(own)


def best_sequence(own, switches):
    """The smallest loss of a sequence of experts with so many switches, by dynamic programming."""
    best = np.full((switches + 1, own.shape[1]), np.inf)
    best[0] = 0.0
    for row in own:
        moved = np.full_like(best, np.inf)
        moved[1:] = best[:-1].min(axis=1, keepdims=True)
        best = np.minimum(best, moved) + row
    return best.min(axis=1)


def bound(switches, rows):
    return math.log(N) + switches * SWITCH + (rows - 1 - switches) * STAY


def random_stream(rng, rows):
    scores = rng.normal(size=(rows, N, K)) * rng.uniform(0.1, 6)
    logp = np.maximum(scores - np.log(np.exp(scores).sum(axis=2, keepdims=True)), combine.LEAST)
    return logp[:, :E], np.exp(logp[:, E]), rng.integers(0, K, rows)


def adversarial_stream(rng, rows):
    """Whoever is believed most is wrong next; one after the other is right for a while."""
    labels = rng.integers(0, K, rows)
    logp = np.full((rows, N, K), math.log(1.0 / K))
    for t in range(rows):
        right = (t // (rows // 4)) % N
        logp[t] = np.log(0.02 / (K - 1))
        logp[t, :, (labels[t] + 1) % K] = math.log(0.98)
        logp[t, right] = np.log(0.02 / (K - 1))
        logp[t, right, labels[t]] = math.log(0.98)
    return logp[:, :E], np.exp(logp[:, E]), labels


@pytest.mark.parametrize("make", [random_stream, adversarial_stream])
@pytest.mark.parametrize("seed", range(5))
def test_the_mixture_loses_little_against_any_sequence_of_members(make, seed):
    rows = 400
    mixture, own = losses(*make(np.random.default_rng(seed), rows))
    for switches, least in enumerate(best_sequence(own, 5)):
        assert mixture.sum() <= least + bound(switches, rows) + 1e-9


def test_the_bound_is_tight():
    """One expert is right from the start, all others never: log N is lost, and nothing less would do as a constant."""
    logp = np.full((50, E, K), combine.LEAST)
    logp[:, 0, 1] = 0.0
    q = np.full((50, K), math.exp(combine.LEAST))
    mixture, own = losses(logp, q, np.ones(50, int))
    regret = mixture.sum() - own.sum(axis=0).min()
    assert math.log(N) - 0.01 < regret <= bound(0, 50)


def test_shares_are_a_distribution_and_nobody_is_forgotten():
    rng = np.random.default_rng(0)
    c = Combiner(np.zeros(E), np.zeros(E), np.full(E, 1.0 / E), np.zeros((E, E)), np.full(N, 1.0 / N))
    for row, q, y in zip(*random_stream(rng, 300)):
        combine.learn_share(c, row, q, y, 1.0)
        assert c.share.sum() == pytest.approx(1.0)
        assert c.share.min() >= combine.SHARE / N * 0.999


def test_the_stack_follows_whoever_is_right():
    rng = np.random.default_rng(1)
    c = Combiner(np.zeros(E), np.zeros(E), np.full(E, 1.0 / E), np.zeros((E, E)), np.full(N, 1.0 / N))
    q, room = np.zeros(K), (np.zeros(E), np.zeros(E), np.zeros((E, E)))
    for _ in range(600):
        y = int(rng.integers(K))
        logp = np.log(rng.dirichlet(np.ones(K), E))
        logp[2] = math.log(0.1)
        logp[2, y] = math.log(0.8)
        combine.stacked(c, logp, q)
        combine.learn_stack(c, logp, q, y, 1.0, *room)
    assert c.stack.argmax() == 2
    assert c.stack[2] > 3 * np.abs(np.delete(c.stack, 2)).max()
