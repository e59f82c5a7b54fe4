#include "loader/elf_reader.hpp"

#include <string>

namespace mortise {
namespace {

#if defined(__x86_64__)
constexpr std::uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr std::uint16_t kMachine = EM_AARCH64;
#else
#error "which e_machine do shared objects of this architecture have?"
#endif

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

}  // namespace

Elf64_Ehdr ElfReader::header() const {
  if (file_.size() < EI_NIDENT || bytes(0, SELFMAG, "magic") != std::string_view(ELFMAG, SELFMAG)) {
    fail("is not an ELF file; a plugin is a shared object that mortise_add_plugin() built");
  }
  const char elf_class = bytes(EI_CLASS, 1, "header")[0];
  if (elf_class == ELFCLASS32) fail("is a 32-bit ELF file; build it for this machine ({})", machine_name(kMachine));
  const char data = bytes(EI_DATA, 1, "header")[0];
  if (elf_class != ELFCLASS64 || data != ELFDATA2LSB) {
    fail("is an ELF file of another byte order or class; build it for this machine ({})", machine_name(kMachine));
  }
  const Elf64_Ehdr header = table<Elf64_Ehdr>(0, 1, "header")[0];
  if (header.e_machine != kMachine) {
    fail("is built for {}, but this machine is {}; build it for this machine", machine_name(header.e_machine),
         machine_name(kMachine));
  }
  if (header.e_type != ET_DYN) fail("is {}, not a shared object; link it with -shared", type_name(header.e_type));
  return header;
}

std::vector<Elf64_Phdr> ElfReader::segments(const Elf64_Ehdr& header) const {
  if (header.e_phentsize != sizeof(Elf64_Phdr)) fail("is damaged: it has no program headers; build it again");
  return table<Elf64_Phdr>(header.e_phoff, header.e_phnum, "table of program headers");
}

std::vector<Elf64_Shdr> ElfReader::sections(const Elf64_Ehdr& header) const {
  if (header.e_shoff == 0 || header.e_shentsize != sizeof(Elf64_Shdr)) return {};
  return table<Elf64_Shdr>(header.e_shoff, header.e_shnum, "table of section headers");
}

}  // namespace mortise
