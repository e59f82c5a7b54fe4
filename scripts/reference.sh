#!/usr/bin/env bash
# scripts/reference.sh [FOLDER] [--xml]: writes the reference of the plugin ABI to FOLDER/html (build/reference without one):
# the headers of plugin_api/ as Doxygen renders them. Fails on any warning. --xml adds FOLDER/xml, which the test reads.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v doxygen >/dev/null || { echo "reference.sh: doxygen is not installed (scripts/install.sh tests)" >&2; exit 1; }

folder=build/reference xml=NO
for argument in "$@"; do
  if [ "$argument" = --xml ]; then xml=YES; else folder=$argument; fi
done
version() { sed -n "s/^#define MORTISE_ABI_$1 \([0-9]*\)u.*/\1/p" plugin_api/include/mortise/abi.h; }

mkdir -p "$folder"
MORTISE_ABI=$(version MAJOR).$(version MINOR) MORTISE_REFERENCE=$folder MORTISE_REFERENCE_XML=$xml doxygen docs/reference/Doxyfile
echo "$folder/html/index.html"
