# SPDX-License-Identifier: Apache-2.0
# Models go between gpt2 and the packages of Python that others read them with. ZERO_TESTS_PYTHON is a Python that has numpy and
# safetensors, and for the last test torch and transformers; a test whose packages are missing is skipped, and says which.
set(ZERO_TESTS_PYTHON "${ZERO_PYTHON3}" CACHE STRING "Python of the tests that read and write models of transformers")
if(NOT TARGET gpt2)
  return() # said where gpt2 is left out
endif()
add_executable(exchange_logits ${zero_tests_dir}/checkpoint/transformers/logits.cpp)
zero_test_options(exchange_logits LIBRARIES gpt2_parts zero::checkpoint)
set_target_properties(exchange_logits PROPERTIES DISABLE_PRECOMPILE_HEADERS ON) # it has no doctest
foreach(test IN ITEMS "export;safetensors reads what zero writes" "import;zero reads what safetensors writes"
                      "transformers;transformers' models here, and ours there")
  list(GET test 0 part)
  list(GET test 1 name)
  add_test(NAME "checkpoint/${name}"
    COMMAND ${ZERO_TESTS_PYTHON} ${zero_tests_dir}/checkpoint/transformers/exchange.py ${part}
            $<TARGET_FILE:gpt2> $<TARGET_FILE:zero-checkpoint> $<TARGET_FILE:exchange_logits>)
  set_tests_properties("checkpoint/${name}" PROPERTIES TIMEOUT 300 LABELS checkpoint SKIP_RETURN_CODE 77
    ENVIRONMENT "OMP_NUM_THREADS=1;OPENBLAS_NUM_THREADS=1;HF_HUB_OFFLINE=1")
endforeach()
