// runtime/loader/elf_file.hpp: inspects a shared object before it is loaded, because dlopen runs its code, and dlopen's
// own messages do not help. Reads only the bytes of the file, and checks every offset in them.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace mortise {

struct ElfExports {
  std::vector<std::string> symbols;  // exported symbols (defined, dynamic), in the order of the file
  std::vector<std::string> unique;   // those of them that are GNU unique symbols
};

// Throws an Error if `file` is not a shared object for this machine; the text continues a sentence that begins with the
// file's name ("is a 32-bit ELF file; ..."). Also refuses a file that is shorter than its headers say, since mapping it
// would raise SIGBUS.
ElfExports read_elf_exports(std::span<const char> file);

// What makes a shared object unfit to be loaded several times, or on another machine.
struct ElfProperties {
  bool has_static_tls = false;        // thread-local variables that need room at the start of the process
  bool has_text_relocations = false;  // its code is changed when it is loaded
  bool has_executable_stack = false;
  std::vector<std::string> run_paths;  // RPATH and RUNPATH
  std::vector<std::string> libraries;  // DT_NEEDED
};

// Throws an Error as read_elf_exports does.
ElfProperties read_elf_properties(std::span<const char> file);

}  // namespace mortise
