#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh find_package|find_package_mpi|find_package_config|find_package_checkpoint|find_package_cuda|find_package_uring|archive|add_subdirectory|FetchContent SOURCE_DIR BUILD_DIR
# Builds and runs a consumer's project: on an installed copy of the library, on the archive that cpack makes, on its sources, or on
# sources that CMake fetches (an archive on this disk: nothing needs a network).
set -euo pipefail
way=$1 source_dir=$2 build_dir=$3 library=zero::zero languages=CXX main=consumer.cpp
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cp "$(dirname "$0")/consumer.cpp" "$dir"

installed() { # everything that belongs into PREFIX is there, and nothing there names a folder of this machine
  local missing
  [ -f "$dir/prefix/include/zero/zero.hpp" ] || { echo 'zero.hpp is not installed'; exit 1; }
  missing=$(cd "$source_dir/include" && find zero -name '*.hpp' | grep -vE '^zero/(cuda|mpi|torch)/' |
    while IFS= read -r header; do [ -f "$dir/prefix/include/$header" ] || echo "$header"; done)
  [ -z "$missing" ] || { printf 'not installed:\n%s\n' "$missing"; exit 1; }
  for file in share/cmake/zero/zero-config.cmake share/cmake/zero/zero-config-version.cmake share/doc/zero/LICENSE; do
    [ -f "$dir/prefix/$file" ] || { echo "$file is not installed"; exit 1; }
  done
  if grep -rlF -e "$source_dir" -e "$build_dir" -e "$dir/prefix" "$dir/prefix"; then
    echo 'these installed files name a folder of this machine'
    exit 1
  fi
}

case $way in
  find_package | find_package_mpi | find_package_config | find_package_checkpoint | find_package_cuda | find_package_uring)
    cmake --install "$build_dir" --prefix "$dir/prefix" >"$dir/log"
    installed
    uses='find_package(zero 0.1 REQUIRED)'
    ;;
  archive)
    cpack --config "$build_dir/CPackConfig.cmake" -B "$dir/packages" >"$dir/log" || { cat "$dir/log"; exit 1; }
    mkdir "$dir/prefix"
    tar -xzf "$dir"/packages/zero-*.tar.gz -C "$dir/prefix" --strip-components=1
    installed
    uses='find_package(zero 0.1 REQUIRED)'
    ;;
  add_subdirectory) uses="add_subdirectory(\"$source_dir\" zero)" ;;
  FetchContent)
    # What an archive of a release holds, in a folder of its own, as hosts make them.
    mkdir "$dir/zero-release"
    cp -r "$source_dir/CMakeLists.txt" "$source_dir/include" "$source_dir/LICENSE" "$dir/zero-release"
    tar -czf "$dir/release.tar.gz" -C "$dir" zero-release
    uses="include(FetchContent)
FetchContent_Declare(zero URL \"$dir/release.tar.gz\" URL_HASH SHA256=$(sha256sum "$dir/release.tar.gz" | cut -d ' ' -f 1)
  DOWNLOAD_EXTRACT_TIMESTAMP TRUE)
FetchContent_MakeAvailable(zero)"
    ;;
esac
if [ "$way" = find_package_mpi ]; then
  uses='find_package(zero 0.1 REQUIRED COMPONENTS mpi)'
  sed 's|#include <zero/zero.hpp>|&\n#include <zero/mpi/backend.hpp>\nstatic_assert(zero::JoinsProcesses<zero::Mpi>);|' \
    "$(dirname "$0")/consumer.cpp" >"$dir/consumer.cpp"
  library=zero::mpi
fi

if [ "$way" = find_package_config ]; then
  uses='find_package(zero 0.1 REQUIRED COMPONENTS config)'
  { sed 's|#include <zero/zero.hpp>|#include <zero/config.hpp>\n&|' "$(dirname "$0")/consumer.cpp"
    echo "#include <cstdlib>"
    cat <<'CPP'
// Links Boost.JSON, and an empty configuration is refused.
static bool const refused = [] {
  try {
    zero::load_config(zero::ConfigText{"{}"});
  } catch (zero::ConfigError const&) {
    return true;
  }
  std::abort();
}();
CPP
  } >"$dir/consumer.cpp"
  library=zero::config
fi

if [ "$way" = find_package_checkpoint ]; then
  uses='find_package(zero 0.1 REQUIRED COMPONENTS checkpoint)'
  { sed 's|#include <zero/zero.hpp>|#include <zero/checkpoint.hpp>\n&|' "$(dirname "$0")/consumer.cpp"
    cat <<'CPP'
#include <cstdlib>
// Links Boost.JSON and xxHash, and a text without its checksum is no manifest.
static bool const damaged = [] {
  try {
    zero::read_manifest(zero::manifest_text({}).substr(1), "planted");
  } catch (zero::CheckpointError const&) {
    return true;
  }
  std::abort();
}();
CPP
  } >"$dir/consumer.cpp"
  library=zero::checkpoint
fi

if [ "$way" = find_package_cuda ]; then
  uses='find_package(zero 0.1 REQUIRED COMPONENTS cuda)'
  cp "$(dirname "$0")/consumer.cu" "$dir"
  library=zero::cuda languages='CXX CUDA' main=consumer.cu
  for header in "$source_dir"/include/zero/cuda/*; do
    [ -f "$dir/prefix/include/zero/cuda/$(basename "$header")" ] || { echo "$header is not installed"; exit 1; }
  done
fi
if [ "$way" = find_package_uring ]; then
  uses='find_package(zero 0.1 REQUIRED COMPONENTS uring)'
  { sed 's|#include <zero/zero.hpp>|&\n#include <zero/tier/uring.hpp>|' "$(dirname "$0")/consumer.cpp"
    cat <<'CPP'
#include <cstdlib>
// Links liburing: a ring, or threads where this kernel gives none.
static bool const named = [] {
  bool const ring = zero::UringTransfers::refusal().empty();
  if (zero::uring_or_threads({})->name() == std::string(ring ? "io_uring" : "threads")) return true;
  std::abort();
}();
CPP
  } >"$dir/consumer.cpp"
  library=zero::uring
fi

# configures USES [ARGUMENT...]: the consumer's project with these lines, and these arguments of cmake
configures() {
  cat >"$dir/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES $languages)
$1
add_executable(consumer $main)
target_link_libraries(consumer PRIVATE $library)
if(zero_VERSION)
  target_compile_definitions(consumer PRIVATE PACKAGE_VERSION="\${zero_VERSION}")
endif()
CMAKE
  rm -rf "$dir/build"
  cmake -S "$dir" -B "$dir/build" -DCMAKE_PREFIX_PATH="$dir/prefix" "${@:2}" >"$dir/log" 2>&1
}
# misses COMPONENT NEEDS ARGUMENT...: where the arguments hide what the component needs, who requires it is told so, and who does not
# has the rest of the library
misses() {
  local component=$1 why="component $1 of zero needs $2, which was not found" whole=$library
  shift 2
  if configures "find_package(zero 0.1 REQUIRED COMPONENTS $component)" "$@"; then
    echo "component $component is found without what it needs"
    exit 1
  fi
  tr -s ' \n' ' ' <"$dir/log" | grep -qF "$why" || { echo "not said: $why"; cat "$dir/log"; exit 1; }
  library=zero::zero
  configures "find_package(zero 0.1 REQUIRED OPTIONAL_COMPONENTS planted $component)
if(zero_${component}_FOUND OR zero_planted_FOUND OR TARGET zero::$component)
  message(FATAL_ERROR \"planted or $component is found\")
endif()" "$@" || { cat "$dir/log"; exit 1; }
  grep -qF "zero: $why" "$dir/log" || { echo "not said: $why"; cat "$dir/log"; exit 1; }
  # Another one that is there is found beside it.
  for other in config uring mpi; do
    file=$dir/prefix/share/cmake/zero/zero-${other/config/json}-targets.cmake
    [ -f "$file" ] && [[ $other != "$component" && "$component $other" != "checkpoint config" ]] || continue
    configures "find_package(zero 0.1 REQUIRED OPTIONAL_COMPONENTS $component $other)
if(zero_${component}_FOUND OR NOT zero_${other}_FOUND)
  message(FATAL_ERROR \"expected $other, and not $component\")
endif()" "$@" || { cat "$dir/log"; exit 1; }
    break
  done
  library=$whole
}
case $way in
  find_package)
    # The second number may break callers, so neither an older nor a newer one will do; nor is there a component of any name.
    for other in 'zero 0.0' 'zero 0.2' 'zero 1.0' 'zero 0.1 COMPONENTS planted'; do
      if configures "find_package($other REQUIRED)"; then
        echo "find_package($other) is content with this version"
        exit 1
      fi
    done
    grep -q 'this installation of zero has no component planted' "$dir/log" || { cat "$dir/log"; exit 1; }
    ;;
  find_package_mpi) misses mpi MPI -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON ;;
  find_package_config) misses config 'Boost.JSON 1.75 or later' -DCMAKE_DISABLE_FIND_PACKAGE_Boost=ON ;;
  find_package_checkpoint)
    misses checkpoint 'Boost.JSON 1.75 or later' -DCMAKE_DISABLE_FIND_PACKAGE_Boost=ON
    misses checkpoint xxHash -DXXHASH_LIBRARY:STRING=OFF
    ;;
  find_package_uring) misses uring liburing -DLIBURING_LIBRARY:STRING=OFF ;;
  find_package_cuda) misses cuda 'the CUDA Toolkit' -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON ;;
esac
configures "$uses" || { cat "$dir/log"; exit 1; }
cmake --build "$dir/build" >>"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
for left in "$dir"/build/zero/tests "$dir"/build/_deps/zero-build/tests "$dir"/build/zero/CPackConfig.cmake; do
  [ ! -e "$left" ] || { echo "a consumer's project holds $(basename "$left") of the library"; exit 1; }
done
if [ "$way" = find_package_cuda ]; then
  # One runtime: nvcc would add a second one, which knows nothing of the first, where nothing else brings it.
  needs=$(objdump -p "$dir/build/consumer")
  for name in libcudart.so libnccl.so; do
    grep -q "NEEDED  *$name" <<<"$needs" || { echo "the consumer does not link $name"; exit 1; }
  done
  ! nm -C "$dir/build/consumer" | grep -q ' [Tt] cudart::' || { echo 'the consumer holds a second CUDA runtime'; exit 1; }
fi
"$dir/build/consumer"
