# SPDX-License-Identifier: Apache-2.0
"""The recipe of zero for Conan 2; takes the sources that it stands in."""

import os

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy


class Zero(ConanFile):
    name = "zero"
    version = "0.1.0"
    license = "Apache-2.0"
    description = "ZeRO for your own C++ model: sharded training states, header-only C++20"
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    no_copy_source = True

    def export_sources(self):
        root = os.path.join(self.recipe_folder, "..", "..", "..")
        for pattern in ("CMakeLists.txt", "LICENSE", "include/*"):
            copy(self, pattern, src=root, dst=self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for option in ("ZERO_BUILD_TESTS", "ZERO_BUILD_EXAMPLES", "ZERO_BUILD_BENCH", "ZERO_MPI", "ZERO_JSON",
                       "ZERO_URING"):
            toolchain.cache_variables[option] = False
        toolchain.generate()

    def build(self):
        CMake(self).configure()

    def package(self):
        CMake(self).install()

    def package_id(self):
        self.info.clear()

    def package_info(self):
        # The package file that was installed is the one that is found.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("share", "cmake", "zero")]
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
