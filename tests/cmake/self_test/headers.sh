#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# zero_header_tests builds for sound headers, and stops at each planted fault with the words that name it.
set -uo pipefail
module=$(cd "$(dirname "$0")/.." && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/include"
failed=0
header() { printf '%s\n' "${@:2}" >"$dir/include/$1.hpp"; }

header sound '#pragma once' 'inline int sound() { return 1; }'
header missing_include '#pragma once' 'inline std::size_t size() { return 0; }'
header lost_inline '#pragma once' 'int lost() { return 1; }'
header no_guard 'struct Guardless {};'
header with_cuda '#pragma once' '#define CUDART_VERSION 13000'
header warning '#pragma once' 'inline int narrow(long x) { return x; }'
cases=(sound missing_include lost_inline no_guard with_cuda warning)
cat >"$dir/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.25)
project(faults LANGUAGES CXX)
set(zero_warnings -Wconversion)
include("$module/header_tests.cmake")
add_library(faults INTERFACE)
target_include_directories(faults INTERFACE include)
target_compile_features(faults INTERFACE cxx_std_20)
foreach(case IN ITEMS ${cases[*]})
  zero_header_tests(\${case} WITHOUT_CUDA HEADERS \${PROJECT_SOURCE_DIR}/include/\${case}.hpp LIBRARIES faults)
endforeach()
CMAKE
cmake -S "$dir" -B "$dir/build" >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }

expect() {
  cmake --build "$dir/build" --target "$2.linked_twice" >"$dir/log" 2>&1
  local status=$?
  [ "$status" -ne 0 ] && status=1
  [ "$status" -eq "$1" ] && grep -qE -- "$3" "$dir/log" && return
  echo "$2: status is not $1, or the log does not say: $3"
  cat "$dir/log"
  failed=1
}
expect 0 sound linked_twice
expect 1 missing_include "std"
expect 1 lost_inline 'multiple definition|duplicate symbol'
expect 1 no_guard 'redefinition'
expect 1 with_cuda 'a host header includes the CUDA runtime'
expect 1 warning 'conversion'
exit "$failed"
