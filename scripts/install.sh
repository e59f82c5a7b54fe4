#!/usr/bin/env bash
# Installs the Debian 12 packages that building and testing Mortise needs; `install.sh fuzz` those of the fuzz targets too,
# `install.sh tests` the browser that the page's tests drive, libabigail for the layout of the ABI,
# Doxygen for its reference, and mmdebstrap; `install.sh aarch64` those that build and run programs for AArch64. Does nothing when all
# are there. `install.sh libraries` installs nothing: it writes the names of the libraries' packages.
set -euo pipefail

libraries=(
  libboost1.81-dev libssl-dev prometheus-cpp-dev liblua5.4-dev nlohmann-json3-dev libvalijson-dev libspdlog-dev libfmt-dev
  libcli11-dev libedit-dev libpcre2-dev libutf8proc-dev libxxhash-dev
  libzmq3-dev cppzmq-dev
  libgtest-dev libgmock-dev libbenchmark-dev
)
if [ "${1:-}" = libraries ]; then echo "${libraries[*]}"; exit; fi
packages=(g++ cmake ninja-build pkg-config help2man "${libraries[@]}" python3-venv)
# libFuzzer, and the oldest clang that knows all of libstdc++'s <ranges>.
if [ "${1:-}" = fuzz ]; then packages+=(clang-16 libclang-rt-16-dev); fi
if [ "${1:-}" = aarch64 ]; then packages+=(g++-12-aarch64-linux-gnu qemu-user mmdebstrap); fi
if [ "${1:-}" = tests ]; then packages+=(chromium chromium-driver abigail-tools doxygen mmdebstrap); fi

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "install.sh: run as root, or install: ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
echo "installing ${missing[*]}" >&2
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
