#!/usr/bin/env bash
# aarch64.sh [REGEX]: builds for AArch64 on a Debian 12 of another architecture (build/aarch64), and runs there, under
# qemu-user, the tests of ctest's label fast, or those whose name matches REGEX. The libraries come from a root of arm64
# packages (build/aarch64-sysroot), which is made once; of this machine only the compiler, qemu-user and mmdebstrap are
# installed. Needs Linux 6.7. Takes too long for scripts/test.sh to run it.
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
# What qemu-user 7.2 cannot run, and a processor can.
left_out=(
  # Map a TiB: qemu-user answers ENOMEM.
  ModelConfigFile.WhatIsNoFileIsRefused
  Safetensors.ASparseFileOfATerabyteIsRefusedAtOnce
  # It answers MADV_POPULATE_WRITE with success and does nothing.
  PopulatePages.AllPagesComeAndKeepWhatStandsInThem
  PopulatePages.PagesOutsideAreLeftAlone
  # It has room for twice the descriptors that the program has room for, loses the others, and does not say so.
  TakeoverMessage.DescriptorsBeyondThoseThatAreWantedAreClosed
  # It refuses PR_SET_CHILD_SUBREAPER, so the suite never sees the processes that a plugin leaves behind.
  StrayProcessesTest.AFileThatStartsOneIsFoundAndTheProcessEnds
  StrayProcessesTest.EveryCaseOfAFileThatLeavesOneFails
  StrayProcessesTest.AnInstanceThatStartsOneIsFound
  StrayProcessesTest.TheProcessesOfAnEndedCaseAreCountedAndOthersAreSpared
  # Its posix_spawn is fork and exec: no error comes back, and the peak of the child's memory includes that of qemu-user.
  BenchChildProcess.AProgramThatIsNotThereIsNamed
  BenchChildProcess.ThePeakOfItsMemoryCounts
)
select+=(-E "^($(IFS='|'; echo "${left_out[*]//./\\.}"))\$")

# Tests start the program, and the program starts itself (trials). Linux must run those with qemu-user, too. The rule for that holds in
# a user namespace only (Linux 6.7), so the machine's settings stay as they are. Processes that a test leaves behind end with the
# namespace of process ids. TakeoverSocketTest.AnotherUsersSocketIsRefused is skipped: no other user exists there.
export QEMU_LD_PREFIX=$PWD/$root
# shellcheck disable=SC2016
in_namespace='
  mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
  printf %s ":aarch64:M::$1:$2:$(command -v qemu-aarch64):FP" >/proc/sys/fs/binfmt_misc/register
  exec unshare --user --map-user="$3" --map-group="$4" "${@:5}"'
header='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
if ! unshare --user --map-root-user --mount mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc; then
  echo "aarch64.sh: Linux $(uname -r) lets no user namespace have binfmt_misc, through which tests start programs; Linux 6.7 or newer does, if user namespaces are allowed" >&2
  exit 1
fi
unshare --user --map-root-user --mount --pid --fork --kill-child --mount-proc \
  bash -euc "$in_namespace" aarch64.sh "$header" "$mask" "$(id -u)" "$(id -g)" \
  ctest --test-dir build/aarch64 "${select[@]}" --output-on-failure --no-tests=error -j "$(nproc)"
