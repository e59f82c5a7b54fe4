#!/usr/bin/env bash
# make_pages.sh HELP2MAN MORTISE VERSION FOLDER: writes mortise.1 and a page for each of its sub-commands, theirs included,
# and then the file FOLDER/made. NAME.h2m beside this script is added to the page NAME.1 (see help2man(1), --include).
set -euo pipefail
help2man=$1 mortise=$2 version=$3 folder=$4
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$folder"
mkdir -p "$folder/programs"

# page WORD...: the page of `mortise WORD...`. help2man takes a page's name from its program's, so each gets one.
page() {
  local name=mortise word text
  for word in "$@"; do name+=-$word; done
  printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$mortise" "$*" >"$folder/programs/$name"
  chmod +x "$folder/programs/$name"
  text=$("$mortise" "$@" --help)
  local options=(--no-info --section=1 --manual="Mortise" --source="Mortise $version" --version-string="$version"
                 --name="$(head -1 <<<"$text")" --output="$folder/$name.1")
  [ -f "$here/$name.h2m" ] && options+=(--include="$here/$name.h2m")
  "$help2man" "${options[@]}" "$folder/programs/$name"
  # The names below "Subcommands:".
  local sub
  for sub in $(sed -n '/^Subcommands:/,$ s/^  \([a-z][a-z-]*\) .*/\1/p' <<<"$text"); do page "$@" "$sub"; done
}

page
rm -r "$folder/programs"
touch "$folder/made"
