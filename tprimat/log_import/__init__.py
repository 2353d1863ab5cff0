"""Log files on disk to results: find, open, share among processes, save."""
