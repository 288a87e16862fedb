# SPDX-License-Identifier: Apache-2.0
set(sanitized OFF) # trainers as in archetypes/, and what they send
include(${zero_tests_dir}/archetypes/rig.cmake)
