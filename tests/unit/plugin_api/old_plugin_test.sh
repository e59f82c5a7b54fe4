#!/usr/bin/env bash
# old_plugin_test.sh CC PLUGIN_API SOURCE MORTISE: builds a plugin with the headers of ABI 0.5, which are kept in
# plugin_api/abi/. This mortise must take it, and it must keep the rules.
set -euo pipefail
cc=$1 plugin_api=$2 source=$3 mortise=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

tar xzf "$plugin_api/abi/headers-0.5.tar.gz" -C "$work"
grep -q 'define MORTISE_ABI_MINOR 5u' "$work/mortise/abi.h"
"$cc" -std=c11 -Wall -Wextra -Werror -O2 -fPIC -fvisibility=hidden -shared -Wl,-z,defs -I"$work" "$source" -o "$work/old_scheduler.so"

"$mortise" plugin info --run "$work/old_scheduler.so" | grep -q "ABI 0.5"
"$mortise" plugin check "$work/old_scheduler.so"
