#!/bin/bash
# Runs a program in an empty root: no shared library, no file.
#
#   tests/alone/run.sh                      builds the static program with the profile of the tests, and runs it
#   tests/alone/run.sh --path               only prints the path of this program
#   tests/alone/run.sh PROGRAM [EMULATOR]   runs another one; EMULATOR is a static program that runs those of another processor
set -euo pipefail
from=$PWD
cd "$(dirname "$0")/../.."
program=${CARGO_TARGET_DIR:-$PWD/target}/$(rustc -vV | sed -n 's/^host: //p')/ci/sluice emulator=
case ${1:-} in
    '') make --no-print-directory static PROFILE=ci ;;
    --path) echo "$program"; exit ;;
    *) program=$(cd "$from" && realpath "$1") emulator=${2:-} ;;
esac

dir=$(mktemp -d)
broker=
stop() {
    [ -z "$broker" ] || { kill -9 "$broker" && wait "$broker"; } 2>/dev/null || true
    rm -rf "$dir"
}
trap stop EXIT
mkdir "$dir/root"
cp "$program" "$dir/root/sluice"
[ -z "$emulator" ] || cp "$emulator" "$dir/root/emulator"
# A user who is not root becomes root in a user namespace.
chroot=(chroot)
[ "$(id -u)" = 0 ] || chroot=(unshare --map-root-user chroot)
run=("${chroot[@]}" "$dir/root" ${emulator:+/emulator} /sluice)
alone() { "${run[@]}" "$@"; }

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
"${run[@]}" serve --data-dir /data --set listeners.tcp.default=127.0.0.1:0 \
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
