"""scikit-learn estimators: from tables, classes and missing values to the core, and back to labels and probabilities.

Nothing numeric that the core could do.  Imports core, gpu and theory.
"""
