# mortise_add_library(NAME SOURCES a.cpp ... [LINK lib ...]): a static library of the host, one per folder of runtime/.
# It sees runtime/ and the plugin API, never plugins/: the ABI is the only door between the two.
function(mortise_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
  add_library(${name} STATIC ${arg_SOURCES})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR}/runtime)
  target_link_libraries(${name} PUBLIC ${arg_LINK})
endfunction()

# mortise_add_test(NAME SOURCES a_test.cpp ... [LINK lib ...] [INCLUDE dir ...]): one gtest program, one ctest entry a case.
function(mortise_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK;INCLUDE")
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests ${arg_INCLUDE})
  target_compile_definitions(${name} PRIVATE MORTISE_SOURCE_DIR="${PROJECT_SOURCE_DIR}" MORTISE_BINARY_DIR="${PROJECT_BINARY_DIR}")
  target_link_libraries(${name} PRIVATE ${arg_LINK} GTest::gmock GTest::gtest_main)
  # Hashes of checkpoints are kept there, and not in the home of whoever runs the tests.
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST PROPERTIES ENVIRONMENT XDG_CACHE_HOME=${PROJECT_BINARY_DIR}/test-cache)
endfunction()
