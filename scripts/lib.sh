# What the scripts share. To be sourced, not run.
# shellcheck shell=bash

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)

# Whether this Python can run our commands. `-c` would import from the current directory.
is_python() {
    "$1" "$root/tprimat/__main__.py" --version >/dev/null 2>&1
}

# The Python to use: PYTHON; else python3, which in a GPU container has the container's torch, and goes on in
# the clone's own environment where it lacks what is needed; else that environment's.
choose_python() {
    if [[ -n ${PYTHON:-} ]]; then
        printf '%s\n' "$PYTHON"
    elif [[ -x $root/.venv/bin/python ]] && ! is_python python3; then
        printf '%s\n' "$root/.venv/bin/python"
    else
        printf 'python3\n'
    fi
}

# Becomes a command of this clone: a signal to the script then reaches the command itself.
become() {
    local python
    python=$(choose_python)
    if ! is_python "$python"; then
        printf 'error: %s is no Python 3.10 or newer: name one with PYTHON=... (docs/troubleshooting.md#setting-up)\n' \
            "$python" >&2
        exit 2
    fi
    exec "$python" "$root/tprimat/__main__.py" "$@"
}

# Runs a command of this clone to its end, and gives its status. What would end the script ends the
# command first, in good order.
tprimat() {
    local child status=0
    become "$@" &
    child=$!
    # shellcheck disable=SC2064 # the child of now is meant
    trap "kill -TERM $child 2>/dev/null" INT TERM HUP
    wait "$child" || status=$?
    while kill -0 "$child" 2>/dev/null; do
        status=0
        wait "$child" || status=$?
    done
    trap - INT TERM HUP
    return "$status"
}

# Says why a step of a script ended it, and ends it with that step's own status.
stop() {
    local status=$1
    shift
    printf '%s: stopped: %s (status %d)\n' "${0##*/}" "$*" "$status" >&2
    exit "$status"
}
