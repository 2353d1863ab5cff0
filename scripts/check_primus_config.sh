#!/usr/bin/env bash
# Shows what a configuration of Primus really trains, and with --against RESULT how that differs from the
# other side. --help says more.
set -euo pipefail

here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
# shellcheck source=scripts/lib.sh
source "$here/lib.sh"

export TPRIMAT_SCRIPT=${0##*/}
become primus-config "$@"
