#!/usr/bin/env bash
# Two questions about an AMD machine, answered apart: how fast is it as AMD configured it, and how fast is it
# in the very configuration of the other machine's result?
set -euo pipefail

here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
# shellcheck source=scripts/lib.sh
source "$here/lib.sh"

usage() {
    cat <<'END'
usage: run_amd_dual_comparison.sh [RESULT] [-- words for Primus]

Trains with Primus in the configuration that it has for this GPU (maximum performance) and, with
FAIR_CONFIG=1, once more in the configuration of RESULT, a result of the other platform; then compares
all of them. The results are labelled max-performance and identical-config.

  RESULT        default: OUTPUT_DIR/benchmark_cuda_MODEL.json
  FAIR_CONFIG   1: the second run too
  MODEL         llama (default) or qwen
  OUTPUT_DIR    folder for results (default: output)
  PRIMUS_PATH, PRIMUS_CONFIG, TRAIN_ITERS, RUNS, HF_TOKEN, … as for run_primus_llama.sh

Exit status: that of the training which failed; otherwise that of the comparison.
END
}

result=
while (($#)); do
    case $1 in
        -h | --help)
            usage
            exit 0
            ;;
        --)
            shift
            break
            ;;
        -*)
            printf 'error: no option %s\nhint:  options for Primus go after --\nsee:   docs/troubleshooting.md#wrong-usage\n' \
                "$1" >&2
            exit 2
            ;;
        *)
            if [[ -n $result ]]; then
                printf 'error: two results, %s and %s\nhint:  name one\nsee:   docs/troubleshooting.md#wrong-usage\n' \
                    "$result" "$1" >&2
                exit 2
            fi
            result=$1
            shift
            ;;
    esac
done

model=${MODEL:-llama}
output=${OUTPUT_DIR:-output}
fair=${FAIR_CONFIG:-0}
export TPRIMAT_SCRIPT=${0##*/}

if [[ -z $result && -f $output/benchmark_cuda_$model.json ]]; then
    result=$output/benchmark_cuda_$model.json
fi
if [[ $fair == 1 && ! -f $result ]]; then
    if [[ -z $result ]]; then result=$output/benchmark_cuda_$model.json; fi
    printf 'error: FAIR_CONFIG=1 needs a result of the other platform: %s: no such file\nhint:  %s\nsee:   %s\n' \
        "$result" "name the result as the first argument" "docs/troubleshooting.md#cant-match" >&2
    exit 2
fi

run() {
    local label=$1
    shift
    tprimat run-primus --model "$model" --output-dir "$output" --label "$label" "$@"
}

# Trains, and adds the paths of its results to `compared`: what differs is a part of their names. Through a file, since a
# signal must reach the training from this shell.
paths=$(mktemp)
trap 'rm -f "$paths"' EXIT
train() {
    run "$@" --quiet -- ${words[@]+"${words[@]}"} >"$paths" || return
    mapfile -t -O "${#compared[@]}" compared <"$paths"
    cat "$paths"
}

# What would stop a run is found before the first one takes its time.
run max-performance --dry-run -- "$@" >/dev/null ||
    stop $? "the maximum-performance run can't be made; nothing was trained"
if [[ $fair == 1 ]]; then
    run identical-config --match "$result" --dry-run -- "$@" >/dev/null ||
        stop $? "the identical-configuration run can't be made; nothing was trained"
fi

printf 'Maximum performance: as Primus is configured for this GPU (its log grows in %s)\n' "$output"
compared=()
words=("$@")
train max-performance || stop $? "the maximum-performance run failed"

if [[ $fair == 1 ]]; then
    printf '\nIdentical configuration: as in %s\n' "$result"
    train identical-config --match "$result" || stop $? "the identical-configuration run failed"
else
    printf '\nFor the run in the configuration of the other side too: FAIR_CONFIG=1 %s [RESULT]\n' "$0"
fi

if [[ -z $result ]]; then
    printf 'No result of the other platform is here: nothing is compared.\n'
    exit 0
fi
printf '\n'
tprimat compare --results-dir "$output" "$result" "${compared[@]}"
