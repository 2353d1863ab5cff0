"""Parsers name what they offer without importing it; here the names are compared with the tables."""

from tprimat.cli.options import compare_frameworks
from tprimat.store.legacy_schema import FRAMEWORKS, PLATFORMS


def test_platforms_and_frameworks_are_those_of_the_older_results():
    assert sorted(PLATFORMS) == list(compare_frameworks.PLATFORMS)
    assert ", ".join(f"{short} ({name})" for short, name in FRAMEWORKS.items()) == compare_frameworks.SHORT
