include(${zero_tests_dir} / archetypes / rig.cmake) list(APPEND sources../ support / heap.cpp)
