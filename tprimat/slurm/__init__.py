"""A benchmark as a job of Slurm: its script, its state, and its files."""
