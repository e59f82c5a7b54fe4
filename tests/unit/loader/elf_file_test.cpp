// Covers: runtime/loader/elf_reader
#include "loader/elf_file.hpp"

#include <elf.h>

#include <array>
#include <cstring>
#include <random>

#include "test_support.hpp"

namespace mortise {
namespace {

using namespace test;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string refusal(const std::vector<char>& bytes) {
  return error_of([&] { read_elf_exports(bytes); });
}

Elf64_Ehdr header_of(const std::vector<char>& bytes) {
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  return header;
}

TEST(ElfFile, APluginExportsItsEntryAlone) {
  const auto exports = read_elf_exports(read_bytes(good("lively")));
  EXPECT_THAT(exports.symbols, ElementsAre("mortise_plugin_entry_v0"));
  EXPECT_THAT(exports.unique, ElementsAre());
}

TEST(ElfFile, UniqueSymbolsAreFound) {
  EXPECT_FALSE(read_elf_exports(read_bytes(bad("unique_symbol"))).unique.empty());
}

TEST(ElfFile, SaysWhatIsNotASharedObjectOfThisMachine) {
  EXPECT_THAT(refusal({}),
              HasSubstr("is not an ELF file; a plugin is a shared object that mortise_add_plugin() built"));
  const std::string text = "return pipeline {}; this is a script and no plugin";
  EXPECT_THAT(refusal({text.begin(), text.end()}), HasSubstr("is not an ELF file"));

  auto bytes = read_bytes(good("lively"));
  bytes[EI_CLASS] = ELFCLASS32;
  EXPECT_THAT(refusal(bytes), HasSubstr("is a 32-bit ELF file; build it for this machine"));
  bytes[EI_CLASS] = ELFCLASS64;
  bytes[EI_DATA] = ELFDATA2MSB;
  EXPECT_THAT(refusal(bytes), HasSubstr("is an ELF file of another byte order or class"));
  bytes[EI_DATA] = ELFDATA2LSB;
  const std::uint16_t other = header_of(bytes).e_machine == EM_AARCH64 ? EM_X86_64 : EM_AARCH64;
  std::memcpy(bytes.data() + offsetof(Elf64_Ehdr, e_machine), &other, sizeof other);
  EXPECT_THAT(refusal(bytes), AllOf(HasSubstr("is built for "), HasSubstr(", but this machine is ")));
  EXPECT_THAT(refusal(bytes), HasSubstr("; build it for this machine"));
}

TEST(ElfFile, SaysWhatIsAnExecutableOrAnObjectFile) {
  auto bytes = read_bytes(good("lively"));
  for (const auto& [type, word] : {std::pair(ET_EXEC, "is an executable, not a shared object; link it with -shared"),
                                   std::pair(ET_REL, "is an object file"), std::pair(ET_CORE, "is a core dump"),
                                   std::pair(77, "is of an unknown type")}) {
    const auto value = static_cast<std::uint16_t>(type);
    std::memcpy(bytes.data() + offsetof(Elf64_Ehdr, e_type), &value, sizeof value);
    EXPECT_THAT(refusal(bytes), HasSubstr(word));
  }
}

TEST(ElfFile, EveryTruncationIsRefused) {
  const auto bytes = read_bytes(good("lively"));
  for (std::size_t size = 0; size < bytes.size(); size += 1 + size / 40) {
    EXPECT_NE(refusal({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)}), "") << size;
  }
  EXPECT_NE(refusal({bytes.begin(), bytes.end() - 1}), "");  // "": the section headers at the end were not checked
}

// A shared object of nothing but a dynamic symbol table: header, one program header, three section headers (null,
// symbols, names), symbols and names.
class TinyElf {
 public:
  std::vector<Elf64_Sym> symbols;
  std::string names = std::string(1, '\0');
  std::uint64_t names_size = 0;  // the size in the section header; 0: the true one
  std::uint32_t strings_section = 2;
  std::uint64_t entry_size = sizeof(Elf64_Sym);
  std::uint32_t last_type = SHT_STRTAB;
  std::uint16_t header_entry_size = sizeof(Elf64_Phdr);

  void add(const std::string& name) {
    symbols.push_back({.st_name = static_cast<Elf64_Word>(names.size()),
                       .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                       .st_other = 0,
                       .st_shndx = 1,
                       .st_value = 0,
                       .st_size = 0});
    names += name + '\0';
  }

  std::vector<char> bytes() const {
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_type = ET_DYN;
    header.e_machine = header_of(read_bytes(good("lively"))).e_machine;
    header.e_phoff = sizeof header;
    header.e_phentsize = header_entry_size;
    header.e_phnum = 1;
    header.e_shoff = sizeof header + sizeof(Elf64_Phdr);
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = 3;
    std::array<Elf64_Shdr, 3> sections{};
    const std::uint64_t begin = header.e_shoff + sizeof sections;
    const std::uint64_t symbol_bytes = symbols.size() * sizeof(Elf64_Sym);
    sections[1].sh_type = SHT_DYNSYM;
    sections[1].sh_link = strings_section;
    sections[1].sh_entsize = entry_size;
    sections[1].sh_offset = begin;
    sections[1].sh_size = symbol_bytes;
    sections[2] = sections[1];
    sections[2].sh_type = last_type;
    if (last_type == SHT_STRTAB) {
      sections[2].sh_offset = begin + symbol_bytes;
      sections[2].sh_size = names_size == 0 ? names.size() : names_size;
    }
    const Elf64_Phdr segment{};
    std::vector<char> out;
    const auto append = [&out](const void* data, std::size_t size) {
      out.insert(out.end(), static_cast<const char*>(data), static_cast<const char*>(data) + size);
    };
    append(&header, sizeof header);
    append(&segment, sizeof segment);
    append(sections.data(), sizeof sections);
    append(symbols.data(), symbol_bytes);
    append(names.data(), names.size());
    return out;
  }
};

TEST(ElfFile, ATinyFileIsRead) {
  TinyElf elf;
  elf.add("one");
  elf.add(std::string(1000, 'x'));
  EXPECT_THAT(read_elf_exports(elf.bytes()).symbols, ElementsAre("one", std::string(256, 'x')));
}

TEST(ElfFile, DamageIsNamed) {
  const auto refusal_with = [](auto change) {
    TinyElf elf;
    elf.add("one");
    change(elf);
    return refusal(elf.bytes());
  };
  EXPECT_THAT(refusal_with([](TinyElf& elf) { elf.header_entry_size = 8; }), HasSubstr("it has no program headers"));
  EXPECT_THAT(refusal_with([](TinyElf& elf) { elf.entry_size = 8; }), HasSubstr("dynamic symbol table is malformed"));
  EXPECT_THAT(refusal_with([](TinyElf& elf) { elf.strings_section = 3; }), HasSubstr("symbol table is malformed"));
  EXPECT_THAT(refusal_with([](TinyElf& elf) { elf.symbols[0].st_name = 5; }),
              HasSubstr("a symbol's name lies outside its string table; build it again"));
  EXPECT_THAT(refusal_with([](TinyElf& elf) { elf.names.back() = 'x'; }), HasSubstr("its string table does not end"));
  EXPECT_THAT(refusal_with([](TinyElf& elf) { elf.names_size = 1000; }),
              HasSubstr("is damaged or truncated: its string table lies beyond its end"));
  EXPECT_THAT(refusal_with([](TinyElf& elf) { elf.last_type = SHT_DYNSYM; }),
              HasSubstr("it has two dynamic symbol tables"));
  EXPECT_THAT(refusal({}), HasSubstr("is not an ELF file"));
  TinyElf elf;
  auto bytes = elf.bytes();
  std::memset(bytes.data() + offsetof(Elf64_Ehdr, e_shoff), 0, 8);
  EXPECT_THAT(refusal(bytes), HasSubstr("has no section headers, so its symbols cannot be checked; do not strip them"));
}

TEST(ElfFile, MoreExportsThanAnyLibraryHasAreRefused) {
  TinyElf elf;
  elf.add("one");
  elf.symbols.resize((1 << 20) + 1, elf.symbols[0]);  // all of one name: 24 bytes each
  EXPECT_THAT(refusal(elf.bytes()), HasSubstr("exports more than 1048576 symbols, but a plugin exports one"));
}

// Whatever the headers say, nothing outside the file is read (run under asan to see it) and nothing but Error comes
// out.
TEST(ElfFile, DamagedHeadersNeverReadOutsideTheFile) {
  const auto bytes = read_bytes(bad("missing_slot"));
  const Elf64_Ehdr header = header_of(bytes);
  const unsigned seed = std::random_device{}();
  std::mt19937_64 random(seed);
  SCOPED_TRACE(seed);
  for (int round = 0; round < 20000; ++round) {
    auto damaged = bytes;
    for (int hit = 0; hit < 4; ++hit) {
      // In the ELF header, the program headers or the section headers.
      const std::uint64_t area = random() % 3;
      const std::uint64_t begin = area == 0 ? 0 : area == 1 ? header.e_phoff : header.e_shoff;
      const std::uint64_t length = area == 0   ? sizeof header
                                   : area == 1 ? header.e_phnum * sizeof(Elf64_Phdr)
                                               : header.e_shnum * sizeof(Elf64_Shdr);
      static constexpr std::uint64_t kValues[] = {0, 1, 0x7f, 0xff};
      damaged[begin + random() % length] = static_cast<char>(round % 2 == 0 ? kValues[random() % 4] : random());
    }
    error_of([&] { read_elf_exports(damaged); });
  }
}

}  // namespace
}  // namespace mortise
