#!/usr/bin/env bash
# Holds a dialogue that docs/repl.md shows, in a real terminal (tmux), and prints the screen at its end.
# Usage: scripts/capture_repl.sh [talk | parts] [folder of the program]        (default talk build/release)
# talk: prompts, a chat, settings. parts: parts are swapped and compared.
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-talk}
build=$(realpath "${2:-build/release}")
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

talk() {
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
}

parts() {
  line '/set max_tokens 70' '^>$'
  line '/seed 7' '^>$'
  line '/show drafts' '^>$'
  line 'Once upon a time' '^>$'
  text '/swap att'
  keys Tab # completes the key
  await '^> /swap attention$'
  text 'cas'
  keys Tab # and the plugin
  await '^> /swap attention cascade$'
  line '{block_size = 32}' '^>$'
  line '/chat' '^chat>$'
  line 'Hi, my name is Ida.' '^chat>$'
  line '/swap scheduler prefix_group {max_num_seqs = 8}' '^chat>$'
  line 'What is 12 + 30?' '^chat>$'
  line '/swap proposer first_of {ngram {max_tokens = 4}, draft_model {path = "models/demo-draft"}}' '^chat>$'
  line 'What was my first message?' '^chat>$'
  line '/complete' '^>$'
  line 'Once upon a time' '^>$'
  line '/swap kv_cache {dtype = "int8"}' '^>$'
  line '/stats' '^>$'
  line '/diff "attention paged {block_size = 16}; proposer none"' '^>$'
  line '/diff attention forgetful' '^>$'
  line '/trace steps.json' '^>$'
  line 'One day' '^>$'
  line '/trace' '^>$'
  line '/swap' '^>$'
}

ln -s "$PWD/models" "$home/models"
"${terminal[@]}" new-session -d -s repl -x 110 -y 160 \
  "cd '$home' && env HOME='$home' XDG_STATE_HOME= HISTFILE= PS1='\$ ' MORTISE_PLUGIN_PATH='$build/tests/e2e/plugins' NO_COLOR=1 PATH='$build':\"\$PATH\" bash --norc --noprofile"
await '^\$$'
line 'mortise run' '^>$'
"$what"
keys C-d
await '^\$$'
screen
