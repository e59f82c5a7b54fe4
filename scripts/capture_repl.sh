#!/usr/bin/env bash
# Holds the dialogue that docs/repl.md shows, in a real terminal (tmux), and prints the screen at its end.
# Usage: scripts/capture_repl.sh [folder of the program]        (default build/release)
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "${1:-build/release}")
home=$(mktemp -d)
terminal=(tmux -f /dev/null -L "mortise-capture-$$")
trap '"${terminal[@]}" kill-server 2>/dev/null || true; rm -rf "$home"' EXIT

screen() { "${terminal[@]}" capture-pane -p -t repl | sed -e :a -e '/^\n*$/{$d;N;ba' -e '}'; }
keys() { "${terminal[@]}" send-keys -t repl "$@"; }
# Waits until the last line of the screen, without spaces at its end, matches.
await() {
  for _ in $(seq 600); do
    if screen | tail -n 1 | sed 's/ *$//' | grep -qE -- "$1"; then return; fi
    sleep 0.1
  done
  echo "the screen does not end with $1:" >&2
  screen >&2
  exit 1
}
# Types text, and waits until it shows.
text() {
  keys -l -- "$1"
  await "${2:-$(tail -c 10 <<<"$1" | sed 's/[][()?.*+|^$\\]/\\&/g')\$}"
}
# Types a line, and waits for the prompt after it.
line() {
  text "$1"
  keys Enter
  await "$2"
}

"${terminal[@]}" new-session -d -s repl -x 110 -y 120 \
  "cd '$home' && env HOME='$home' XDG_STATE_HOME= HISTFILE= PS1='\$ ' PATH='$build':\"\$PATH\" bash --norc --noprofile"
await '^\$$'
line 'mortise run' '^>$'
text '/set temp'
keys Tab # completes the field
await '^> /set temperature$'
line '0' '^>$'
line 'Once upon a time' '^>$'
line '/score Once upon a | time' '^>$'
text '/se'
keys Tab # several commands: they are listed
sleep 1
line 'ed 7' '^>$'
line '/chat' '^chat>$'
line 'Hi, my name is Ida.' '^chat>$'
line '"""' '^\.\.\.$'
line 'How much is' '^\.\.\.$'
line '12 + 30?' '^\.\.\.$'
line '"""' '^chat>$'
line 'What was my first message?' '^chat>$'
line '/save ida.json' '^chat>$'
line '/complete' '^>$'
line '/set max_tokens 2000' '^>$'
line '/set ignore_eos true' '^>$'
text 'One day'
keys Enter
# await is too slow here: a tenth of a second is a whole story.
until "${terminal[@]}" capture-pane -p -t repl | grep -A 1 '^> One day' | grep -qE '^ [A-Z]'; do :; done
keys C-c # stops the answer
await '^>$'
line '/sett' '^>$'
line '/stats' '^>$'
line '/proposer' '^>$'
keys C-d
await '^\$$'
screen
