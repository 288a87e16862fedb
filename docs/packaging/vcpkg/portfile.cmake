# SPDX-License-Identifier: Apache-2.0
# The sources are those that this port stands in.
cmake_path(SET SOURCE_PATH NORMALIZE "${CMAKE_CURRENT_LIST_DIR}/../../..")

vcpkg_check_features(OUT_FEATURE_OPTIONS FEATURE_OPTIONS FEATURES mpi ZERO_MPI)
vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS ${FEATURE_OPTIONS}
          -DZERO_BUILD_TESTS=OFF
          -DZERO_BUILD_EXAMPLES=OFF
          -DZERO_BUILD_BENCH=OFF
          -DZERO_JSON=OFF
          -DZERO_URING=OFF
          -DZERO_REQUIRE_ALL=ON)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH share/cmake/zero)
# Headers and package files alone: nothing differs in a debug build.
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
