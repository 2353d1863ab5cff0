"""Hugging Face's Trainer: console and files."""
