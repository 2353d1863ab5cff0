#!/usr/bin/env python3
"""Writes a software bill of materials (CycloneDX, JSON): what is needed at run time, with versions
and licences.

    tools/sbom.py build/sbom.cdx.json

cyclonedx-py (the dependency group `sbom`) describes the packages of this environment. Kept are
those that requirements.txt leads to; the chart libraries that the package includes are added. The
file is validated against CycloneDX' schema. Ends with status 1 where a component has no licence, or
the file isn't valid.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tprimat import __version__
from tprimat.publish import site
from tprimat.report import page

SPECIFICATION = "1.6"
NAME = "tensorprimat"
LICENCES = {"pysocks": "BSD-3-Clause", "transformers": "Apache-2.0"}
"""Of packages whose metadata names none that cyclonedx-py knows."""


def normal(name: str) -> str:
    """Return a package's name as indexes spell it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def listed(name: str) -> Iterator[Requirement]:
    """Yield the requirements in a file of the repository, and in those that it includes."""
    for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("-r "):
            yield from listed(line[3:].strip())
        elif line.strip() and not line.startswith("#"):
            yield Requirement(line)


def needed(wanted: Iterable[Requirement]) -> dict[str, set[str]]:
    """Return each installed package that requirements lead to, with those that it needs itself."""
    found: dict[str, set[str]] = {}
    left = list(wanted)
    while left:
        requirement = left.pop()
        name = normal(requirement.name)
        if name in found or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        try:
            own = [Requirement(each) for each in metadata.requires(name) or ()]
        except metadata.PackageNotFoundError:
            continue  # of another system, or not wanted here
        own = [each for each in own if each.marker is None or each.marker.evaluate({"extra": ""})]
        found[name] = {normal(each.name) for each in own}
        left += own
    return found


def chart_libraries() -> list[dict[str, Any]]:
    """Return the components of plotly.js and uPlot, which the HTML report and the site include."""
    found = []
    for name, pattern, script in (
        ("plotly.js-basic-dist-min", rb"plotly\.js \(basic - minified\) v([\d.]+)", page.PLOTLY),
        ("uplot", rb"uPlot \(v([\d.]+)\)", site.CHART_LIBRARY.read_bytes()),
    ):
        version = re.search(pattern, script)
        assert version, f"{name} no longer states its version"
        ref = f"{name}@{version[1].decode()}"
        component = {
            "type": "library",
            "bom-ref": ref,
            "name": name,
            "version": version[1].decode(),
        }
        found.append(
            {**component, "purl": f"pkg:npm/{ref}", "licenses": [{"license": {"id": "MIT"}}]}
        )
    return found


def completed(
    bom: dict[str, Any], packages: dict[str, set[str]], direct: Iterable[str]
) -> dict[str, Any]:
    """Return a bill of an environment reduced to some packages, with the product itself and what it
    includes.

    Args:
        bom: what cyclonedx-py wrote.
        packages: what to keep, each with what it needs.
        direct: names of those that the product itself needs.
    """
    components = {
        normal(each["name"]): each for each in bom["components"] if normal(each["name"]) in packages
    }
    for name, licence in LICENCES.items():
        if name in components:
            components[name].setdefault("licenses", [{"license": {"id": licence}}])
    included = chart_libraries()
    ref = {name: each["bom-ref"] for name, each in components.items()}

    def needs(whose: str, names: Iterable[str], *more: str) -> dict[str, Any]:
        return {
            "ref": whose,
            "dependsOn": sorted({*(ref[name] for name in names if name in ref), *more}),
        }

    root = {"type": "application", "bom-ref": NAME, "name": NAME, "version": __version__}
    root["licenses"] = [{"license": {"id": "Apache-2.0"}}]
    return {
        **bom,
        "metadata": {**bom["metadata"], "component": root},
        "components": [*components.values(), *included],
        "dependencies": [
            needs(NAME, direct, *(each["bom-ref"] for each in included)),
            *(needs(ref[name], packages[name]) for name in components),
            *({"ref": each["bom-ref"]} for each in included),
        ],
    }


def main() -> int:
    """Write the bill; return 1 if something in it is missing or wrong."""
    path = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "sbom.cdx.json")
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    command = [
        sys.executable,
        "-m",
        "cyclonedx_py",
        "environment",
        "--sv",
        SPECIFICATION,
        "--output-reproducible",
    ]
    done = subprocess.run([*command, "--of", "JSON", "-o", "-"], capture_output=True, check=True)
    direct = list(listed("requirements.txt"))
    bom = completed(json.loads(done.stdout), needed(direct), [normal(each.name) for each in direct])
    text = json.dumps(bom, indent=2) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    unlicensed = [each["name"] for each in bom["components"] if not each.get("licenses")]
    if problem is not None:
        print(f"error: {path} is not valid CycloneDX: {problem}", file=sys.stderr)
    if unlicensed:
        print(
            f"error: no licence is known of {', '.join(unlicensed)}: add it to LICENCES",
            file=sys.stderr,
        )
    print(f"{path}: {len(bom['components'])} components")
    return 1 if problem is not None or unlicensed else 0


if __name__ == "__main__":
    sys.exit(main())
