#include "loader/elf_file.hpp"

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "error.hpp"

namespace mortise {
namespace {

#if defined(__x86_64__)
constexpr std::uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr std::uint16_t kMachine = EM_AARCH64;
#else
#error "which e_machine do shared objects of this architecture have?"
#endif

// Limits the memory for symbol names. A hostile file of a megabyte may list the same bytes as the name of many symbols,
// and so demand gigabytes. A plugin exports one symbol; the largest libraries export 200,000.
constexpr std::size_t kMaxExports = std::size_t{1} << 20;
constexpr std::size_t kMaxLibraries = 1000;
constexpr std::size_t kMaxNameBytes = 256;  // longer names are cut; they are only compared with short ones and shown

std::string machine_name(std::uint16_t machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86-64";
    case EM_AARCH64:
      return "aarch64";
    case EM_386:
      return "i386";
    case EM_ARM:
      return "arm";
    case EM_RISCV:
      return "riscv";
    case EM_PPC64:
      return "ppc64";
    default:
      return fmt::format("machine {}", machine);
  }
}

const char* type_name(std::uint16_t type) {
  switch (type) {
    case ET_REL:
      return "an object file";
    case ET_EXEC:
      return "an executable";
    case ET_CORE:
      return "a core dump";
    default:
      return "of an unknown type";
  }
}

// Reads tables of an ELF file within its bounds. Used by one thread.
class Reader {
 public:
  explicit Reader(std::span<const char> file) : file_(file) {}

  // Copies `count` entries of T at `offset`, if they are within the file. A copy, because they may not be aligned.
  template <typename T>
  std::vector<T> table(std::uint64_t offset, std::uint64_t count, const char* what) const {
    if (offset > file_.size() || count > (file_.size() - offset) / sizeof(T)) truncated(what);
    std::vector<T> entries(count);
    if (count != 0) std::memcpy(entries.data(), file_.data() + offset, count * sizeof(T));
    return entries;
  }

  std::string_view bytes(std::uint64_t offset, std::uint64_t size, const char* what) const {
    if (offset > file_.size() || size > file_.size() - offset) truncated(what);
    return {file_.data() + offset, size};
  }

 private:
  [[noreturn]] void truncated(const char* what) const {
    fail("is damaged or truncated: its {} lies beyond its end ({} bytes); copy or build it again", what, file_.size());
  }

  std::span<const char> file_;
};

Elf64_Ehdr read_header(const Reader& reader, std::size_t size) {
  if (size < EI_NIDENT || reader.bytes(0, SELFMAG, "magic") != std::string_view(ELFMAG, SELFMAG)) {
    fail("is no ELF file; a plugin is a shared object that mortise_add_plugin() built");
  }
  const char elf_class = reader.bytes(EI_CLASS, 1, "header")[0];
  if (elf_class == ELFCLASS32) fail("is a 32-bit ELF file; build it for this machine ({})", machine_name(kMachine));
  const char data = reader.bytes(EI_DATA, 1, "header")[0];
  if (elf_class != ELFCLASS64 || data != ELFDATA2LSB) {
    fail("is an ELF file of another byte order or class; build it for this machine ({})", machine_name(kMachine));
  }
  const Elf64_Ehdr header = reader.table<Elf64_Ehdr>(0, 1, "header")[0];
  if (header.e_machine != kMachine) {
    fail("is built for {}, this machine is {}; build it for this machine", machine_name(header.e_machine),
         machine_name(kMachine));
  }
  if (header.e_type != ET_DYN) fail("is {}, not a shared object; link it with -shared", type_name(header.e_type));
  return header;
}

std::string_view name_at(std::string_view names, std::uint64_t offset) {
  if (offset >= names.size()) fail("is damaged: a symbol's name lies outside its string table; build it again");
  const std::string_view name = names.substr(offset, kMaxNameBytes);
  return name.substr(0, name.find('\0'));
}

}  // namespace

ElfExports read_elf_exports(std::span<const char> file) {
  const Reader reader(file);
  const Elf64_Ehdr header = read_header(reader, file.size());

  if (header.e_phentsize != sizeof(Elf64_Phdr)) fail("is damaged: it has no program headers; build it again");
  for (const auto& segment : reader.table<Elf64_Phdr>(header.e_phoff, header.e_phnum, "table of program headers")) {
    if (segment.p_type == PT_LOAD) reader.bytes(segment.p_offset, segment.p_filesz, "loaded segment");
  }

  if (header.e_shoff == 0 || header.e_shentsize != sizeof(Elf64_Shdr)) {
    fail("has no section headers, so its symbols cannot be checked; do not strip them");
  }
  const auto sections = reader.table<Elf64_Shdr>(header.e_shoff, header.e_shnum, "table of section headers");
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
        fail("exports more than {} symbols, and a plugin exports one; name another file", kMaxExports);
      }
      exports.symbols.emplace_back(name_at(names, symbol.st_name));
      if (binding == STB_GNU_UNIQUE) exports.unique.push_back(exports.symbols.back());
    }
  }
  return exports;
}

ElfProperties read_elf_properties(std::span<const char> file) {
  const Reader reader(file);
  const Elf64_Ehdr header = read_header(reader, file.size());
  if (header.e_phentsize != sizeof(Elf64_Phdr)) fail("is damaged: it has no program headers; build it again");
  ElfProperties properties;
  bool has_stack = false;
  for (const auto& segment : reader.table<Elf64_Phdr>(header.e_phoff, header.e_phnum, "table of program headers")) {
    if (segment.p_type != PT_GNU_STACK) continue;
    has_stack = true;
    properties.has_executable_stack = (segment.p_flags & PF_X) != 0;
  }
  if (!has_stack) properties.has_executable_stack = true;  // the default of the loader
  if (header.e_shoff == 0 || header.e_shentsize != sizeof(Elf64_Shdr)) return properties;
  const auto sections = reader.table<Elf64_Shdr>(header.e_shoff, header.e_shnum, "table of section headers");
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
