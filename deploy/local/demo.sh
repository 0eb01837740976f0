#!/usr/bin/env bash
# The whole way on real services: a backlog, live traffic, a proof that nothing is lost or doubled, and how to look at it.
# Safe to run again: it adds to what an earlier run has stored, and the proof covers all of it.
set -euo pipefail
# shellcheck source=deploy/local/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

topic=sakia-demo database=sakia_demo
backlog=1000000 devices=3000 device=dev-000123
live_seconds=20 live_rate=6000
sakia_pid=

step() { printf '\n== %s/8  %s\n' "$1" "$2"; }
services() { "$here/services.sh" "$@"; }
sakia() { "$bin/sakia" --config "$here/demo.toml" "$@"; }
produce() { "$bin/loadtest" produce --topic $topic --devices $devices --manifest-dir "$local_dir/manifests" "$@"; }

# The live part runs in the background: it must not outlive the demo, and is to end in order.
stop_sakia() {
  local pid=$sakia_pid
  [ -n "$pid" ] || return 0
  sakia_pid=
  kill -TERM "$pid" 2>/dev/null || true
  wait "$pid" || { say "sakia ended with status $?; its log: $logs/demo-sakia.log"; return 1; }
}
trap stop_sakia EXIT
trap 'exit 130' INT TERM HUP

# seconds COMMAND...: runs it, prints how long it took on descriptor 3.
seconds() {
  local TIMEFORMAT=%R
  { time "$@" 1>&4 2>&5; } 4>&1 5>&2 2>&3
}

# http PATH: what sakia answers there.
http() {
  exec 7<>"/dev/tcp/127.0.0.1/$http_port" || return 1
  printf 'GET %s HTTP/1.0\r\n\r\n' "$1" >&7
  cat <&7
  exec 7>&-
}
is_ready() { http /ready 2>/dev/null | head -n 1 | grep -q ' 200 '; }
has_no_lag() { http /metrics 2>/dev/null | awk '/^sakia_partition_lag_records/ { n++; sum += $NF } END { exit !(n && sum == 0) }'; }

# until_true SECONDS WHAT COMMAND...
until_true() {
  local limit=$((SECONDS + $1)) what=$2
  shift 2
  until "$@"; do
    kill -0 "$sakia_pid" 2>/dev/null || die "sakia ended by itself; its log: $logs/demo-sakia.log"
    [ "$SECONDS" -lt "$limit" ] || die "$what did not happen in time; sakia's log: $logs/demo-sakia.log"
    sleep 0.5
  done
}

# ask JSON: runs one command on the demo's database. A server with passwords or TLS is not for the little client: see step 8.
ask() { services mongo-command $database "$1"; }
count() { ask '{"count": "readings"}' 2>/dev/null | sed -n 's/.*"n": *\([0-9]*\).*/\1/p'; }
# The documents of an answer, one field a line.
pretty() {
  if ! command -v python3 >/dev/null; then
    cat
    return
  fi
  python3 -c '
import json, sys
for document in json.load(sys.stdin)["cursor"]["firstBatch"]:
    print("{\n" + ",\n".join(f"  {name}: {json.dumps(value)}" for name, value in document.items()) + "\n}")'
}
# day SECONDS: the UTC day of a time, for GNU and BSD.
day() { date -u -d "@$1" +%F 2>/dev/null || date -u -r "$1" +%F; }
moment() { date -u -d "@$1" +%FT%TZ 2>/dev/null || date -u -r "$1" +%FT%TZ; }

live() {
  http_port=$(free_port)
  # Not by the function: its pid would be that of a shell in between.
  "$bin/sakia" --config "$here/demo.toml" run --set "telemetry.listen=127.0.0.1:$http_port" --set telemetry.log_level=info \
    2>"$logs/demo-sakia.log" &
  sakia_pid=$!
  until_true 60 "readiness" is_ready
  produce --seconds $live_seconds --rate $live_rate --span ${live_seconds}s
  until_true 60 "catching up" has_no_lag
  http /metrics | awk '
    /^sakia_statements_total/ { kind = $1; gsub(/.*kind="|".*/, "", kind); printf "   %-8s statements: %d\n", kind, $NF }
    /^sakia_statement_samples_sum/ { sum = $NF }
    /^sakia_statement_samples_count/ { n = $NF }
    END { if (n) printf "   samples per statement: %.1f\n", sum / n }'
  stop_sakia
}

show() {
  local now from windows query i w
  now=$(date +%s) from=$((now - 2 * 86400)) windows=
  for i in 2 1 0; do
    w="{\"\$date\": \"$(day $((now - i * 86400)))T00:00:00Z\"}"
    windows="$windows${windows:+, }{\"_id\": {\"\$gte\": {\"w\": $w, \"d\": \"$device\"}, \"\$lt\": {\"w\": $w, \"d\": \"$device\", \"s\": {\"\$maxKey\": 1}}}}"
  done
  echo "One bucket of $device, shortened to two samples:"
  ask "{\"aggregate\": \"readings\", \"cursor\": {}, \"pipeline\": [{\"\$match\": {\"\$or\": [$windows]}}, {\"\$limit\": 1},
    {\"\$set\": {\"samples\": {\"\$slice\": [\"\$samples\", 2]}}}]}" | pretty
  echo "The last two days of $device (docs/reading.md has this query for mongosh, Python and Node):"
  query="[{\"\$match\": {\"\$or\": [$windows]}}, {\"\$unwind\": \"\$samples\"},
  {\"\$match\": {\"samples.time\": {\"\$gte\": {\"\$date\": \"$(moment "$from")\"}, \"\$lt\": {\"\$date\": \"$(moment "$now")\"}}}},
  {\"\$sort\": {\"samples.time\": 1}}, {\"\$group\": {\"_id\": \"$device\", \"samples\": {\"\$sum\": 1},
   \"mean_temp\": {\"\$avg\": \"\$samples.info.temp\"}, \"oldest\": {\"\$first\": \"\$samples\"}, \"newest\": {\"\$last\": \"\$samples\"}}}]"
  printf '%s\n' "$query"
  ask "{\"aggregate\": \"readings\", \"cursor\": {}, \"pipeline\": $query}" | pretty
}

# What people type themselves, with its answer.
shown() {
  printf '$ sakia %s\n' "$*"
  sakia "$@"
}

step 1 "Kafka and MongoDB (half a minute; the first time they are downloaded)"
services up
eval "$(services env)"

step 2 "build (some minutes the first time)"
cargo build --release --package sakia --package loadtest --manifest-path "$repo/Cargo.toml"
bin=${CARGO_TARGET_DIR:-$repo/target}/release

step 3 "create the collections (a second)"
before=$(count || true)
if [ "${before:-0}" -gt 0 ]; then
  echo "An earlier run has left $before buckets. They stay: this run adds to them, and step 7 checks all of them."
fi
sakia init

step 4 "$backlog readings of $devices devices into Kafka (a few seconds)"
produce --total $backlog

step 5 "sakia stores them, until it has caught up (a few seconds)"
exec 3>"$local_dir/demo-seconds"
seconds sakia run --until-caught-up
exec 3>&-
awk -v n=$backlog '{ printf "%d readings in %.1f s, start and end included: %d readings/s\n", n, $1, n / $1 }' "$local_dir/demo-seconds"
rm -f "$local_dir/demo-seconds"
now=$(count || true)
[ -z "$now" ] || echo "$((now - ${before:-0})) new buckets, $((backlog / (now - ${before:-0} > 0 ? now - ${before:-0} : 1))) samples in each on average"

step 6 "$live_seconds s of live traffic, $live_rate readings a second: deltas too small for a bucket of their own are appended (half a minute)"
live

step 7 "prove it: read topic and collection again and account for every reading (some seconds)"
"$bin/loadtest" verify --topic $topic --database $database --collection readings --manifest-dir "$local_dir/manifests"

step 8 "look at it: the documents, and what sakia says of them"
show || echo "(not shown: this server wants a client with passwords or TLS)"
shown read --last --device $device
shown ledger --topic $topic
echo
echo "MongoDB:   $(printf %s "$SAKIA_MONGO" | sed 's#//[^@/]*@#//#') database $database, collection readings"
echo "Kafka:     $SAKIA_KAFKA topic $topic"
echo "Run \`make demo\` again to add another $backlog readings."
echo "Stop:      make demo-down"
