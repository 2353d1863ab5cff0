"""Measurement: trainings as child processes."""
