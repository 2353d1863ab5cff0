#!/usr/bin/env python3
"""Makes an environment in which NeMo's recipes are built and, in tests, trained on a processor.

    make_nemo_env.py --venv .venv-nemo

The versions are those of requirements-nemo.txt, which work together; 2.5 GB and some minutes.
TORCH_INDEX_URL names the package index that PyTorch is taken from. NVIDIA's container needs none
of this: there the container's own Python trains.

Standard library only.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import interpreters
import make_venv

REQUIREMENTS = ["requirements-nemo.txt"]
PYTHONS = ("3.11", "3.12", "3.10")
"""Those that NumPy 1.26 has builds for, the one that NeMo was tried on first."""

PROBE = (
    "from nemo.collections import llm; assert hasattr(llm, 'llama31_8b'), 'NeMo has dropped its"
    " recipes'"
)


class NemoEnvironment(make_venv.Environment):
    """The environment on its way."""

    def make(self) -> None:
        """Create what is missing and install; a second call installs nothing."""
        index = os.environ.get("TORCH_INDEX_URL", "").strip()
        if not index and make_venv.fitting_torch()[0] != make_venv.pinned("torch"):
            raise make_venv.SetupError(
                f"NeMo's versions need {make_venv.pinned('torch')}, which this GPU's driver is too"
                f" old for: update it to {make_venv.CUDA_13_DRIVER}, or set"
                f" TORCH_INDEX_URL={make_venv.CPU_INDEX}"
            )
        self._create(over_outer=False)
        self._pip("install", "--upgrade", "pip")
        # First: a requirement file can't say which index one package comes from.
        self._install_torch()
        self._install()
        make_venv.show("looking whether NeMo's recipes are there")
        if make_venv._output([str(self.python), "-c", PROBE + "; print('yes')"]) != "yes":
            raise make_venv.SetupError(
                f'NeMo was installed and its recipes can\'t be imported: {self.python} -c "{PROBE}"'
                " says why"
            )


def main(argv: list[str] | None = None) -> int:
    """Make the environment; return 0, or 2 after one sentence about what stops it."""
    parser = argparse.ArgumentParser(description="Makes an environment with NeMo's recipes.")
    parser.add_argument(
        "--venv", type=Path, default=Path(".venv-nemo"), help="its directory (default: .venv-nemo)"
    )
    folder = parser.parse_args(argv).venv.absolute()
    if "%d.%d" % sys.version_info[:2] not in PYTHONS:
        found = interpreters.find(PYTHONS)
        if not found:
            print(
                "error: NeMo's versions take Python 3.10, 3.11 or 3.12: put one on the PATH "
                "(docs/troubleshooting.md#setting-up)",
                file=sys.stderr,
            )
            return 2
        import subprocess

        python = next(found[version] for version in PYTHONS if version in found)
        return subprocess.run([python, __file__, "--venv", str(folder)]).returncode
    try:
        make_venv.check_python()
        NemoEnvironment(folder, REQUIREMENTS, ["test"]).make()
    except make_venv.SetupError as error:
        print("error: %s (docs/troubleshooting.md#setting-up)" % error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
