"""The result file: its types, its JSON, its schema."""
