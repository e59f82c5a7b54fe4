#!/bin/bash
# Runs the GPU suite from a bundle (scripts/gpu_bundle.sh) on a machine with a GPU; from the root of a checkout, for the models.
#   scripts/gpu_suite.sh BUNDLE [tests|exactness|stories|parity|sanitizer|bench ...]      default: tests stories exactness
# Logs go to $OUT, or ./gpu-suite. Ends with a summary, and with exit code 1 if anything failed.
set -u
[ -f "${1:?usage: $0 BUNDLE [PART ...]}/source_folder" ] || { echo "$0: $1 is no bundle; scripts/gpu_bundle.sh makes one" >&2; exit 2; }
bundle=$(cd "$1" && pwd)
shift
tests="kernels_cuda_test kernels_cuda_span_test cuda_device_test span_cuda_test paged_cuda_test cascade_cuda_test"
parts=${*:-tests stories exactness}
out=${OUT:-gpu-suite}
mkdir -p "$out"
export LD_LIBRARY_PATH=$bundle/lib:${LD_LIBRARY_PATH:-}:/usr/local/cuda/lib64
export MORTISE_PLUGIN_PATH=$bundle
summary=() failed=0

# Programs have the folder that they were built in written into them; what they read there is this checkout.
source_folder=$(cat "$bundle/source_folder")
if [ ! -e "$source_folder" ]; then
  mkdir -p "$(dirname "$source_folder")" && ln -s "$PWD" "$source_folder"
fi

run() { # name, seconds, command ...
  local name=$1 limit=$2 begin=$SECONDS rc
  shift 2
  timeout "$limit" "$@" >"$out/$name.log" 2>&1
  rc=$?
  summary+=("$(printf '%-28s %s in %d s' "$name" "$([ $rc -eq 0 ] && echo ok || echo "FAILED ($rc)")" $((SECONDS - begin)))")
  [ $rc -eq 0 ] || { failed=1; grep -E "Failure|FAILED|error|ERROR" -A6 "$out/$name.log" | head -40; tail -3 "$out/$name.log"; }
}

for part in $parts; do
  case $part in
    tests) for test in $tests; do
             run "$test" 240 "$bundle/tests/$test"
             # Its tests skip then, which is no failure of theirs.
             if grep -q "no GPU to test on" "$out/$test.log"; then
               summary+=("$test: FAILED: there is no GPU to test on") failed=1
             fi
             MORTISE_CUDA_ISA=sm_80 run "$test-sm_80" 240 "$bundle/tests/$test"
           done ;;
    stories) for graphs in true false; do
               cat >"$out/story-$graphs.lua" <<LUA
return pipeline { device = cuda { graphs = $graphs }, model = llama { path = "$PWD/models/demo" },
                  attention = paged {}, scheduler = fcfs {} }
LUA
               run "story-graphs-$graphs" 60 "$bundle/mortise" run "$out/story-$graphs.lua" -p "Once upon a time" --seed 1 --max-tokens 200
               sed -n '1,4p' "$out/story-graphs-$graphs.log"
             done ;;
    parity) run parity 580 python3 tests/parity/transformers_parity.py "$bundle/mortise" cuda
            cat "$out/parity.log" ;;
    exactness) MORTISE_PROPERTY_DEVICE=cuda MORTISE_PROPERTY_MIXES=${MORTISE_PROPERTY_MIXES:-48} \
                 run exactness 300 "$bundle/tests/exactness_test"
               MORTISE_PROPERTY_DEVICE=cuda MORTISE_NAN_MIXES=${MORTISE_NAN_MIXES:-100} run nan 300 "$bundle/tests/nan_test" ;;
    # racecheck takes the bulk copies of cuBLASLt's kernels for races, and ends with an error of its own where it is told to leave
    # them out: so without the products of the device, whose own kernel is in kernels_cuda_test, and, since it takes a hundred times
    # as long, without the schedules that repeat the kernels' own tests and without the largest groups of those (OfManyRows, OfNested).
    # Large products repeat small ones.
    sanitizer) for tool in memcheck racecheck initcheck synccheck; do
                 options="--kernel-name kns=mortise" left_out="*.LargeShapes"
                 case $tool in
                   synccheck) options+=" --num-cuda-barriers 4096" ;;  # with fewer it loses count of a block's, and fails
                   memcheck) options+=" --report-api-errors no" ;;  # tests ask for more memory than there is
                   racecheck) options= left_out+=":CudaLinear.*:Models/*:*OfManyRows*:*OfNested*:*ThousandRandom*:*LargestGroups*" ;;
                 esac
                 for test in $tests; do
                   run "$tool-$test" 900 compute-sanitizer --tool $tool --error-exitcode 9 $options \
                     "$bundle/tests/$test" --gtest_filter="${MORTISE_SANITIZER_FILTER:--$left_out}"
                 done
               done ;;
    bench) cat >"$out/bench.lua" <<LUA
return pipeline { device = cuda {}, model = llama { path = "$PWD/models/demo", max_model_len = ${MORTISE_BENCH_LENGTH:-2048} },
                  attention = paged {}, scheduler = fcfs { max_num_seqs = 256, max_batched_tokens = 8192 } }
LUA
           while read -r name arguments; do
             [ -n "$name" ] || continue
             run "bench-$name" 120 "$bundle/mortise" bench $arguments "$out/bench.lua" --json "$out/bench-$name.json"
             cat "$out/bench-$name.log"
           done <<<"${MORTISE_BENCH:-demo decode --batch 1,32}" ;;
    *) echo "unknown part '$part'" >&2; exit 2 ;;
  esac
done
printf '%s\n' "${summary[@]}"
exit $failed
