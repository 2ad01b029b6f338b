"""Estimators that nobody has to tune: what a portfolio says, and what it found out, in terms of the user's columns.

Rows, frames and dictionaries come in as they are.  Imports core, estimators and scikit-learn; River's twins import River.
"""
