#!/usr/bin/env bash
# Runs a command with Kafka and MongoDB up and their addresses in the environment. Stops them afterwards only if it
# started them; the exit status is the command's.
set -euo pipefail
services=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/services.sh

finish() {
  # A second Ctrl-C must not leave half of them running.
  trap '' INT TERM HUP
  [ -z "$mine" ] || "$services" down
}

mine=
"$services" status >/dev/null 2>&1 || mine=yes
trap finish EXIT
# The command gets the terminal's Ctrl-C itself; these only make sure that the way out leads through `finish`.
trap 'exit 130' INT
trap 'exit 143' TERM HUP
"$services" up
eval "$("$services" env)"
"$@"
