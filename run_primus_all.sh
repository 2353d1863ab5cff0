#!/usr/bin/env bash
# Trains Llama and Qwen with AMD's Primus, one after the other, and makes results of them. Primus has no
# configuration for Mistral: PRIMUS_CONFIG=FILE adds it with one of your own. --help says more; what
# stands after -- goes to Primus. Ends with the status of the training that failed.
set -euo pipefail

here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
# shellcheck source=scripts/lib.sh
source "$here/scripts/lib.sh"

export TPRIMAT_SCRIPT=${0##*/}
become run-primus --model all "$@"
