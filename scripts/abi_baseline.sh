#!/usr/bin/env bash
# scripts/abi_baseline.sh [check]: writes plugin_api/abi/0.MINOR.abi, the layout of every public struct as libabigail reads it.
# With `check` it compares the headers with that file, and fails if they differ: a change of the ABI needs a new minor, its
# section in plugin_api/CHANGES.md, and then a new file.
set -euo pipefail
cd "$(dirname "$0")/.."
include=plugin_api/include
minor=$(sed -n 's/^#define MORTISE_ABI_MINOR \([0-9]*\)u$/\1/p' $include/mortise/abi.h)
baseline=plugin_api/abi/0.$minor.abi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# libabigail compares the types of functions, so each struct gets a function that takes it.
headers=$(cd $include && find mortise -name '*.h' | LC_ALL=C sort)
{
  for header in $headers; do echo "#include \"$header\""; done
  for header in $headers; do sed -n 's/^\(typedef \)\?struct \(mortise_[a-z_]*\) {.*/\2/p' "$include/$header"; done |
    grep -vE '^mortise_(plan_blocks|sample_row|candidate)$' | LC_ALL=C sort -u |  # compiled into the plugin
    while read -r name; do echo "void probe_$name(struct $name* x) { (void)x; }"; done
} >"$work/probe.c"
gcc -std=c11 -g -O0 -fPIC -shared -I$include "$work/probe.c" -o "$work/probe.so"

grep -q "^## 0\.$minor: " plugin_api/CHANGES.md || { echo "plugin_api/CHANGES.md has no section \"## 0.$minor: ...\"" >&2; exit 1; }
if [ "${1:-}" != check ]; then
  abidw --no-corpus-path --no-comp-dir-path --no-show-locs --short-locs "$work/probe.so" --out-file "$baseline"
  exit 0
fi
[ -f "$baseline" ] || { echo "$baseline is not there: run scripts/abi_baseline.sh" >&2; exit 1; }
abidw --no-corpus-path --no-comp-dir-path --no-show-locs --short-locs "$work/probe.so" --out-file "$work/now.abi"
abidiff "$baseline" "$work/now.abi" || {
  echo "the headers differ from $baseline: give the ABI a new minor, say in plugin_api/CHANGES.md what changed and why, and run scripts/abi_baseline.sh" >&2
  exit 1
}
