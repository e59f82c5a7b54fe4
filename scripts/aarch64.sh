#!/usr/bin/env bash
# aarch64.sh [REGEX]: builds for AArch64 on a Debian 12 of another architecture (build/aarch64), and runs there, under
# qemu-user, the tests of ctest's label fast, or those whose name matches REGEX. The libraries come from a root of arm64
# packages (build/aarch64-sysroot), which is made once; of this machine only the compiler, qemu-user and mmdebstrap are
# installed. Takes too long for scripts/test.sh to run it.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install.sh aarch64
root=build/aarch64-sysroot
if [ ! -e $root/made ]; then
  rm -rf $root
  mkdir -p build
  packages=$(scripts/install.sh libraries | tr ' ' ,),libc6-dev,libstdc++6
  # From the sources of this machine, which may be a snapshot that counts as outdated. Nothing of the packages is run.
  sources=/etc/apt/sources.list.d/debian.sources
  [ -f $sources ] || sources=/etc/apt/sources.list
  mmdebstrap --quiet --variant=extract --architectures=arm64 --aptopt='Acquire::Check-Valid-Until "false"' \
    --include="$packages" bookworm $root $sources
  touch $root/made
fi

cmake --preset aarch64 -DBUILD_TESTING=ON
cmake --build --preset aarch64
select=(-L '^fast:')
if [ $# -gt 0 ]; then select=(-R "$1"); fi
ctest --test-dir build/aarch64 "${select[@]}" --output-on-failure --no-tests=error -j "$(nproc)"
