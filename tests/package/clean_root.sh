#!/usr/bin/env bash
# clean_root.sh BUILD_DIR: makes both packages and uses them in a bare Debian 12: the archive and the .deb run where there is
# no compiler; then, with a compiler and nothing else, each kind of plugin goes from its template to an answer, in C++,
# and one in C. Exit code 77: skipped, for the reason on the last line. Takes a minute, most of it downloads of Debian packages.
set -euo pipefail
build=$(realpath "$1")

skip() { echo "skipped: $*"; exit 77; }
[ "$(id -u)" = 0 ] || skip "a clean root is made by root alone"
command -v mmdebstrap >/dev/null || skip "mmdebstrap is not installed (scripts/install.sh tests)"
[ -f "$build/cpu.so" ] || skip "the plugins are not built in $build"

work=$(mktemp -d)
root=$work/root
finish() {
  mountpoint -q "$root/proc" && umount "$root/proc"
  rm -rf --one-file-system "$work"
}
trap finish EXIT
say() { printf '== %3d s  %s\n' "$SECONDS" "$*"; }
fail() { echo "failed: $*"; exit 1; }
in_root() { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TMPDIR=/tmp DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"; }
install_in_root() { in_root apt-get install -y -qq --no-install-recommends "$@" >"$work/apt.log" 2>&1 || { cat "$work/apt.log"; fail "apt-get install $*"; }; }

say "packages"
cpack --config "$build/CPackConfig.cmake" -G "DEB;TGZ" -B "$work/packages" >"$work/cpack.log" 2>&1 || { cat "$work/cpack.log"; fail "cpack"; }
deb=$(ls "$work"/packages/mortise_*.deb) archive=$(ls "$work"/packages/mortise-*.tar.gz)
ls -l --block-size=K "$deb" "$archive" | sed 's/.* \([0-9]*K\).*\//   \1 /'

say "a bare Debian 12"
# From the sources of this machine, which may be a snapshot that counts as outdated.
sources=/etc/apt/sources.list.d/debian.sources
[ -f $sources ] || sources=/etc/apt/sources.list
mmdebstrap --quiet --mode=root --variant=apt --aptopt='Acquire::Check-Valid-Until "false"' bookworm "$root" "$sources" \
  >"$work/bootstrap.log" 2>&1 || { cat "$work/bootstrap.log"; skip "mmdebstrap made no root: is a Debian mirror in reach?"; }
mount -t proc proc "$root/proc" || skip "this machine mounts no /proc in a root"
[ -e "$root/etc/resolv.conf" ] || cp /etc/resolv.conf "$root/etc/" # for apt-get
for program in gcc g++ cc cmake; do
  in_root sh -c "command -v $program" >/dev/null && fail "$program is in the clean root"
done

answer='run -p "Once upon a time" --max-tokens 8 --temperature 0'
expected=$("$build/mortise" run -p "Once upon a time" --max-tokens 8 --temperature 0 2>/dev/null)

say "the archive"
tar -xzf "$archive" -C "$root/opt"
mv "$root"/opt/mortise-* "$root/opt/mortise"
for file in "$root"/opt/mortise/bin/mortise "$root"/opt/mortise/lib/mortise/*.so* "$root"/opt/mortise/lib/mortise/plugins/*.so; do
  missing=$(in_root env LD_LIBRARY_PATH=/opt/mortise/lib/mortise ldd "${file#"$root"}" | grep 'not found' || true)
  [ -z "$missing" ] || fail "$(basename "$file"): $missing"
done
found=$(in_root sh -c "/opt/mortise/bin/mortise $answer 2>/dev/null")
[ "$found" = "$expected" ] || fail "the archive's program answered '$found' in place of '$expected'"
if in_root /opt/mortise/bin/mortise plugin list | grep -q '^refused'; then fail "a plugin of the archive was refused"; fi
rm -r "$root/opt/mortise"

say "the .deb"
cp "$deb" "$root/tmp/mortise.deb"
in_root apt-get update -qq # mmdebstrap leaves no lists
install_in_root /tmp/mortise.deb
found=$(in_root sh -c "mortise $answer 2>/dev/null")
[ "$found" = "$expected" ] || fail "the installed program answered '$found' in place of '$expected'"
if in_root mortise plugin list | grep -q '^refused'; then fail "an installed plugin was refused"; fi
in_root sh -c "command -v gcc" >/dev/null && fail "the package brings a compiler"

say "a compiler"
install_in_root g++ cmake ninja-build

# tests/e2e/test_plugin_guide.py (C++) and test_plugin_new.py (C) build all kinds and run the check of each. Here it matters that the
# package brings all that they need.
for project in scheduler proposer attention model device "scheduler --c"; do
  read -r kind language <<<"$project"
  name=my_$kind${language:+_c}
  say "mortise plugin new $project"
  in_root sh -ec "
    cd /root
    mortise plugin new $kind $name $language >/dev/null 2>&1
    cd $name
    cmake --preset release >/dev/null
    cmake --build --preset release -- --quiet
    [ '$project' != scheduler ] || ctest --preset release >ctest.log || { cat ctest.log; exit 1; }
    mortise plugin info build/release/$name.so | grep -q '^$kind $name\$'" || fail "$name"
  found=$(in_root sh -ec "cd /root/$name; ATTENTION=/root/my_attention/build/release/my_attention.so mortise $answer try.lua 2>err || cat err")
  [ "$found" = "$expected" ] || fail "with $name the answer is '$found' in place of '$expected'"
done
say "all is well"
