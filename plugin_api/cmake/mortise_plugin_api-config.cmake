include(CMakeFindDependencyMacro)
find_dependency(nlohmann_json)
include(${CMAKE_CURRENT_LIST_DIR}/mortise_plugin_api-targets.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/MortisePlugin.cmake)
