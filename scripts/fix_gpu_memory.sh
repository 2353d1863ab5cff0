#!/usr/bin/env bash
# Shows who holds GPU memory; with --kill, and after a question, ends your own processes there. --help says more.
set -euo pipefail

here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
# shellcheck source=scripts/lib.sh
source "$here/lib.sh"

export TPRIMAT_SCRIPT=${0##*/}
become gpu-memory "$@"
