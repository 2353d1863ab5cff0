#!/usr/bin/env bash
# The benchmark of a model, or of the encoder-decoder:
#
#   ./run_benchmark.sh llama [RUNS] [OPTION ...]    benchmark.py --model llama --runs RUNS ...
#   ./run_benchmark.sh [OPTION ...]                 run_encdec.sh ...
#
# A model is what `benchmark.py --model` takes: llama, qwen, mistral, several with commas, or all.
set -euo pipefail

here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
# shellcheck source=scripts/lib.sh
source "$here/lib.sh"

if [[ $# -eq 0 || $1 == -* || $1 == encdec ]]; then
    if [[ ${1-} == encdec ]]; then shift; fi
    export TPRIMAT_SCRIPT=${0##*/}
    exec "$here/run_encdec.sh" "$@"
fi
model=$1
shift
if [[ ${1-} =~ ^[0-9]+$ ]]; then
    runs=$1
    shift
    set -- --runs "$runs" "$@"
fi
become benchmark --model "$model" --training-lines "$@"
