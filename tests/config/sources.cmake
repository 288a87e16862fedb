# SPDX-License-Identifier: Apache-2.0
set(libraries zero::config)
set(definitions ZERO_CONFIG_CASES="${dir}")
if(TARGET zero-config)
  list(APPEND definitions ZERO_CONFIG_PROGRAM="$<TARGET_FILE:zero-config>") # tested from outside
  set(programs zero-config)
endif()
if(DEFINED zero_yaml)
  list(APPEND libraries ${zero_yaml})
  list(APPEND definitions ZERO_CONFIG_YAML=1)
endif()
set(threads OFF)
set(sanitized fitted_value_test.cpp json_reader_test.cpp load_config_test.cpp resolve_test.cpp) # what reads anything; tests/fuzz has more
