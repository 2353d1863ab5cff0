#!/usr/bin/env bash
# Trains Llama, Qwen and Mistral with AMD's Primus, one after the other, and makes results of them. --help
# says more; what stands after -- goes to Primus. Ends with the status of the training that failed.
set -euo pipefail

here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
# shellcheck source=scripts/lib.sh
source "$here/scripts/lib.sh"

export TPRIMAT_SCRIPT=${0##*/}
become run-primus --model all "$@"
