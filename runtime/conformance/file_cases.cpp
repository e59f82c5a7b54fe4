// runtime/conformance/file_cases.cpp: rules of the file, checked before any of its code runs.
#include <algorithm>

#include "conformance/subject.hpp"
#include "loader/elf_file.hpp"

namespace mortise::conformance {
namespace {

void exports_its_entry_alone(Subject& subject) {
  const ElfExports exports = read_elf_exports(subject.bytes());
  expect(std::ranges::count(exports.symbols, MORTISE_PLUGIN_ENTRY_NAME) == 1, "{} is not exported",
         MORTISE_PLUGIN_ENTRY_NAME);
  expect(exports.unique.empty(), "the GNU unique symbol {} is exported; build with -fno-gnu-unique",
         exports.unique.empty() ? "" : exports.unique.front());
  for (const std::string& symbol : exports.symbols) {
    expect(symbol == MORTISE_PLUGIN_ENTRY_NAME, "{} is also exported; hide it with a version script", symbol);
  }
}

void needs_no_static_tls(Subject& subject) {
  expect(!read_elf_properties(subject.bytes()).has_static_tls,
         "the file is linked with the flag STATIC_TLS; build it without -ftls-model=initial-exec");
}

void has_no_writable_code(Subject& subject) {
  const ElfProperties properties = read_elf_properties(subject.bytes());
  expect(!properties.has_text_relocations, "the file has text relocations; compile all of it with -fPIC");
  expect(!properties.has_executable_stack, "the file asks for an executable stack; link it with -Wl,-z,noexecstack");
}

void is_found_on_any_machine(Subject& subject) {
  for (const std::string& paths : read_elf_properties(subject.bytes()).run_paths) {
    expect(paths.find("$ORIGIN") == std::string::npos,
           "the run path {} uses $ORIGIN, but the host loads a copy of the file from another folder", paths);
    expect(!paths.starts_with("/home") && !paths.starts_with("/tmp") && paths.find("/build") == std::string::npos,
           "the run path {} is a folder of the machine that built the file; link it with -DCMAKE_SKIP_RPATH=ON", paths);
  }
}

void loads(Subject& subject) {
  subject.file();
}

constexpr Case kFileCases[] = {
    {"file.exports", "The file exports its entry and nothing else.", kOfFile, exports_its_entry_alone},
    {"file.static_tls", "The file can be loaded many times: it needs no static thread-local storage.", kOfFile,
     needs_no_static_tls},
    {"file.memory", "No part of the file is both writable and executable.", kOfFile, has_no_writable_code},
    {"file.run_path", "The file finds its libraries on any machine.", kOfFile, is_found_on_any_machine},
    {"file.loads", "The host loads the file, and accepts its description.", kOfFile, loads},
};

}  // namespace

std::span<const Case> file_cases() {
  return kFileCases;
}

}  // namespace mortise::conformance
