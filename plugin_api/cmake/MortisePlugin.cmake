# mortise_add_plugin(NAME KIND kind SOURCES a.cpp ... [LINK lib ...] [OUTPUT file]): a plugin file NAME.so (or OUTPUT.so).
# Built so that the host can load the same file twice and forget neither: one exported symbol, no GNU unique symbols (they
# make an image unloadable and shared between private copies), nothing undefined, no initial-exec TLS.
set(MORTISE_PLUGIN_KINDS device model attention proposer scheduler)
set(MORTISE_PLUGIN_EXPORT_MAP ${CMAKE_CURRENT_LIST_DIR}/mortise_plugin.map)

function(mortise_add_plugin name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "KIND;OUTPUT" "SOURCES;LINK")
  if(NOT arg_KIND IN_LIST MORTISE_PLUGIN_KINDS)
    message(FATAL_ERROR "${name}: KIND '${arg_KIND}' is not one of ${MORTISE_PLUGIN_KINDS}; see plugin_api/README.md")
  endif()
  if(NOT arg_OUTPUT)
    set(arg_OUTPUT ${name})
  endif()
  add_library(${name} MODULE ${arg_SOURCES}) # MODULE: loaded at run time, never linked against
  target_link_libraries(${name} PRIVATE mortise::plugin_api ${arg_LINK})
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if("CXX" IN_LIST languages) # a project may be in C alone
    target_compile_features(${name} PRIVATE cxx_std_20)
  endif()
  if("C" IN_LIST languages)
    target_compile_features(${name} PRIVATE c_std_11)
  endif()
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-gnu-unique> -ffp-contract=off) # clang makes none
  target_link_options(${name} PRIVATE -Wl,-z,now -Wl,--version-script=${MORTISE_PLUGIN_EXPORT_MAP})
  if(NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize") # a sanitizer's run time is in the executable: undefined here by design
    target_link_options(${name} PRIVATE -Wl,-z,defs)
  endif()
  set_target_properties(
    ${name}
    PROPERTIES PREFIX ""
               OUTPUT_NAME ${arg_OUTPUT}
               CXX_VISIBILITY_PRESET hidden
               VISIBILITY_INLINES_HIDDEN ON
               LINK_DEPENDS ${MORTISE_PLUGIN_EXPORT_MAP})
  if(MORTISE_PLUGIN_OUTPUT_DIR)
    set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${MORTISE_PLUGIN_OUTPUT_DIR})
  endif()
  if(MORTISE_PLUGIN_INSTALL_DIR)
    install(TARGETS ${name} LIBRARY DESTINATION ${MORTISE_PLUGIN_INSTALL_DIR})
  endif()
endfunction()
