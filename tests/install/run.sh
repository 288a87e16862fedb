#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh find_package|find_package_mpi|add_subdirectory SOURCE_DIR BUILD_DIR
# Builds and runs a consumer's project: on an installed copy of the library, or on its sources.
set -euo pipefail
way=$1 source_dir=$2 build_dir=$3 library=zero::zero
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cp "$(dirname "$0")/consumer.cpp" "$dir"
case $way in
  find_package_mpi)
    cmake --install "$build_dir" --prefix "$dir/prefix" >"$dir/log"
    uses='find_package(zero 0.1 REQUIRED COMPONENTS mpi)'
    sed 's|#include <zero/zero.hpp>|&\n#include <zero/mpi/backend.hpp>\nstatic_assert(zero::JoinsProcesses<zero::Mpi>);|' \
      "$(dirname "$0")/consumer.cpp" >"$dir/consumer.cpp"
    library=zero::mpi
    ;;
  find_package)
    cmake --install "$build_dir" --prefix "$dir/prefix" >"$dir/log"
    [ -f "$dir/prefix/include/zero/zero.hpp" ] || { echo 'zero.hpp is not installed'; exit 1; }
    missing=$(cd "$source_dir/include" && find zero -name '*.hpp' | grep -vE '^zero/(cuda|mpi|torch)/' |
      while IFS= read -r header; do [ -f "$dir/prefix/include/$header" ] || echo "$header"; done)
    [ -z "$missing" ] || { printf 'not installed:\n%s\n' "$missing"; exit 1; }
    uses='find_package(zero 0.1 REQUIRED)'
    ;;
  add_subdirectory) uses="add_subdirectory(\"$source_dir\" zero)" ;;
esac
cat >"$dir/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES CXX)
$uses
add_executable(consumer consumer.cpp)
target_link_libraries(consumer PRIVATE $library)
CMAKE
cmake -S "$dir" -B "$dir/build" -DCMAKE_PREFIX_PATH="$dir/prefix" >>"$dir/log" || { cat "$dir/log"; exit 1; }
cmake --build "$dir/build" >>"$dir/log" || { cat "$dir/log"; exit 1; }
if [ "$way" = add_subdirectory ] && [ -e "$dir/build/zero/tests" ]; then
  echo 'a consumer configures the tests of the library'
  exit 1
fi
"$dir/build/consumer"
