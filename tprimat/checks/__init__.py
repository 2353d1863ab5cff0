"""Doubts about results: is a figure possible, was the work the same, was the training the same.

Reads runs and their figures; changes nothing, prints nothing, ranks nothing. Two questions are
never mixed: the same compute decides whether speeds may be compared (compute.py), the same
training whether anything may be said about quality (training.py). Physics comes before both
(physics.py), with what would explain an impossible figure (explain.py).
"""
