# SPDX-License-Identifier: Apache-2.0
# cmake -DSOURCE_DIR=... -DDIR=... -P vcpkg.cmake
# Runs the port's steps with stand-ins for vcpkg's functions, which do what vcpkg's own do of it; then DIR holds what a port must hold.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${DIR}) # what an earlier run has found there counts for nothing
set(port ${SOURCE_DIR}/docs/packaging/vcpkg)
set(CURRENT_PACKAGES_DIR ${DIR}/packages/zero)
set(PORT zero)

function(run)
  execute_process(COMMAND ${ARGV} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endfunction()
function(vcpkg_check_features)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "OUT_FEATURE_OPTIONS" "FEATURES")
  list(GET arg_FEATURES 1 option)
  set(${arg_OUT_FEATURE_OPTIONS} -D${option}=OFF PARENT_SCOPE) # no feature is asked for
endfunction()
function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "SOURCE_PATH" "OPTIONS")
  if(arg_UNPARSED_ARGUMENTS OR NOT EXISTS ${arg_SOURCE_PATH}/include/zero/zero.hpp)
    message(FATAL_ERROR "the port does not configure the sources: ${ARGV}")
  endif()
  run(${CMAKE_COMMAND} -S ${arg_SOURCE_PATH} -B ${DIR}/build -DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR}
      -DCMAKE_DISABLE_FIND_PACKAGE_Boost=ON -DCMAKE_DISABLE_FIND_PACKAGE_yaml-cpp=ON ${arg_OPTIONS}) # as in a clean vcpkg
endfunction()
function(vcpkg_cmake_install)
  run(${CMAKE_COMMAND} --build ${DIR}/build --target install)
endfunction()
function(vcpkg_cmake_config_fixup)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "CONFIG_PATH" "")
  file(COPY ${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH}/ DESTINATION ${CURRENT_PACKAGES_DIR}/share/zero)
  file(REMOVE_RECURSE ${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH})
  # One folder less lies between the package file and the prefix.
  set(up "get_filename_component(_IMPORT_PREFIX \"\${_IMPORT_PREFIX}\" PATH)\n")
  file(READ ${CURRENT_PACKAGES_DIR}/share/zero/zero-targets.cmake targets)
  string(REPLACE "${up}${up}" "${up}" targets "${targets}")
  file(WRITE ${CURRENT_PACKAGES_DIR}/share/zero/zero-targets.cmake "${targets}")
endfunction()
function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "FILE_LIST")
  configure_file(${arg_FILE_LIST} ${CURRENT_PACKAGES_DIR}/share/zero/copyright COPYONLY)
endfunction()
include(${port}/portfile.cmake)

# What a project then does.
file(WRITE ${DIR}/consumer/CMakeLists.txt "
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES CXX)
find_package(zero 0.1 REQUIRED)
get_target_property(includes zero::zero INTERFACE_INCLUDE_DIRECTORIES)
string(REGEX REPLACE \"^.<BUILD_INTERFACE:(.*)>\$\" \"\\\\1\" includes \"\${includes}\")
if(NOT EXISTS \${includes}/zero/zero.hpp)
  message(FATAL_ERROR \"no headers in \${includes}\")
endif()
")
run(${CMAKE_COMMAND} -S ${DIR}/consumer -B ${DIR}/consumer/build -Dzero_DIR=${CURRENT_PACKAGES_DIR}/share/zero)
foreach(file IN ITEMS share/zero/copyright include/zero/zero.hpp)
  if(NOT EXISTS ${CURRENT_PACKAGES_DIR}/${file})
    message(FATAL_ERROR "the port installs no ${file}")
  endif()
endforeach()
