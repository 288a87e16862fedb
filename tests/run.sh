#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that must hold, from nothing: bash tests/run.sh [lane...]
# Installs what is missing (Debian 12 or Ubuntu 24.04), then builds and tests each lane, which is a preset of CMakePresets.json.
# The last line is "N passed, N failed" over all lanes; a lane that cannot be built counts as one failure.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
lanes=("$@")
[ "${#lanes[@]}" -gt 0 ] || lanes=(host host-mpich host-bare host-asan-ubsan host-tsan)
jobs=$(nproc)
heap_kb=$(awk -v jobs="$jobs" '/^MemTotal:/ { share = int($2 / jobs / 4); print share < 2000000 ? share : 2000000 }' /proc/meminfo)
passed=0
failed=0

bash examples/install_packages.sh g++=g++ cmake=cmake ninja=ninja-build nm=binutils doctest-dev libopenblas-dev fortunes \
  libopenmpi-dev,openmpi-bin libmpich-dev,mpich doxygen python3=python3 python3-venv 'clang-tidy-19|clang-tidy-18|clang-tidy-17|clang-tidy-16' \
  'libboost-json1.83-dev|libboost-json1.81-dev|libboost-json-dev' libyaml-cpp-dev libxxhash-dev liburing-dev \
  'clang-19,llvm-19,libclang-rt-19-dev|clang-18,llvm-18,libclang-rt-18-dev|clang-17,llvm-17,libclang-rt-17-dev|clang-16,llvm-16,libclang-rt-16-dev' || {
  echo '0 passed, 1 failed'
  exit 1
}
# What others read models with, in a Python of its own; a test that misses it is skipped, and says so. torch and transformers are
# some gigabytes: where they are there, -DZERO_TESTS_PYTHON=... names the Python that has them.
python=build/python/bin/python
"$python" -c 'import numpy, safetensors' 2>/dev/null || {
  mkdir -p build
  { python3 -m venv build/python && "$python" -m pip install --quiet numpy safetensors; } >build/python.log 2>&1 ||
    echo "numpy and safetensors cannot be installed, see build/python.log: the tests that need them are skipped"
}
for version in 19 18 17 16; do
  command -v "clang++-$version" >/dev/null && clang=clang++-$version && break
done
# Two lanes run where they are asked for: `tidy`, and `cuda`, which compiles and links what needs nvcc.

# The slowest objects of a build, from ninja's own log (start and end in ms, ..., output).
slowest_objects() {
  awk -F '\t' 'NR > 1 && $4 ~ /[.]o$/ { printf "%7.1f s  %s\n", ($2 - $1) / 1000, $4 }' "$1/.ninja_log" |
    sed 's|CMakeFiles/||' | sort -rn | head -n "$2"
}
slowest_tests() {
  sed -nE 's/^ *[0-9]+\/[0-9]+ +Test +#[0-9]+: (.*[^. ])[ .]*(Passed|\*\*\*[A-Za-z ]*) +([0-9.]+) sec$/\3 \1/p' "$1" |
    sort -rn | head -n "$2" | awk '{ seconds = $1; $1 = ""; printf "%7.1f s %s\n", seconds, $0 }'
}

lane() {
  local preset=$1 build=build/$1 log=build/$1.log begun=$SECONDS configured built total bad skipped
  local arguments=(-DZERO_REQUIRE_ALL=ON)
  # In host-bare every header and every example shows that it includes what it uses.
  [ "$preset" = host-bare ] || arguments+=(-DZERO_TESTS_PRECOMPILED=ON)
  case $preset in
    *san) arguments+=(-DCMAKE_CXX_COMPILER="$clang") ;;
    # g++ collects its garbage early and again and again. Where there is memory it need not: a ninth of the time.
    host*) arguments+=(-DZERO_GNU_OPTIONS="--param=ggc-min-expand=100;--param=ggc-min-heapsize=$heap_kb") ;;
  esac
  case $preset in
    host) # every header alone: host-bare; and beside MPICH, whichever of them is called mpirun
      case " ${lanes[*]} " in *' host-bare '*) arguments+=(-DZERO_TESTS_HEADERS=OFF) ;; esac
      arguments+=(-DZERO_TESTS_PYTHON="$PWD/$python" -DZERO_GPT2_OFFLOAD_OPTIONS=-O0 -DZERO_PROGRAM_OPTIONS=-O0)
      command -v mpicxx.openmpi mpirun.openmpi >/dev/null &&
        arguments+=(-DMPI_CXX_COMPILER=mpicxx.openmpi -DMPIEXEC_EXECUTABLE=mpirun.openmpi)
      ;;
  esac
  mkdir -p build
  echo "== $preset"
  if ! cmake --preset "$preset" "${arguments[@]}" >"$log" 2>&1; then
    tail -n 60 "$log"
    echo "$preset: does not configure"
    failed=$((failed + 1))
    return
  fi
  configured=$SECONDS
  if ! cmake --build --preset "$preset" -j "$jobs" >"$log" 2>&1; then
    grep -vE '^\[[0-9]+/[0-9]+\]' "$log" | cut -c 1-400 | head -n 120
    echo "$preset: does not build, all of it is in $log"
    failed=$((failed + 1))
    return
  fi
  built=$SECONDS
  ctest --preset "$preset" -j "$((jobs + 1))" >"$log.tests" 2>&1 # some wait for what must not come
  read -r bad total <<<"$(sed -nE 's/.*tests passed, ([0-9]+) tests? failed out of ([0-9]+).*/\1 \2/p' "$log.tests")"
  if [ -z "${total-}" ] || [ "$total" -eq 0 ]; then
    tail -n 60 "$log.tests"
    echo "$preset: no test ran"
    failed=$((failed + 1))
    return
  fi
  if [ "$bad" -gt 0 ]; then
    grep -vE '^ *Start +[0-9]+:| Passed +[0-9.]+ sec$' "$log.tests" | head -n 400
  fi
  skipped=$(grep -cE '[*]{3}Skipped +[0-9.]+ sec$' "$log.tests") # GPU tests without a GPU among them
  passed=$((passed + total - bad - skipped))
  failed=$((failed + bad))
  echo "slowest objects and tests:"
  slowest_objects "$build" 5
  slowest_tests "$log.tests" 5
  echo "$preset: $((total - bad - skipped)) of $total tests pass, $skipped are skipped; configure $((configured - begun)) s," \
    "build $((built - configured)) s, test $((SECONDS - built)) s"
}

for preset in "${lanes[@]}"; do
  lane "$preset"
done
echo "all lanes: $SECONDS s"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
