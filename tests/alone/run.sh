#!/bin/bash
# Builds the static program with the profile of the tests, and runs it in an empty root: no shared library, no file.
#
#   tests/alone/run.sh [--path]           --path only prints the path of the program
set -euo pipefail
cd "$(dirname "$0")/../.."
program=${CARGO_TARGET_DIR:-$PWD/target}/$(rustc -vV | sed -n 's/^host: //p')/ci/sluice
[ "${1:-}" != --path ] || { echo "$program"; exit; }
make --no-print-directory static PROFILE=ci

dir=$(mktemp -d)
broker=
stop() {
    [ -z "$broker" ] || { kill -9 "$broker" && wait "$broker"; } 2>/dev/null || true
    rm -rf "$dir"
}
trap stop EXIT
mkdir "$dir/root"
cp "$program" "$dir/root/"
# A user who is not root becomes root in a user namespace.
chroot=(chroot)
[ "$(id -u)" = 0 ] || chroot=(unshare --map-root-user chroot)
alone() { "${chroot[@]}" "$dir/root" /sluice "$@"; }

passed=0 failed=0
check() {
    local what=$1; shift
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED: $what"; fi
}
needs_no_library() { ! readelf --program-headers "$dir/root/sluice" | grep -q INTERP; }
starts() {
    for _ in $(seq 300); do
        grep -q 'Server startup complete' "$dir/out" && return
        kill -0 "$broker" 2>/dev/null || break
        sleep 0.1
    done
    tail -n 20 "$dir/log"
    return 1
}
brings_a_message() {
    alone declare queue hello && alone send hello 'Hello, world' && alone recv hello --count 1 | grep -q 'Hello, world'
}

check "it needs no shared library" needs_no_library
touch "$dir/out"
"${chroot[@]}" "$dir/root" /sluice serve --data-dir /data --set listeners.tcp.default=127.0.0.1:0 \
    --set management.tcp.ip=127.0.0.1 --set management.tcp.port=0 --set prometheus.tcp.port=none \
    >"$dir/out" 2>"$dir/log" </dev/null &
broker=$!
check "the broker starts" starts
SLUICE_URL=amqp://guest:guest@$(grep -o 'amqp://[^ ]*' "$dir/out" | sed 's|.*@||')
SLUICE_HTTP_URL=http://guest:guest@$(grep -o 'http://[^ ]*/api' "$dir/out" | sed 's|http://||; s|/api||')
export SLUICE_URL SLUICE_HTTP_URL
check "it takes and gives a message" brings_a_message
echo "alone: $passed passed, $failed failed"
[ "$failed" = 0 ]
