#include "loader/module_manifest.hpp"

#include <elf.h>

#include <cstring>
#include <random>

#include "loader/plugin_file.hpp"
#include "test_support.hpp"

namespace mortise {
namespace {

using namespace test;
using testing::HasSubstr;

TEST(ModuleManifest, IsWhatTheLoadedModuleSays) {
  const PluginFile& file = load_plugin_file(good("toy_device"));
  const auto manifest = read_module_manifest(read_bytes(good("toy_device")));
  ASSERT_TRUE(manifest.has_value());
  EXPECT_EQ(manifest->id, file.id);
  EXPECT_EQ(manifest->vendor, file.vendor);
  EXPECT_EQ(manifest->version, file.version);
  EXPECT_EQ(manifest->license, file.license);
  EXPECT_EQ(manifest->abi_minor, file.abi_minor);
  ASSERT_EQ(manifest->components.size(), file.components.size());
  for (std::size_t i = 0; i < file.components.size(); ++i) {
    const ComponentManifest& read = manifest->components[i];
    const Component& loaded = file.components[i];
    EXPECT_EQ(static_cast<PartKind>(read.kind), loaded.kind);
    EXPECT_EQ(read.name, loaded.name);
    EXPECT_EQ(read.summary, loaded.summary);
    EXPECT_EQ(read.capabilities, loaded.capabilities);
    EXPECT_EQ(read.numerics_id, loaded.numerics_id);
    EXPECT_EQ(read.options_schema, loaded.abi->options_schema);
  }
}

TEST(ModuleManifest, AFileWithoutOneHasNone) {
  EXPECT_FALSE(read_module_manifest(read_bytes(fs::read_symlink("/proc/self/exe"))).has_value());
}

TEST(ModuleManifest, SaysWhatIsNoSharedObject) {
  EXPECT_THAT(error_of([] { read_module_manifest(std::vector<char>{'n', 'o'}); }), HasSubstr("is not an ELF file"));
}

// Whatever is wrong with a file, reading it ends in an Error or in texts of limited size.
TEST(ModuleManifest, SurvivesDamagedFiles) {
  const std::vector<char> sound = read_bytes(good("toy_device"));
  std::mt19937 random(7);
  int num_refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::vector<char> bytes = sound;
    for (int k = 0; k < 1 + i % 20; ++k) bytes[random() % bytes.size()] = static_cast<char>(random());
    if (i % 5 == 0) bytes.resize(random() % bytes.size());
    try {
      const auto manifest = read_module_manifest(bytes);
      if (manifest) EXPECT_LE(manifest->components.size(), 1000u);
    } catch (const Error& error) {
      EXPECT_STRNE(error.what(), "");
      ++num_refused;
    }
  }
  EXPECT_GT(num_refused, 300);
}

// A pointer of the manifest that leads out of the file.
TEST(ModuleManifest, RefusesPointersOutOfTheFile) {
  std::vector<char> bytes = read_bytes(good("toy_device"));
  int num_damaged = 0;
  for (std::size_t at = 0; at + 24 <= bytes.size(); at += 8) {  // the addend of each relocation, and all else
    std::vector<char> changed = bytes;
    for (std::size_t i = 0; i < 8; ++i) changed[at + i] = static_cast<char>(0x7f);
    try {
      read_module_manifest(changed);
    } catch (const Error& error) {
      num_damaged +=
          std::string(error.what()).find("has a manifest that does not lead to constants") != std::string::npos;
    }
  }
  EXPECT_GT(num_damaged, 10);
}

TEST(ModuleManifest, RefusesTooManyRelocations) {
  std::vector<char> bytes = read_bytes(good("toy_device"));
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    char* const at = bytes.data() + header.e_shoff + i * sizeof(Elf64_Shdr);
    Elf64_Shdr section;
    std::memcpy(&section, at, sizeof section);
    if (section.sh_type != SHT_RELA) continue;
    section.sh_size = (std::uint64_t{2} << 20) * sizeof(Elf64_Rela);
    std::memcpy(at, &section, sizeof section);
  }
  EXPECT_THAT(error_of([&] { read_module_manifest(bytes); }),
              HasSubstr("has more than 1048576 relocations; it is not a plugin"));
}

}  // namespace
}  // namespace mortise
