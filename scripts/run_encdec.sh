#!/usr/bin/env bash
# The encoder-decoder benchmark on all GPUs: ./run_encdec.sh [--single] [--full] [--disk] [OPTION ...]
#
#   --single    one GPU only
#   --full      some 30 GB of data
#   --disk      data on disk, in ./data/, read during the training
#
# All options are those of `benchmark.py --model encdec`; --help says them.
set -euo pipefail

here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
# shellcheck source=scripts/lib.sh
source "$here/lib.sh"

export TPRIMAT_SCRIPT=${TPRIMAT_SCRIPT:-${0##*/}}
become benchmark --model encdec "$@"
