"""Reasons: which examples and features made a decision, what a run was proved to achieve, and forgetting on demand.
What comes in: a learner with its state and checked rows, or an estimator that has learned.
May import: the core, onkel.theory and onkel.plots; estimators, River and the commands call this room, never the other way round."""
