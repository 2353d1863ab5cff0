"""Measurement: runs as child processes."""
