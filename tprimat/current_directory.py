"""The current directory may be that of somebody's logs: nothing in it is imported or executed.

Imports nothing but what Python has imported before it starts a program: `-m` would find the rest in
that directory.
"""

import os
import sys


def forget() -> None:
    """Take the current directory out of the places where modules and programs are looked for.

    `-m` puts it into sys.path, and an empty entry or a dot in PATH or PYTHONPATH names it. It stays
    where the program that was started lies in it, as in a clone, and where PYTHONPATH spells it
    out.
    """
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    try:
        here = os.getcwd()  # noqa: PTH109 - pathlib isn't imported yet
        started = os.path.dirname(os.path.abspath(sys.argv[0]))  # noqa: PTH100, PTH120
    except OSError:
        here = started = ""  # it was removed
    if here in (os.path.dirname(os.path.dirname(__file__)), started, *named):  # noqa: PTH120
        here = ""
    # Before the standard library stand the directory of the program or of `-m`, and the entries of
    # PYTHONPATH.
    first = 1 + len(named)
    sys.path[:first] = [each for each in sys.path[:first] if each not in ("", here)]
    for name in {"PATH", "PYTHONPATH"} & os.environ.keys():
        entries = os.environ[name].split(os.pathsep)
        os.environ[name] = os.pathsep.join(
            entry for entry in entries if entry not in ("", os.curdir)
        )
    if os.name == "nt":
        # Windows looks for programs in the current directory first, unless this is set.
        os.environ["NoDefaultCurrentDirectoryInExePath"] = "1"  # noqa: SIM112
