#!/usr/bin/env bash
# One machine's part of a batch, as a task of a Slurm array; the last task to end puts the parts together:
#   scripts/fleet/split_batch.py split requests.jsonl parts/ --parts 4
#   sbatch --array=0-3 scripts/fleet/slurm_array.sh parts/ answers.jsonl [pipeline.lua | FOLDER]
# parts/ is on a file system that all machines share. A task that is requeued goes on where it ended; to go on by hand,
# give sbatch the same line again.
#SBATCH --job-name=mortise
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=8
#SBATCH --requeue
#SBATCH --signal=B:TERM@60
set -euo pipefail
parts=$1 answers=$2 script=${3:-}
# sbatch runs a copy of this file elsewhere, so paths are of the folder where sbatch was called.
here=${MORTISE_FLEET:-${SLURM_SUBMIT_DIR:-$PWD}/scripts/fleet}
mortise=${MORTISE:-mortise}
task=$SLURM_ARRAY_TASK_ID

# In the background, so that Slurm's signal a minute before the time limit comes through at once: mortise then writes
# what is done, and the next run goes on there.
"$mortise" batch ${script:+"$script"} -i "$parts/$task.jsonl" -o "$parts/$task.out.jsonl" &
mortise_pid=$!
trap 'kill -TERM $mortise_pid' TERM INT
code=0
wait $mortise_pid || code=$?
if [ $code -gt 128 ]; then # perhaps the wait was interrupted, and not mortise
  code=0
  wait $mortise_pid || code=$?
fi
# 1: some lines failed, which their answers say. Anything else: this part is not done.
[ $code -le 1 ] || exit $code
touch "$parts/$task.done"

# Whoever finds all parts done merges; two at once write the same bytes, each to a file of its own.
for source in "$parts"/[0-9]*.jsonl; do
  case $source in *.out.jsonl) continue ;; esac
  [ -e "${source%.jsonl}.done" ] || exit $code
done
"$here/split_batch.py" merge "$parts" "$answers"
exit $code
