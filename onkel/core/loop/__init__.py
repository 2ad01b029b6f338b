"""The hot loop: predict, shrink, append, drop, and where every number of it stands.

Only what runs once an example belongs here.  Imports core/maths and core/machine.
"""
