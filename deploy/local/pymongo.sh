# shellcheck shell=bash
# MongoDB's driver for Python, in a folder of its own below the cache. Sourced by services.sh.

# Sets pymongo_dir: what PYTHONPATH has to name. A folder is put in its place whole, so that half an installation is never used.
find_pymongo() {
  require_command python3 "runs the queries of docs/reading.md"
  pymongo_dir=$cache/pymongo-4.15.3-$(python3 -c 'import sys; print(sys.implementation.cache_tag)')
  [ ! -d "$pymongo_dir" ] || return 0
  python3 -m pip --version >/dev/null 2>&1 || die "python3 has no pip (installs pymongo); \`make doctor\` names the command that installs it"
  new_part
  say "installing pymongo, log: $logs/pymongo-install.log"
  within 300 python3 -m pip install --quiet --no-deps --require-hashes --only-binary=:all: --disable-pip-version-check \
    -r "$here/pymongo.requirements.txt" --target "$part" >"$logs/pymongo-install.log" 2>&1 || {
    tail -n 5 "$logs/pymongo-install.log" >&2
    die "pymongo could not be installed; log: $logs/pymongo-install.log"
  }
  mv -f "$part" "$pymongo_dir"
}
