"""The arguments of each command: one file per command, which imports nothing but argparse.

`--help` is light because it ends here: the command itself, and all that it needs, is imported
after its arguments have been parsed.
"""
