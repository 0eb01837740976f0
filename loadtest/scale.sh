#!/usr/bin/env bash
# Measures what memory sakia needs for a backlog far larger than its budget, of many devices on many partitions: the peak
# of its resident memory against the budget, the readings a second, and whether all are stored once.
#
#   deploy/local/with-services.sh loadtest/scale.sh [READINGS] [DEVICES] [PARTITIONS] [BUDGET_MIB]
#
# BIN_DIR names a folder with both programs to measure these instead of a release build.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readings=${1:-10000000} devices=${2:-200000} partitions=${3:-64} budget_mib=${4:-256}
# Beside its budget: code, stacks, clients, what the allocator has not given back.
margin_mib=96
: "${SAKIA_KAFKA:?run it by way of deploy/local/with-services.sh}" "${SAKIA_MONGO:?}"
if [ -z "${BIN_DIR:-}" ]; then
  cargo build --release --workspace
  BIN_DIR=${CARGO_TARGET_DIR:-target}/release
fi
name=scale$$
dir=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null; rm -rf "$dir"' EXIT
# What is kept of a run names no folder of the machine it ran on.
exec > >(sed -u "s#$dir#DIR#g; s#$BIN_DIR#BIN#g") 2>&1

cat >"$dir/sakia.toml" <<END
[kafka]
group = "$name"

[mongo]
database = "$name"

[flow]
memory_budget = "${budget_mib}MiB"

[telemetry]
listen = "127.0.0.1:0"

[[decoder]]
topics = ["$name"]
device_path = "deviceid"
timestamp_path = "ts"
timestamp_format = "unix_ms"
END

run() {
  echo "+ $*"
  "$@"
}
# A number of KiB that the kernel counts for the process, nothing once it is gone.
counted() { sed -n "s/^$1:[[:space:]]*\([0-9]*\) kB/\1/p" "/proc/$pid/status" 2>/dev/null || true; }
# What sakia itself counts, by place, in MiB.
places() {
  curl -s -m 2 "http://$1/metrics" |
    awk '/^sakia_memory_bytes\{/ { split($1, a, "\""); printf "%s %d, ", a[2], $2 / 1048576 } /^sakia_open_chains/ { n += $2 }
         END { printf "chains %d\n", n }' || true
}

echo "commit $(git rev-parse --short HEAD), $(nproc) cores, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(uname -sr)"
run "$BIN_DIR/loadtest" produce --topic "$name" --partitions "$partitions" --total "$readings" --devices "$devices" \
  --manifest-dir "$dir"
run "$BIN_DIR/sakia" --config "$dir/sakia.toml" init
begin=$(date +%s.%N)
echo "+ $BIN_DIR/sakia --config $dir/sakia.toml run --until-caught-up"
: >"$dir/log"
"$BIN_DIR/sakia" --config "$dir/sakia.toml" run --until-caught-up 2>>"$dir/log" &
pid=$!
peak=0 anon=0 at='' address=''
while kill -0 "$pid" 2>/dev/null; do
  [ -n "$address" ] || address=$(sed -n 's/.*serving .*address=\([0-9.:]*\).*/\1/p' "$dir/log")
  now=$(counted VmHWM)
  if [ "${now:-0}" -gt $((peak + 4096)) ]; then
    peak=$now anon=$(counted RssAnon)
    [ -z "$address" ] || at=$(places "$address")
  fi
  sleep 0.2
done
status=0
wait "$pid" || status=$?
pid=
end=$(date +%s.%N)
tail -n 3 "$dir/log"
[ "$status" = 0 ] || { cat "$dir/log"; exit "$status"; }
awk -v n="$readings" -v a="$begin" -v b="$end" 'BEGIN { printf "%d readings in %.2f s, start and end included: %d readings/s\n", n, b - a, n / (b - a) }'
echo "resident memory at most $((peak / 1024)) MiB (anonymous $((anon / 1024)) MiB), allowed $((budget_mib + margin_mib)) MiB: $((peak / 1024 - budget_mib)) MiB beside the budget of $budget_mib MiB"
echo "counted by sakia near the peak, in MiB: $at"
run "$BIN_DIR/loadtest" verify --topic "$name" --database "$name" --manifest-dir "$dir"
[ "$peak" -le $(((budget_mib + margin_mib) * 1024)) ] || { echo "too much memory"; exit 1; }
