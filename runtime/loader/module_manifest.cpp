#include "loader/module_manifest.hpp"

#include <cstddef>
#include <map>
#include <string_view>
#include <utility>

#include "error.hpp"
#include "loader/elf_reader.hpp"
#include "loader/plugin_file.hpp"
#include "mortise/manifest.h"

namespace mortise {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kRelative = R_X86_64_RELATIVE;
#elif defined(__aarch64__)
constexpr std::uint32_t kRelative = R_AARCH64_RELATIVE;
#else
#error "which relocation adds the load address of a shared object on this architecture?"
#endif

constexpr std::size_t kMaxManifestComponents = 1000;
constexpr std::size_t kMaxText = 4096, kMaxSchema = std::size_t{1} << 20;
// Of a whole manifest: a hostile file may name the same bytes many times.
constexpr std::size_t kMaxBytes = std::size_t{8} << 20, kMaxRelocations = std::size_t{1} << 20;

// The constants of a shared object at their addresses, as they are when it is loaded at address 0. Used by one thread.
class Constants {
 public:
  explicit Constants(const ElfReader& reader) : reader_(reader) {
    const Elf64_Ehdr header = reader.header();
    for (const Elf64_Phdr& segment : reader.segments(header)) {
      if (segment.p_type == PT_LOAD) segments_.push_back(segment);
    }
    const auto sections = reader.sections(header);
    if (header.e_shstrndx >= sections.size()) return;  // no names, so no manifest
    const Elf64_Shdr& names = sections[header.e_shstrndx];
    const std::string_view text = reader.bytes(names.sh_offset, names.sh_size, "section names");
    for (const Elf64_Shdr& section : sections) {
      if (section.sh_type == SHT_RELA) add_relocations(section);
      if (section.sh_name >= text.size()) continue;
      const std::string_view name = text.substr(section.sh_name);
      if (name.substr(0, name.find('\0')) == MORTISE_MANIFEST_SECTION) manifest_ = section.sh_addr;
    }
  }

  // The address of the manifest's pointer; 0: there is none.
  std::uint64_t manifest() const { return manifest_; }

  // Returns the pointer that is stored at `address`, relocated for a load at address 0. 0 means NULL.
  std::uint64_t pointer(std::uint64_t address) const {
    const auto found = relative_.find(address);
    return found != relative_.end() ? found->second : value<std::uint64_t>(address);
  }
  template <typename T>
  T value(std::uint64_t address) const {
    const std::string_view bytes = at(address);
    if (bytes.size() < sizeof(T)) damaged();
    T result;
    std::memcpy(&result, bytes.data(), sizeof result);
    return result;
  }
  // The text that the pointer at `address` points to; "" if it is NULL.
  std::string text(std::uint64_t address, std::size_t most) {
    const std::uint64_t begin = pointer(address);
    if (begin == 0) return {};
    const std::string_view bytes = at(begin).substr(0, most + 1);
    const std::size_t size = bytes.find('\0');
    if (size == std::string_view::npos || size > bytes_left_) damaged();
    bytes_left_ -= size;
    return std::string(bytes.substr(0, size));
  }
  [[noreturn]] static void damaged() {
    fail(
        "has a manifest that does not lead to constants in the file: the file is damaged, or its components are made "
        "when it is loaded; if you trust it, --run loads it");
  }

 private:
  void add_relocations(const Elf64_Shdr& section) {
    const std::uint64_t count = section.sh_size / sizeof(Elf64_Rela);
    if (count > relocations_left_) fail("has more than {} relocations; it is not a plugin", kMaxRelocations);
    relocations_left_ -= count;
    for (const auto& entry : reader_.table<Elf64_Rela>(section.sh_offset, count, "table of relocations")) {
      if (ELF64_R_TYPE(entry.r_info) == kRelative) {
        relative_[entry.r_offset] = static_cast<std::uint64_t>(entry.r_addend);
      }
    }
  }
  // The bytes of the file from this address to the end of its segment.
  std::string_view at(std::uint64_t address) const {
    for (const Elf64_Phdr& segment : segments_) {
      if (address < segment.p_vaddr || address - segment.p_vaddr >= segment.p_filesz) continue;
      return reader_.bytes(segment.p_offset, segment.p_filesz, "loaded segment").substr(address - segment.p_vaddr);
    }
    damaged();
  }

  const ElfReader& reader_;
  std::vector<Elf64_Phdr> segments_;
  std::map<std::uint64_t, std::uint64_t> relative_;  // address of a pointer -> what it points to
  std::uint64_t manifest_ = 0;
  std::size_t bytes_left_ = kMaxBytes, relocations_left_ = kMaxRelocations;
};

ComponentManifest read_component(Constants& constants, std::uint64_t at) {
  if (constants.value<std::uint32_t>(at) < offsetof(mortise_component, table)) Constants::damaged();
  ComponentManifest component;
  component.kind = constants.value<std::int32_t>(at + offsetof(mortise_component, kind));
  component.capabilities = constants.value<std::uint64_t>(at + offsetof(mortise_component, capabilities));
  component.name = constants.text(at + offsetof(mortise_component, name), kMaxText);
  component.summary = constants.text(at + offsetof(mortise_component, summary), kMaxText);
  component.options_schema = constants.text(at + offsetof(mortise_component, options_schema), kMaxSchema);
  component.numerics_id = constants.text(at + offsetof(mortise_component, numerics_id), kMaxText);
  return component;
}

}  // namespace

std::optional<ModuleManifest> read_module_manifest(std::span<const char> file) {
  const ElfReader reader(file);
  Constants constants(reader);
  if (constants.manifest() == 0) return std::nullopt;
  const std::uint64_t at = constants.pointer(constants.manifest());
  if (at == 0 || constants.value<std::uint32_t>(at) < offsetof(mortise_module, components) + sizeof(void*)) {
    Constants::damaged();
  }
  ModuleManifest manifest;
  manifest.abi_minor = constants.value<std::uint32_t>(at + offsetof(mortise_module, abi_minor));
  manifest.id = constants.text(at + offsetof(mortise_module, id), kMaxText);
  manifest.vendor = constants.text(at + offsetof(mortise_module, vendor), kMaxText);
  manifest.version = constants.text(at + offsetof(mortise_module, version), kMaxText);
  manifest.license = constants.text(at + offsetof(mortise_module, license), kMaxText);
  const auto count = constants.value<std::int32_t>(at + offsetof(mortise_module, num_components));
  if (count < 0 || static_cast<std::size_t>(count) > kMaxManifestComponents) Constants::damaged();
  const std::uint64_t components = constants.pointer(at + offsetof(mortise_module, components));
  for (std::int32_t i = 0; i < count; ++i) {
    manifest.components.push_back(
        read_component(constants, constants.pointer(components + sizeof(void*) * static_cast<std::uint64_t>(i))));
  }
  return manifest;
}

std::optional<ModuleManifest> manifest_if_readable(const std::filesystem::path& file) {
  try {
    return read_module_manifest(read_plugin_bytes(file));
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace mortise
