#include "loader/elf_file.hpp"

#include <elf.h>

#include <random>

#include "test_support.hpp"

namespace mortise {
namespace {

using namespace test;
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
  EXPECT_THAT(refusal({}), HasSubstr("no ELF file"));
  const std::string text = "return pipeline {}; this is a script and no plugin";
  EXPECT_THAT(refusal({text.begin(), text.end()}), HasSubstr("no ELF file"));

  auto bytes = read_bytes(good("lively"));
  bytes[EI_CLASS] = ELFCLASS32;
  EXPECT_THAT(refusal(bytes), HasSubstr("32-bit"));
  bytes[EI_CLASS] = ELFCLASS64;
  bytes[EI_DATA] = ELFDATA2MSB;
  EXPECT_THAT(refusal(bytes), HasSubstr("byte order"));
  bytes[EI_DATA] = ELFDATA2LSB;
  const std::uint16_t other = header_of(bytes).e_machine == EM_AARCH64 ? EM_X86_64 : EM_AARCH64;
  std::memcpy(bytes.data() + offsetof(Elf64_Ehdr, e_machine), &other, sizeof other);
  EXPECT_THAT(refusal(bytes), HasSubstr("is built for "));
  EXPECT_THAT(refusal(bytes), HasSubstr("build it for this machine"));
}

TEST(ElfFile, SaysWhatIsAnExecutableOrAnObjectFile) {
  auto bytes = read_bytes(good("lively"));
  for (const auto& [type, word] : {std::pair(ET_EXEC, "an executable"), std::pair(ET_REL, "an object file")}) {
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
