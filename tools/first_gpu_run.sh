#!/usr/bin/env bash
# Runs the checks that are worth a GPU's first minutes: offline, in two halves of less than ten minutes, a file each.
# --help says more.
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.." && pwd)

# The Python to use: PYTHON; else the clone's own environment where its torch drives a GPU; else
# python3, which in a GPU container has the container's torch.
python=${PYTHON:-python3}
own=$root/.venv/bin/python
if [[ -z ${PYTHON:-} && -x $own ]] && {
    ! command -v python3 >/dev/null ||
        # `-c` imports from the current directory.
        (cd -- "$root" && "$own" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())') 2>/dev/null
}; then
    python=$own
fi
if ! "$python" "$root/tprimat/__main__.py" --version >/dev/null 2>&1; then
    printf 'error: %s is not Python 3.10 or newer\nhint: name one with PYTHON=...\n' "$python" >&2
    exit 2
fi
exec "$python" "$root/tools/first_gpu_run.py" "$@"
