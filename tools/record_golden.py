"""Record what the product does today in tests/golden, or compare it with what is recorded there.

    python tools/record_golden.py              write the files again and say what differs
    python tools/record_golden.py --check      compare all of it, write nothing; status 1 for a difference
    python tools/record_golden.py dry_run      these files alone
    python tools/record_golden.py logs_samples --since HEAD
                                               what differs from what that commit does, in full

Only command lines are used, so the files outlive any change of the modules behind them. What
depends on the machine, the date or versions is left out: see tests/golden/README.md. Of other
people's logs a line each is kept: --since reads them once more, as another commit does.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

# The tests load this file by its path.
sys.path.insert(0, str(Path(__file__).resolve().parent))

import golden_cases as cases
from golden_form import compressed, differences, expanded, to_text
from golden_machines import build
from golden_normal import DATA, REPOSITORY, SAMPLES, Normal, digest, name_environments

GOLDEN = REPOSITORY / "tests" / "golden"

GROUPS: dict[str, Callable[[], Iterator[dict[str, Any]]]] = {
    "options": cases.options,
    "dry_run": cases.dry_runs,
    "machines": cases.machines,
    "logs_own": lambda: cases.logs(DATA, "data"),
    "comparisons_own": cases.own_comparisons,
    "logs_samples": lambda: cases.logs(SAMPLES, "samples"),
    "comparisons_samples": cases.sample_comparisons,
}
OF_SAMPLES = frozenset({"logs_samples", "comparisons_samples"})
"""Groups that need ../shared/samples."""
AS_DIGESTS = frozenset({"logs_samples"})
"""Groups of which a golden file holds a line for each case."""


def record(group: str, selection: Iterable[dict[str, Any]] | None = None) -> dict[str, Any]:
    """Run the cases of a group and return what its golden file should hold.

    Args:
        group: key of GROUPS.
        selection: these cases instead of all.
    """
    recorded = _in_full(group, selection)
    if group in AS_DIGESTS:
        for kind, outcomes in recorded.items():
            recorded[kind] = {name: digest(outcome) for name, outcome in outcomes.items()}
    return recorded


def _in_full(
    group: str, selection: Iterable[dict[str, Any]] | None = None, checkout: Path = REPOSITORY
) -> dict[str, Any]:
    """Run the cases of a group with the code of a checkout, and return all that is kept of them."""
    todo = list(GROUPS[group]() if selection is None else selection)
    found: dict[str, Any] = {}
    for machine in dict.fromkeys(case["machine"] for case in todo):
        here = [case for case in todo if case["machine"] == machine]
        with tempfile.TemporaryDirectory(prefix="golden-") as name:
            folder = Path(name).resolve()
            for case, outcome in zip(here, _outcomes(machine, here, folder, checkout), strict=True):
                normal = Normal(folder, checkout, whole=group not in {*OF_SAMPLES, "logs_own"})
                found.setdefault(case["group"], {})[case["name"]] = normal.outcome(
                    outcome, brief=case.get("brief", False)
                )
    if group == "dry_run":
        found["environments"] = name_environments(found)
    recorded: dict[str, Any] = json.loads(json.dumps(found))
    return recorded


def _outcomes(
    machine: str, here: list[dict[str, Any]], folder: Path, checkout: Path
) -> list[dict[str, Any]]:
    environment = build(machine, folder)
    links = {"data": str(DATA), **({"samples": str(SAMPLES)} if SAMPLES.is_dir() else {})}
    done = subprocess.run(
        [sys.executable, str(checkout / "tools" / "golden_worker.py")],
        input=json.dumps({"folder": str(folder), "cases": here, "links": links}),
        env=environment,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
        encoding="utf-8",
    )
    outcomes: list[dict[str, Any]] = json.loads(done.stdout)
    return outcomes


def read(group: str) -> dict[str, Any]:
    """Return the recording; empty if there is none."""
    path = GOLDEN / f"{group}.json"
    return expanded(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def differences_since(group: str, commit: str) -> list[str]:
    """Return how what a group's cases do here differs from what they do at a commit, in full."""
    git = ("git", "-C", str(REPOSITORY), "worktree")
    with tempfile.TemporaryDirectory(prefix="golden-") as name:
        checkout = Path(name).resolve() / "checkout"
        subprocess.run([*git, "add", "--quiet", "--detach", str(checkout), commit], check=True)
        try:
            before = _in_full(group, checkout=checkout)
        finally:
            subprocess.run([*git, "remove", "--force", str(checkout)], check=True)
    return differences(before, _in_full(group))


def main() -> int:
    """Record or compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "group", nargs="*", choices=[[], *GROUPS], help=f"of {', '.join(GROUPS)} (default: all)"
    )
    parser.add_argument("--check", action="store_true", help="compare and write nothing")
    parser.add_argument(
        "--all",
        action="store_true",
        help="show every difference in full instead of the first 20 of a file",
    )
    parser.add_argument(
        "--since", metavar="COMMIT", help="compare with what the code of COMMIT does; write nothing"
    )
    options = parser.parse_args()
    wrong = False
    for group in options.group or GROUPS:
        if group in OF_SAMPLES and not SAMPLES.is_dir():
            print(f"{group}: skipped, there are no samples beside this clone")
            continue
        if options.since:
            different = differences_since(group, options.since)
        else:
            now = record(group)
            different = differences(read(group), now)
        wrong = wrong or bool(different)
        print(
            f"{group}: {f'{len(different)} kinds of differences' if different else 'as recorded'}"
        )
        for each in different if options.all else different[:20]:
            text = each if options.all else "\n".join(line[:300] for line in each.splitlines())
            print(f"  {text}".replace("\n", "\n  "))
        if not options.check and not options.since:
            GOLDEN.mkdir(exist_ok=True)
            (GOLDEN / f"{group}.json").write_text(
                to_text(compressed(now)) + "\n", encoding="utf-8", newline="\n"
            )
    return int((options.check or options.since is not None) and wrong)


if __name__ == "__main__":
    sys.exit(main())
