"""What the product is made of: the licenses that SECURITY.md lists, and the bill of materials."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from tool_modules import load_tool

KNOWN = {
    "MIT": r"\bMIT\b",
    "BSD-3-Clause": r"\bBSD\b|BSD-3-Clause",
    "Apache-2.0": r"Apache",
    "PSF-based": r"Python Software Foundation|matplotlib",
}


@pytest.fixture(scope="module")
def sbom():
    return load_tool("sbom")


@pytest.fixture
def rows(repository, sbom):
    """The packages in the table of SECURITY.md, with their licenses."""
    text = (
        (repository / "SECURITY.md")
        .read_text(encoding="utf-8")
        .partition("| package | for | license |")[2]
    )
    found = {}
    for line in text.partition("\n\n")[0].splitlines()[2:]:
        names, _, license = (cell.strip() for cell in line.strip("|").split("|"))
        for name in names.split(","):
            found[sbom.normal(re.sub(r"\(.*\)", "", name).strip())] = license
    return found


def stated(name: str) -> str:
    about = metadata.metadata(name)
    classifiers = [each for each in about.get_all("Classifier") or () if each.startswith("License")]
    return "\n".join(
        [about.get("License-Expression") or "", (about.get("License") or "")[:2000], *classifiers]
    )


def test_every_package_that_is_asked_for_is_listed_with_its_license(repository, sbom, rows):
    text = (
        (repository / "pyproject.toml")
        .read_text(encoding="utf-8")
        .partition("[project.optional-dependencies]")[2]
    )
    extras = [Requirement(each) for each in re.findall(r'"([^"]+)"', text.partition("\n[")[0])]
    wanted = {sbom.normal(each.name) for each in [*sbom.listed("requirements.txt"), *extras]}
    assert set(rows) == {*wanted, *(sbom.normal(each["name"]) for each in sbom.chart_libraries())}
    for name, license in rows.items():
        if name in wanted and importlib.util.find_spec(name.replace("-", "_")) is not None:
            assert re.search(KNOWN[license], stated(name)), name


def test_the_included_libraries_have_their_licenses_beside_them(repository, rows, sbom):
    for component in sbom.chart_libraries():
        (license,) = (each["license"]["id"] for each in component["licenses"])
        assert rows[sbom.normal(component["name"])] == license == "MIT"
    project = (repository / "pyproject.toml").read_text(encoding="utf-8")
    for name in (
        "tprimat/report/page/plotly-basic.LICENSE",
        "tprimat/publish/vendor/uPlot.LICENSE",
    ):
        assert "MIT License" in (repository / name).read_text(encoding="utf-8").splitlines()[0]
        assert name in project


def test_the_bill_has_what_is_needed_and_nothing_else(sbom):
    direct = list(sbom.listed("requirements-analysis.txt"))
    packages = sbom.needed(direct)
    assert {"numpy", "jinja2", "markupsafe"} <= set(packages)
    assert "pytest" not in packages
    parts = [
        {"bom-ref": f"{name}==1", "name": name, "licenses": []} for name in (*packages, "pytest")
    ]
    made = sbom.completed(
        {"components": parts, "metadata": {}, "bomFormat": "CycloneDX"},
        packages,
        [sbom.normal(each.name) for each in direct],
    )
    refs = {each["bom-ref"] for each in made["components"]}
    assert "pytest==1" not in refs
    root = next(
        each
        for each in made["dependencies"]
        if each["ref"] == made["metadata"]["component"]["bom-ref"]
    )
    assert {"numpy==1", "jinja2==1"} < set(root["dependsOn"])
    assert {ref for each in made["dependencies"] for ref in each.get("dependsOn", ())} <= refs
    assert {"plotly.js-basic-dist-min@4.1.1", "uplot@1.6.32"} < set(root["dependsOn"])


@pytest.mark.skipif(
    importlib.util.find_spec("cyclonedx_py") is None, reason="cyclonedx-bom is not installed"
)
def test_the_bill_of_this_environment_is_valid(repository, tmp_path):
    command = [sys.executable, str(repository / "tools" / "sbom.py"), str(tmp_path / "sbom.json")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "sbom.json").read_text())["specVersion"] == "1.6"
