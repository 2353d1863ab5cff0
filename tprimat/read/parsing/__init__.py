"""Shared by the readers of all log formats."""
