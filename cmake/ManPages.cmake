# mortise.1, and a page for each sub-command (mortise-run.1, mortise-plugin-new.1): help2man makes them from the program's
# --help, and runtime/cli/man adds what --help does not say. Without help2man there are none, and a line of the configuration says so.
find_program(HELP2MAN help2man)
if(NOT HELP2MAN)
  message(STATUS "man pages: help2man was not found (Debian: help2man); they are not made")
  return()
endif()
if(CMAKE_CROSSCOMPILING)
  message(STATUS "man pages: the program is for another machine, so help2man cannot run it; they are not made")
  return()
endif()
set(man_folder ${PROJECT_BINARY_DIR}/man)
set(man_script ${PROJECT_SOURCE_DIR}/runtime/cli/man/make_pages.sh)
file(GLOB man_texts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/cli/man/*.h2m)
add_custom_command(
  OUTPUT ${man_folder}/made
  COMMAND ${man_script} ${HELP2MAN} $<TARGET_FILE:mortise> ${PROJECT_VERSION} ${man_folder}
  DEPENDS mortise ${man_script} ${man_texts}
  COMMENT "Making the man pages"
  VERBATIM)
add_custom_target(man_pages ALL DEPENDS ${man_folder}/made)
install(DIRECTORY ${man_folder}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 FILES_MATCHING PATTERN *.1)
