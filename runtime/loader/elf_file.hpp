// runtime/loader/elf_file.hpp: looks into a shared object before it is loaded, for a dlopen runs code and its own
// messages do not help. Reads the bytes of the file only; every offset in them is checked, whoever wrote them.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace mortise {

struct ElfExports {
  std::vector<std::string> symbols;  // what the file exports (defined, dynamic), in the order of the file
  std::vector<std::string> unique;   // those of them that are GNU unique symbols
};

// Throws an Error that says why `file` is no shared object for this machine; the text reads on after the file's name
// ("is a 32-bit ELF file; ..."). Also refuses a file that is shorter than its headers say: mapping it would end in
// SIGBUS.
ElfExports read_elf_exports(std::span<const char> file);

}  // namespace mortise
