# shellcheck shell=bash
# What the other scripts here share: messages, bounded waits, ports, and processes that are ended by their exact id.
# Sourced, never run. Needs bash 3.2 and nothing else, so that the compose way also works without python3.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(cd "$here/../.." && pwd)
local_dir=${SAKIA_LOCAL_DIR:-$repo/.local}
case $local_dir in /*) ;; *) local_dir=$PWD/$local_dir ;; esac
cache=$local_dir/cache
logs=$local_dir/logs
env_file=$local_dir/services.env

# Everything said goes to stderr (stdout belongs to `env`, `mongod-bin` and `mongo-command`), by a descriptor of its own,
# so that "interrupted" is seen also while a redirected step is under way.
exec 8>&2
say() { printf 'services: %s\n' "$*" >&8; }
die() {
  say "error: $*"
  exit 1
}

# within SECONDS COMMAND...: the command's status, or 124 once the time is over. macOS has no timeout(1).
# Never inside $(...): bash lets background commands ignore Ctrl-C, so the trap ends `awaited`, and must see it.
awaited=
within() {
  local limit=$(($1 * 10)) i=0 status=0
  shift
  "$@" 8>&- 9>&- &
  awaited=$!
  while kill -0 "$awaited" 2>/dev/null; do
    if [ "$i" -ge "$limit" ]; then
      end_awaited
      return 124
    fi
    i=$((i + 1))
    sleep 0.1
  done
  wait "$awaited" || status=$?
  awaited=
  return "$status"
}

end_awaited() {
  [ -n "$awaited" ] || return 0
  kill "$awaited" 2>/dev/null || true
  wait "$awaited" 2>/dev/null || true
  awaited=
}

# Downloads go to a folder beside their place and are renamed at the end, so that half a download is never used.
part=$cache/part
new_part() {
  rm -rf "$part"
  mkdir -p "$part"
}

# Whether something listens at HOST PORT.
listens() { (exec 3<>"/dev/tcp/$1/$2") 2>/dev/null; }

# A port nobody listens on. Below the range of outgoing connections, or one of those could take it before the server does.
free_port() {
  local port
  while :; do
    port=$((20000 + (RANDOM * 32768 + RANDOM) % 12000))
    listens 127.0.0.1 "$port" || break
  done
  echo "$port"
}

# own_pid NAME: the pid of the process that NAME's pid file speaks of, if it is still that one. A pid alone is not
# proof: after a restart of the machine it can be anybody's. The word kept beside it is a path of ours on its command line.
own_pid() {
  local pid word
  [ -f "$local_dir/$1.pid" ] || return 1
  { read -r pid && read -r word; } <"$local_dir/$1.pid" || return 1
  [ -r "/proc/$pid/cmdline" ] || return 1
  tr '\0' '\n' <"/proc/$pid/cmdline" 2>/dev/null | grep -qxF -- "$word" || return 1
  echo "$pid"
}

# launch NAME WORD COMMAND...: starts COMMAND apart from this terminal (a later Ctrl-C must not reach it), with its
# log and its pid file. WORD is the argument by which own_pid knows it. Descriptor 9 is the lock, 8 our stderr: a server
# that inherited them would hold both as long as it lives. An interrupt waits until the server can be found again.
launch() {
  local name=$1 word=$2 interrupted=
  shift 2
  trap 'interrupted=yes' INT TERM HUP
  setsid "$@" >>"$logs/$name.log" 2>&1 </dev/null 8>&- 9>&- &
  launched=$!
  printf '%s\n%s\n' "$launched" "$word" >"$local_dir/$name.pid"
  started="$started $name"
  # Until the new process has become COMMAND, its command line is still ours.
  while kill -0 "$launched" 2>/dev/null && ! own_pid "$name" >/dev/null; do sleep 0.05; done
  trap interrupt INT TERM HUP
  [ -z "$interrupted" ] || interrupt
}

interrupt() {
  say "interrupted"
  exit 130
}

# end NAME: stops exactly that process: asks, waits 20 s, then kills. Says nothing if there is none.
end() {
  local name=$1 pid i=0
  if pid=$(own_pid "$name"); then
    # A stopped process would not hear it.
    kill -CONT "$pid" 2>/dev/null || true
    kill -TERM "$pid" 2>/dev/null || true
    while own_pid "$name" >/dev/null; do
      if [ "$i" -ge 200 ]; then
        say "$name (pid $pid) did not stop within 20 s: killing it"
        kill -KILL "$pid" 2>/dev/null || true
        i=0
      fi
      i=$((i + 1))
      sleep 0.1
    done
    say "$name stopped (pid $pid)"
  fi
  rm -f "$local_dir/$name.pid"
}

# wait_ready NAME SECONDS: until ready_NAME succeeds; what it says stays in NAME-ready.log. 1 = ended, 124 = out of time.
wait_ready() {
  local name=$1 limit=$2 began=$SECONDS
  until "ready_$name" >"$logs/$name-ready.log" 2>&1; do
    kill -0 "$launched" 2>/dev/null || return 1
    [ $((SECONDS - began)) -lt "$limit" ] || return 124
    sleep 0.2
  done
}

# start_on_free_ports NAME SECONDS: runs start_NAME up to three times, each on fresh ports, until ready_NAME succeeds.
# Another program can take a port between our look and the server's bind; only that is worth another try.
start_on_free_ports() {
  local name=$1 limit=$2 try status
  for try in 1 2 3; do
    : >"$logs/$name.log"
    "start_$name"
    status=0
    wait_ready "$name" "$limit" || status=$?
    [ "$status" -ne 0 ] || return 0
    end "$name"
    if [ "$status" -eq 124 ]; then
      die "$name was not ready after $limit s: $(tail -n 1 "$logs/$name-ready.log"); its log: $logs/$name.log"
    fi
    grep -qi 'address already in use' "$logs/$name.log" || break
    say "$name: a port was taken meanwhile (try $try)"
  done
  tail -n 5 "$logs/$name.log" >&2
  die "$name ended while starting; its log: $logs/$name.log"
}

# The registry recipes are binaries for this platform only: say so before anything is downloaded.
require_linux_x86_64() {
  [ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || die "without a container engine the servers are to be had for Linux on x86-64 only; this is $(uname -s) on $(uname -m). Start Docker or Podman, or name running servers in SAKIA_KAFKA and SAKIA_MONGO"
}

require_command() {
  command -v "$1" >/dev/null || die "$1 is missing ($2); \`make doctor\` names the command that installs it"
}
