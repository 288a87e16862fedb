#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a GPU is needed for: bash tests/run_gpu.sh [BIN [PATTERN]]
# Without BIN, builds the preset cuda for this machine's GPU and runs its tests by ctest (labels gpu, gpu2). With BIN, a folder of
# programs built elsewhere (build/cuda/bin), runs those and needs neither CMake nor nvcc; with PATTERN, a regular expression, those
# with such a name. The last line is "N passed, N failed, N skipped"; what is skipped says why.
# compute-sanitizer comes last: it takes several minutes a tool, a tool a GPU.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
bin=${1-} pattern=${2:-.}
passed=0
failed=0
skipped=0

# environment FOLDER: what this machine has and what is wrong with it, beside what failed
environment() { [ ! -x "$1/zero-environment" ] || "$1/zero-environment"; }

if [ -z "$bin" ]; then
  cmake --preset cuda -DCMAKE_CUDA_ARCHITECTURES=native -DZERO_REQUIRE_ALL=ON &&
    cmake --build --preset cuda -j "$(nproc)" || { echo '0 passed, 1 failed, 0 skipped'; exit 1; }
  environment build/cuda/bin
  ctest --preset cuda -L gpu -j 1 | tee build/cuda.log.tests
  passed=$(grep -cE ' Passed +[0-9.]+ sec$' build/cuda.log.tests)
  skipped=$(grep -cE '\*\*\*Skipped' build/cuda.log.tests)
  failed=$(grep -cE '\*\*\*(Failed|Timeout|Exception|Not Run)' build/cuda.log.tests)
else
  # one NAME COMMAND...
  one() {
    local name=$1 begun=$SECONDS code
    shift
    [[ $name =~ $pattern ]] || return 0
    timeout "${limit:-300}" "$@" >"$log" 2>&1
    code=$?
    case $code in
      0) passed=$((passed + 1)) ;;
      77) skipped=$((skipped + 1)) ;;
      *) failed=$((failed + 1)) ;;
    esac
    echo "== $name: exit $code, $((SECONDS - begun)) s"
    if [ "$code" -eq 0 ]; then tail -n "${lines:-3}" "$log"; else tail -n 60 "$log"; fi
  }
  environment "$bin"
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  lines=40 limit=600 one "cuda_tests" "$bin/cuda_tests"
  lines=40 one "cuda_range_tests" "$bin/cuda_range_tests"
  [ ! -x "$bin/zero-environment" ] || lines=2 one "zero-environment beside a GPU" bash tests/cuda/environment.sh "$bin/zero-environment"
  [ ! -x "$bin/cuda_checkpoint_tests" ] || lines=40 one "cuda_checkpoint_tests" "$bin/cuda_checkpoint_tests"
  if [ -x "$bin/gpt2_cuda_tests" ]; then
    lines=40 one "gpt2_cuda_tests" "$bin/gpt2_cuda_tests"
    lines=8 one "gpt2 ends with the same bits at every stage" bash tests/gpt2_cuda/same_bits.sh "$bin/gpt2"
    lines=20 one "gpt2 ends with the same bits with state below the GPU" bash tests/gpt2_cuda/offloaded_bits.sh "$bin/gpt2"
    lines=20 limit=600 one "gpt2 under torchrun" bash tests/gpt2_cuda/torchrun.sh "$bin/gpt2"
    lines=20 limit=600 one "gpt2 on tokens of a file, at published sizes" bash tests/gpt2_cuda/sizes_and_tokens.sh "$bin/gpt2"
    lines=20 one "gpt2 resumes what it has saved, and a host loads it" bash tests/gpt2_cuda/resumed_bits.sh "$bin/gpt2"
    for stage in 0 1 2 3; do
      lines=8 one "bytes over NCCL are those that the library counts, stage $stage" bash tests/cuda/wire.sh "$bin/gpt2" "$stage"
    done
  fi
  for world in 2 4; do
    for scenario in collectives training-0 training-1 training-2 training-3 counted-waits copy-engines late-choice \
      lone-choice; do
      lines=8 one "$scenario of $world ranks over NCCL" \
        bash tests/cuda/several_ranks.sh "$world" "$bin/cuda_ranks" "$scenario"
    done
  done
  for scenario in collectives training-1 training-3 copy-engines lone-choice; do
    lines=8 one "$scenario of 2 ranks over NCCL, a GPU each" \
      bash tests/cuda/several_ranks.sh --own-gpus 2 "$bin/cuda_ranks" "$scenario"
  done
  lines=8 one "ranks over NCCL meet through a file" bash tests/cuda/id_file.sh "$bin/cuda_ranks"
  [ ! -x "$bin/cuda_mpi_ranks" ] ||
    lines=8 one "ranks over NCCL meet by MPI_Bcast" bash tests/cuda/mpi_ranks.sh "$bin/cuda_mpi_ranks"
  for scenario in late dies {late,dies}-stage-{1,3}{,-replay} late-stage-3{,-replay}-ahead; do
    lines=12 one "a rank of four over NCCL: $scenario" bash tests/cuda/failing_ranks.sh "$bin/cuda_ranks" "$scenario"
  done
  for example in 5_one_gpu 6_nccl_stages; do
    lines=8 one "$example" "$bin/$example"
  done
  lines=8 one "6_nccl_stages of 2 processes" bash tests/cuda/several_ranks.sh 2 "$bin/6_nccl_stages"
  limit=7200 lines=40 one "compute-sanitizer finds nothing" env SECONDS_EACH=900 bash tests/cuda/sanitize.sh "$bin"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
