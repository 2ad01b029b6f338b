"""The benchmark: ours and the peers in one run, as ratios, with the machine's limits beside them (docs/speed.md)."""
