# Packages of an installation, made in the build folder by `cpack -G DEB` and `cpack -G TGZ`, into packages/.
#
# There is one package, with the program, plugins, models, pipelines, and the headers: a program takes plugins of its own ABI
# minor and of the one before, so it comes with headers that it takes. CUDA plugins are in it if they were
# built; they look for CUDA's libraries when a device is opened, so nothing depends on these.
#
# A .deb depends on the packages of the libraries (dpkg-shlibdeps). An archive carries them in lib/mortise, where the
# program's RPATH looks: all but glibc, and libstdc++ with libgcc, which every Debian has, and which must not be older than
# those that a plugin of somebody else was built with.
include(GNUInstallDirs)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
install(FILES README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(RUNTIME_DEPENDENCY_SET mortise_libraries
        PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread|resolv|stdc\\+\\+|gcc_s)\\.so"
        LIBRARY DESTINATION lib/mortise COMPONENT libraries EXCLUDE_FROM_ALL)

set(CPACK_PACKAGE_NAME mortise)
set(CPACK_PACKAGE_VENDOR Mortise)
set(CPACK_PACKAGE_CONTACT "Mortise <mortise@localhost>" CACHE STRING "maintainer of the packages")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGE_FILE_NAME mortise-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_STRIP_FILES ON)
set(CPACK_THREADS 0)

# Which components a generator packs, into one file.
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_BINARY_DIR}/PackageOfGenerator.cmake)
file(CONFIGURE OUTPUT ${CPACK_PROJECT_CONFIG_FILE} CONTENT [[
set(CPACK_COMPONENTS_ALL program plugin_api)
if(CPACK_GENERATOR STREQUAL "DEB")
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
else()
  list(APPEND CPACK_COMPONENTS_ALL libraries)
  set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY ON)
endif()
]])

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS nlohmann-json3-dev) # mortise/config_section.hpp, for models in C++
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "cmake, g++, ninja-build, libcublas-13-0")
include(CPack)
