// runtime/loader/module_manifest.hpp: what a plugin file describes, read from its bytes without running its code
// (mortise/manifest.h). For files that are not trusted yet: every offset, pointer and text is checked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mortise {

struct ComponentManifest {
  std::int32_t kind = 0;  // MORTISE_KIND_*
  std::uint64_t capabilities = 0;
  std::string name, summary, options_schema;
  std::string numerics_id;  // "" if it states none
};

struct ModuleManifest {
  std::uint32_t abi_minor = 0;
  std::string id, vendor, version, license;
  std::vector<ComponentManifest> components;
};

// nullopt: the file has no manifest, because it was built with headers before 0.6 or without MORTISE_MANIFEST. Throws
// an Error if it is no shared object for this machine, or its manifest is damaged; the text continues a sentence that
// begins with the file's name.
std::optional<ModuleManifest> read_module_manifest(std::span<const char> file);

// For callers to whom a file that cannot be read, or whose manifest is damaged, is as good as one without a manifest.
std::optional<ModuleManifest> manifest_if_readable(const std::filesystem::path& file);

}  // namespace mortise
