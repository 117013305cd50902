#!/bin/sh
# Kills the broker under load and checks what was kept. Variables: KILL_ROUNDS (default 16), KILL_MESSAGES (50000),
# KILL_SEED (the time), KILL_KIND (each kind in turn).
set -eu
cd "$(dirname "$0")/../.."
exec cargo test --profile ci --workspace --test program a_killed_broker -- --nocapture "$@"
