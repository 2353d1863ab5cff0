"""What pyproject.toml can't say: the tables of published/ are installed as tprimat/published."""

from setuptools import find_namespace_packages, setup

TABLES = [
    "tprimat.published",
    *(f"tprimat.published.{name}" for name in find_namespace_packages("published")),
]

setup(packages=[*find_namespace_packages(include=["tprimat*"]), *TABLES])
