# SPDX-License-Identifier: Apache-2.0
set(options ${zero_computes}) # kernels over many elements
# g++ takes several elements at once from -O2 on; both files have the same functions, of which a program keeps one.
set_source_files_properties(${dir}/squares_test.cpp ${dir}/host_workers_test.cpp PROPERTIES
  COMPILE_OPTIONS $<$<NOT:$<CONFIG:Debug>>:-O3> SKIP_PRECOMPILE_HEADERS ON)
