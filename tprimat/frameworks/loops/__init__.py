"""Shared by the built-in training loops: recipe, tokens, processes, time limit."""
