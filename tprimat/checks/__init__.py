"""Checks of results: whether a value is possible, whether the work and whether the training were the same.

Reads runs and their summaries; changes nothing, prints nothing, ranks nothing. Two questions are
never mixed: the same compute decides whether speeds may be compared (compute.py), the same
training whether quality may be (training.py). Physics comes before both (physics.py), with the
corrections that would explain an impossible value (explain.py).
"""
