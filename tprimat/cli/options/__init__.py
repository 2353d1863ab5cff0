"""The arguments of each command: one file per command, which imports little but argparse: so
`--help` is light.
"""
