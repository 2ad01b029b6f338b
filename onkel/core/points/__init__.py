"""Points of every kind (dense rows, sparse rows, objects) and the matrices of kernel values between them.

What reads, stores or compares points belongs here.  Imports core/maths and core/machine.
"""
