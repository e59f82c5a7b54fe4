# mortise_share_batches(TARGET): its unity build has batches of up to 24 sources, all of about the same size: a second batch of a few
# sources would parse the same headers again.
function(mortise_share_batches target)
  get_target_property(sources ${target} SOURCES)
  list(LENGTH sources num)
  math(EXPR batches "(${num} + 23) / 24")
  math(EXPR size "(${num} + ${batches} - 1) / ${batches}")
  set_target_properties(${target} PROPERTIES UNITY_BUILD_BATCH_SIZE ${size})
endfunction()

# mortise_add_library(NAME SOURCES a.cpp ... [LINK lib ...]): a static library of the host, one per folder of runtime/.
# It sees the plugin API, never plugins/: the ABI is the only door between the two. Of runtime/ it sees its own folder and
# those of the libraries that it links, directly or through others, and these must have been added before: so no two
# folders can include each other.
function(mortise_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
  foreach(lib IN LISTS arg_LINK)
    if(lib MATCHES "^mortise_" AND NOT TARGET ${lib})
      message(FATAL_ERROR "${name} links ${lib}, which runtime/CMakeLists.txt does not list before it: folders build on each other in one direction")
    endif()
  endforeach()
  file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR}/runtime ${CMAKE_CURRENT_SOURCE_DIR})
  string(REGEX REPLACE "/.*" "" folder ${path})
  # A folder that holds nothing but a link to the one that may be included.
  set(include ${PROJECT_BINARY_DIR}/include)
  file(MAKE_DIRECTORY ${include}/${folder} ${include}/root)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/runtime/${folder} ${include}/${folder}/${folder} SYMBOLIC)
  file(GLOB headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/*.hpp) # every folder's
  foreach(header IN LISTS headers)
    get_filename_component(file ${header} NAME)
    file(CREATE_LINK ${header} ${include}/root/${file} SYMBOLIC)
  endforeach()
  add_library(${name} STATIC ${arg_SOURCES})
  mortise_share_batches(${name})
  target_include_directories(${name} PUBLIC ${include}/${folder} ${include}/root)
  target_link_libraries(${name} PUBLIC ${arg_LINK})
endfunction()

# mortise_add_test(NAME SOURCES a_test.cpp ... [LINK lib ...] [INCLUDE dir ...]): one gtest program, one ctest entry a case (with the
# preset fuzz: one entry for the program), whose label is its speed and its folder below tests/, as fast:unit/engine, for
# ctest -L unit/engine or -L fast. The fast ones take less than a minute together; those of gpu are skipped where there is none.
function(mortise_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK;INCLUDE")
  add_executable(${name} ${arg_SOURCES})
  mortise_share_batches(${name})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests ${arg_INCLUDE})
  target_compile_definitions(${name} PRIVATE MORTISE_SOURCE_DIR="${PROJECT_SOURCE_DIR}" MORTISE_BINARY_DIR="${PROJECT_BINARY_DIR}")
  target_link_libraries(${name} PRIVATE ${arg_LINK} GTest::gmock GTest::gtest_main)
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR}/tests ${CMAKE_CURRENT_SOURCE_DIR})
  set(speed fast)
  if(folder MATCHES "_cuda|/cuda$")
    set(speed gpu)
  elseif(folder MATCHES "^property|^unit/speculation$|^plugins/(kernels|devices)/cpu$|^plugins/attention/")
    set(speed slow)
  endif()
  # Hashes of checkpoints are kept in the build's cache folder, and not in the home of whoever runs the tests.
  set(properties LABELS "${speed}:${folder}" ENVIRONMENT XDG_CACHE_HOME=${PROJECT_BINARY_DIR}/test-cache)
  if(MORTISE_FUZZ)
    # One ctest entry for all cases: with sanitizers, and no optimisation, the start of a program takes longer than most cases.
    # The engine's cases take more than half of the time, so they start first and are two entries, which two processors run.
    math(EXPR seconds "4 * ${MORTISE_TEST_SECONDS}")
    if(folder STREQUAL unit/engine)
      foreach(shard 0 1)
        set(entry ${folder}/${name}/${shard})
        add_test(NAME ${entry} COMMAND ${name})
        set_tests_properties(${entry} PROPERTIES TIMEOUT ${seconds} COST 2 ${properties})
        set_property(TEST ${entry} APPEND PROPERTY ENVIRONMENT GTEST_TOTAL_SHARDS=2 GTEST_SHARD_INDEX=${shard})
      endforeach()
    else()
      add_test(NAME ${folder}/${name} COMMAND ${name})
      set_tests_properties(${folder}/${name} PROPERTIES TIMEOUT ${seconds} COST 1 ${properties})
    endif()
  else()
    gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT ${MORTISE_TEST_SECONDS} ${properties})
  endif()
endfunction()
