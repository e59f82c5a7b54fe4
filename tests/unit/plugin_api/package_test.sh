#!/usr/bin/env bash
# package_test.sh CMAKE BUILD_DIR PROJECT_DIR MORTISE: installs the plugin API alone, builds a plugin against it and asks
# mortise about the plugin.
set -euo pipefail
cmake=$1 build=$2 project=$3 mortise=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$cmake" --install "$build" --component plugin_api --prefix "$work/prefix" >/dev/null
"$cmake" -S "$project" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_BUILD_TYPE=Release >/dev/null
"$cmake" --build "$work/build" >/dev/null

info=$("$mortise" plugin info "$work/build/outside.so")
for text in "scheduler outside" "org.example.outside 0.3.0, Somebody, MIT" "prefix_groups" "depth  integer  default 4"; do
  case $info in
    *"$text"*) ;;
    *) printf "'%s' is not in:\n%s\n" "$text" "$info"; exit 1 ;;
  esac
done
