#include "loader/elf_file.hpp"

#include <cstdint>
#include <string_view>

#include "error.hpp"
#include "loader/elf_reader.hpp"

namespace mortise {
namespace {

// Limits the memory for symbol names. A hostile file of a megabyte may list the same bytes as the name of many symbols,
// and so demand gigabytes. A plugin exports one symbol; the largest libraries export 200,000.
constexpr std::size_t kMaxExports = std::size_t{1} << 20;
constexpr std::size_t kMaxLibraries = 1000;
constexpr std::size_t kMaxNameBytes = 256;  // longer names are cut; they are only compared with short ones and shown

std::string_view name_at(std::string_view names, std::uint64_t offset) {
  if (offset >= names.size()) fail("is damaged: a symbol's name lies outside its string table; build it again");
  const std::string_view name = names.substr(offset, kMaxNameBytes);
  return name.substr(0, name.find('\0'));
}

}  // namespace

ElfExports read_elf_exports(std::span<const char> file) {
  const ElfReader reader(file);
  const Elf64_Ehdr header = reader.header();

  for (const auto& segment : reader.segments(header)) {
    if (segment.p_type == PT_LOAD) reader.bytes(segment.p_offset, segment.p_filesz, "loaded segment");
  }

  const auto sections = reader.sections(header);
  if (sections.empty()) fail("has no section headers, so its symbols cannot be checked; do not strip them");
  ElfExports exports;
  bool has_table = false;
  for (const auto& section : sections) {
    if (section.sh_type != SHT_DYNSYM) continue;
    if (has_table) fail("is damaged: it has two dynamic symbol tables; build it again");
    has_table = true;
    if (section.sh_entsize != sizeof(Elf64_Sym) || section.sh_link >= sections.size()) {
      fail("is damaged: its dynamic symbol table is malformed; build it again");
    }
    const Elf64_Shdr& strings = sections[section.sh_link];
    const std::string_view names = reader.bytes(strings.sh_offset, strings.sh_size, "string table");
    if (!names.empty() && names.back() != '\0') fail("is damaged: its string table does not end; build it again");
    const std::uint64_t count = section.sh_size / sizeof(Elf64_Sym);
    for (const auto& symbol : reader.table<Elf64_Sym>(section.sh_offset, count, "dynamic symbol table")) {
      const unsigned binding = ELF64_ST_BIND(symbol.st_info);
      if (symbol.st_shndx == SHN_UNDEF || binding == STB_LOCAL) continue;
      if (exports.symbols.size() == kMaxExports) {
        fail("exports more than {} symbols, but a plugin exports one; name another file", kMaxExports);
      }
      exports.symbols.emplace_back(name_at(names, symbol.st_name));
      if (binding == STB_GNU_UNIQUE) exports.unique.push_back(exports.symbols.back());
    }
  }
  return exports;
}

ElfProperties read_elf_properties(std::span<const char> file) {
  const ElfReader reader(file);
  const Elf64_Ehdr header = reader.header();
  ElfProperties properties;
  bool has_stack = false;
  for (const auto& segment : reader.segments(header)) {
    if (segment.p_type != PT_GNU_STACK) continue;
    has_stack = true;
    properties.has_executable_stack = (segment.p_flags & PF_X) != 0;
  }
  if (!has_stack) properties.has_executable_stack = true;  // the default of the loader
  const auto sections = reader.sections(header);
  for (const auto& section : sections) {
    if (section.sh_type != SHT_DYNAMIC || section.sh_link >= sections.size()) continue;
    const Elf64_Shdr& strings = sections[section.sh_link];
    const std::string_view names = reader.bytes(strings.sh_offset, strings.sh_size, "string table");
    const std::uint64_t count = section.sh_size / sizeof(Elf64_Dyn);
    for (const auto& entry : reader.table<Elf64_Dyn>(section.sh_offset, count, "dynamic section")) {
      if (entry.d_tag == DT_NULL) break;
      const std::uint64_t value = entry.d_un.d_val;
      if (entry.d_tag == DT_FLAGS) {
        properties.has_static_tls |= (value & DF_STATIC_TLS) != 0;
        properties.has_text_relocations |= (value & DF_TEXTREL) != 0;
      }
      if (entry.d_tag == DT_TEXTREL) properties.has_text_relocations = true;
      if (entry.d_tag == DT_RPATH || entry.d_tag == DT_RUNPATH) {
        properties.run_paths.emplace_back(name_at(names, value));
      }
      if (entry.d_tag == DT_NEEDED && properties.libraries.size() < kMaxLibraries) {
        properties.libraries.emplace_back(name_at(names, value));
      }
    }
  }
  return properties;
}

}  // namespace mortise
