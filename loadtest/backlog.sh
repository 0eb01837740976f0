#!/usr/bin/env bash
# Measures how fast sakia stores a backlog: broker, mongod and sakia on one machine. Prints the machine, each command and
# what it said; the last runs are kept in runs/.
#
#   deploy/local/with-services.sh loadtest/backlog.sh [READINGS] [DEVICES]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readings=${1:-3000000} devices=${2:-3000}
: "${SAKIA_KAFKA:?run it by way of deploy/local/with-services.sh}" "${SAKIA_MONGO:?}"
cargo build --release --workspace
bin=${CARGO_TARGET_DIR:-target}/release
name=backlog$$
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# What is kept of a run names no folder of the machine it ran on.
exec > >(sed -u "s#$dir#DIR#g") 2>&1

cat >"$dir/sakia.toml" <<END
[kafka]
group = "$name"

[mongo]
database = "$name"

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
cpu_seconds() { awk -v hz="$(getconf CLK_TCK)" '{ printf "%.1f", ($14 + $15) / hz }' "/proc/$1/stat"; }

echo "commit $(git rev-parse --short HEAD), $(nproc) cores, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(uname -sr)"
run "$bin/loadtest" produce --topic "$name" --total "$readings" --devices "$devices" --manifest-dir "$dir" --json
run "$bin/sakia" --config "$dir/sakia.toml" init
mongod_before=$([ -z "${SAKIA_MONGOD_PID:-}" ] || cpu_seconds "$SAKIA_MONGOD_PID")
begin=$(date +%s.%N)
run "$bin/sakia" --config "$dir/sakia.toml" run --until-caught-up &
pid=$! peak=0
# The kernel forgets the peak of a process that has ended.
while kill -0 "$pid" 2>/dev/null; do
  now=$(cat /proc/"$pid"/task/"$pid"/children 2>/dev/null || true)
  now=$(sed -n 's/^VmHWM:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/${now%% *}/status" 2>/dev/null || true)
  peak=${now:-$peak}
  sleep 0.1
done
wait "$pid"
end=$(date +%s.%N)
echo "sakia: resident memory at most $((peak / 1024)) MiB"
awk -v n="$readings" -v a="$begin" -v b="$end" 'BEGIN { printf "%d readings in %.2f s, start and end included: %d readings/s\n", n, b - a, n / (b - a) }'
[ -z "$mongod_before" ] || echo "mongod: $(awk -v a="$mongod_before" -v b="$(cpu_seconds "$SAKIA_MONGOD_PID")" 'BEGIN { print b - a }') CPU seconds"
run "$bin/loadtest" verify --topic "$name" --database "$name" --manifest-dir "$dir"
