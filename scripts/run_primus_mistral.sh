#!/usr/bin/env bash
# Trains Mistral 7B with AMD's Primus and makes a result of it. --help says more; what stands after -- goes
# to Primus. Ends with the training's own status.
set -euo pipefail

here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
# shellcheck source=scripts/lib.sh
source "$here/lib.sh"

export TPRIMAT_SCRIPT=${0##*/}
become run-primus --model mistral "$@"
