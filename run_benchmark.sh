#!/usr/bin/env bash
# Older documents have scripts/run_benchmark.sh here.
set -euo pipefail

script=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/scripts/run_benchmark.sh
printf 'note: this is scripts/run_benchmark.sh\n' >&2
exec "$script" "$@"
