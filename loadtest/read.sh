#!/usr/bin/env bash
# Measures `sakia read` on what sakia has stored: the last two days of one device (4,000 samples), and the newest sample of
# each of 3,000 devices. Each is read three times, so that the last two find the server warm; the figures are read's own.
#
#   deploy/local/with-services.sh loadtest/read.sh [PROFILE]      PROFILE: release (default) or dev
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
profile=${1:-release}
: "${SAKIA_KAFKA:?run it by way of deploy/local/with-services.sh}" "${SAKIA_MONGO:?}"
cargo build --profile "$profile" --workspace
bin=${CARGO_TARGET_DIR:-target}/$([ "$profile" = dev ] && echo debug || echo "$profile")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# What is kept of a run names no folder of the machine it ran on.
exec > >(sed -u "s#$dir#DIR#g") 2>&1

run() {
  echo "+ $*"
  "$@"
}

# fill NAME DEVICES READINGS: three days that end now, stored by sakia in a database of that name.
fill() {
  cat >"$dir/$1.toml" <<END
[kafka]
group = "$1"

[mongo]
database = "$1"

[[decoder]]
topics = ["$1"]
device_path = "deviceid"
timestamp_path = "ts"
timestamp_format = "unix_ms"
END
  run "$bin/loadtest" produce --topic "$1" --devices "$2" --total "$3" --span 3d --late 0.01 --manifest-dir "$dir"
  run "$bin/sakia" --config "$dir/$1.toml" init
  "$bin/sakia" --config "$dir/$1.toml" run --until-caught-up --log-level warn
}

# read_thrice NAME ARGUMENTS...: what it says of itself; the samples are dropped.
read_thrice() {
  local name=$1 i
  shift
  for i in 1 2 3; do
    echo "+ read $i: $*"
    "$bin/sakia" --config "$dir/$name.toml" read "$@" >/dev/null
  done
  "$bin/sakia" --config "$dir/$name.toml" read "$@" --explain
}

echo "commit $(git rev-parse --short HEAD), $(nproc) cores, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(uname -sr), $profile"
fill "two_days_$$" 30 180000
fill "last_$$" 3000 "${READINGS:-3000000}"
read_thrice "two_days_$$" --device dev-000012 --from -2d
read_thrice "last_$$" --last
