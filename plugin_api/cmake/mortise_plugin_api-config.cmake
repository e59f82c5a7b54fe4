# find_package(mortise_plugin_api): mortise::plugin_api, mortise_add_plugin(), and MORTISE_EXECUTABLE, the program of this
# installation, to check plugins with.
include(${CMAKE_CURRENT_LIST_DIR}/mortise_plugin_api-targets.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/MortisePlugin.cmake)
find_program(MORTISE_EXECUTABLE mortise HINTS ${CMAKE_CURRENT_LIST_DIR}/../../../bin DOC "the program mortise, to check plugins with")
# For mortise/config_section.hpp alone; plugins in C, and C++ ones that read no JSON, build without it.
find_package(nlohmann_json QUIET)
if(TARGET nlohmann_json::nlohmann_json)
  set_property(TARGET mortise::plugin_api APPEND PROPERTY INTERFACE_LINK_LIBRARIES nlohmann_json::nlohmann_json)
endif()
