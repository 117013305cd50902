#!/bin/sh
# Kills the broker under load and counts what came back: KILL_ROUNDS (13), KILL_MESSAGES (50000), KILL_SEED (the time),
# KILL_KIND (each in turn).
set -eu
cd "$(dirname "$0")/../.."
exec cargo test --profile ci --workspace --test kill -- --nocapture "$@"
