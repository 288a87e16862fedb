include(${zero_tests_dir} / archetypes / rig.cmake)
