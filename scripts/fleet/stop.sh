#!/usr/bin/env bash
# Ends what start.sh started: scripts/fleet/stop.sh [--run FOLDER]. The router goes first, so that replicas drain without
# new requests.
set -euo pipefail
run=/tmp/mortise-fleet
[ "${1:-}" = --run ] && run=$2
shopt -s nullglob
for file in "$run"/router.pid "$run"/replica*.pid; do
  [ -e "$file" ] || continue
  pid=$(cat "$file")
  kill "$pid" 2>/dev/null || true
  for _ in $(seq 400); do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  rm -f "$file"
done
rm -f "$run"/nginx.pid
