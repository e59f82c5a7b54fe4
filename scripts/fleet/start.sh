#!/usr/bin/env bash
# Starts three replicas and a router on this machine, at 127.0.0.1:
#   scripts/fleet/start.sh [--router kv|cache|round|nginx|haproxy|none] [--port N] [--run FOLDER] [pipeline.lua | FOLDER]
# The router listens at port N (8100; a multiple of 10), replicas at N+1 to N+3, their KV events at N+11 to N+13, replay
# at N+21 to N+23.
#   kv       vllm-router reads the replicas' KV events (needs a venv with vllm-router, see docs/fleet.md)
#   cache    vllm-router guesses from what it has sent where; round: it sends to each in turn
#   nginx, haproxy   consistent hashing on the header X-Prefix-Group
# Process ids and logs are in FOLDER (/tmp/mortise-fleet); scripts/fleet/stop.sh ends all of it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
router=kv port=8100 run=/tmp/mortise-fleet script=$here/replica.lua
while [ $# -gt 0 ]; do
  case $1 in
    --router) router=$2; shift 2 ;;
    --port) port=$2; shift 2 ;;
    --run) run=$2; shift 2 ;;
    -*) echo "start.sh: unknown option $1; see the head of this file" >&2; exit 2 ;;
    *) script=$1; shift ;;
  esac
done
mortise=${MORTISE:-$here/../../build/release/mortise}
vllm_router=${VLLM_ROUTER:-vllm-router}
# Without a key the clients of a router that does not say whom it passes on could ask for /admin.
export MORTISE_ADMIN_KEY=${MORTISE_ADMIN_KEY:-$(od -An -N16 -tx1 /dev/urandom | tr -d ' ')}
mkdir -p "$run/tmp"
if compgen -G "$run/*.pid" >/dev/null; then
  echo "start.sh: $run has a fleet already; scripts/fleet/stop.sh --run $run ends it" >&2
  exit 1
fi

give_up() {
  "$here/stop.sh" --run "$run"
  exit 1
}

wait_for() { # url, what, its log and pid file
  for _ in $(seq 600); do
    kill -0 "$(cat "$4")" 2>/dev/null || break # before the url: another program may answer there
    curl -sf -o /dev/null "$1" && return
    sleep 0.1
  done
  echo "start.sh: $2 ended, or did not answer $1 within a minute; $3 ends:" >&2
  tail -5 "$3" >&2
  give_up
}

start_replica() { # number
  "$mortise" serve "$script" --port $((port + $1)) --kv-events "tcp://127.0.0.1:$((port + 10 + $1))" \
    --kv-events-replay "tcp://127.0.0.1:$((port + 20 + $1))" >"$run/replica$1.log" 2>&1 &
  echo $! >"$run/replica$1.pid"
}

urls=() events=() replays=()
for i in 1 2 3; do
  start_replica $i
  url=http://127.0.0.1:$((port + i))
  urls+=("$url")
  events+=(--kv-event-source "$url=tcp://127.0.0.1:$((port + 10 + i))")
  replays+=(--kv-event-replay-source "$url=tcp://127.0.0.1:$((port + 20 + i))")
done
for i in 1 2 3; do wait_for "http://127.0.0.1:$((port + i))/ready" "replica $i" "$run/replica$i.log" "$run/replica$i.pid"; done

# With the ports that were asked for.
configured() { sed -E "s/127\.0\.0\.1:810([0-9])/127.0.0.1:$((port / 10))\1/" "$here/$1" >"$run/$1"; }
start_vllm_router() { # policy and its options
  "$vllm_router" --host 127.0.0.1 --port "$port" --prometheus-port $((port + 30)) --worker-urls "${urls[@]}" \
    --worker-startup-check-interval 1 --health-check-interval-secs 2 --health-failure-threshold 1 \
    --health-check-endpoint /ready --policy "$@" \
    >"$run/router.log" 2>&1 &
  echo $! >"$run/router.pid"
}
case $router in
  kv) start_vllm_router kv_aware "${events[@]}" "${replays[@]}" --kv-event-block-size 16 --kv-event-model demo ;;
  cache) start_vllm_router cache_aware ;;
  round) start_vllm_router round_robin ;;
  nginx)
    configured nginx.conf
    nginx -p "$run" -c "$run/nginx.conf" 2>"$run/router.log"
    cp "$run/nginx.pid" "$run/router.pid"
    ;;
  haproxy)
    configured haproxy.cfg
    haproxy -f "$run/haproxy.cfg" >"$run/router.log" 2>&1 &
    echo $! >"$run/router.pid"
    ;;
  none) ;;
  *)
    echo "start.sh: --router is kv, cache, round, nginx, haproxy or none, not $router" >&2
    give_up
    ;;
esac
[ "$router" = none ] || wait_for "http://127.0.0.1:$port/health" "the router" "$run/router.log" "$run/router.pid"
echo "http://127.0.0.1:$port"
