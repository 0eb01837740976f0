# shellcheck shell=bash
# The container way: compose.yaml under a project name of this checkout's own. Sourced by services.sh.

compose_note=$local_dir/compose.started

# Sets `engine` and `compose` if a container engine with compose answers within 5 s; else `engine_why` says why not.
find_engine() {
  local name
  engine='' engine_why="no docker or podman command"
  for name in docker podman; do
    command -v "$name" >/dev/null || continue
    if ! within 5 "$name" info >/dev/null 2>&1; then
      engine_why="$name is installed, but its engine does not answer within 5 s"
    elif within 5 "$name" compose version >/dev/null 2>&1; then
      engine=$name
      return 0
    else
      engine_why="$name answers, but has no \`compose\` command"
    fi
  done
  return 1
}

# The same checkout gives the same name, another checkout another one.
compose() {
  "$engine" compose --project-name "sakia-$(printf %s "$local_dir" | cksum | cut -d ' ' -f 1)" \
    --file "$here/compose.yaml" "$@"
}

# up_compose NAME...: starts those services and waits until they are healthy.
up_compose() {
  SAKIA_KAFKA_PORT=$(free_port) SAKIA_MONGO_PORT=$(free_port)
  export SAKIA_KAFKA_PORT SAKIA_MONGO_PORT
  printf '%s\n%s\n%s\n' "$engine" "$SAKIA_KAFKA_PORT" "$SAKIA_MONGO_PORT" >"$compose_note"
  started="$started compose"
  compose up --detach --wait --wait-timeout 300 "$@" >"$logs/compose.log" 2>&1 || {
    compose logs --no-color >>"$logs/compose.log" 2>&1 || true
    tail -n 5 "$logs/compose.log" >&2
    die "the containers did not become healthy; log: $logs/compose.log"
  }
  kafka_brokers=127.0.0.1:$SAKIA_KAFKA_PORT
  mongo_uri="mongodb://127.0.0.1:$SAKIA_MONGO_PORT/?replicaSet=rs0&directConnection=true"
  say "$engine: $* healthy"
}

# Reads the note of an earlier up_compose; 1 = there is none.
load_compose() {
  [ -f "$compose_note" ] || return 1
  { read -r engine && read -r SAKIA_KAFKA_PORT && read -r SAKIA_MONGO_PORT; } <"$compose_note" || return 1
  export SAKIA_KAFKA_PORT SAKIA_MONGO_PORT
}

end_compose() {
  load_compose || return 0
  compose logs --no-color >"$logs/compose.log" 2>&1 || true
  compose down --volumes --timeout 20 >>"$logs/compose.log" 2>&1 ||
    die "the containers could not be stopped; log: $logs/compose.log"
  rm -f "$compose_note"
  say "containers stopped and removed"
}
