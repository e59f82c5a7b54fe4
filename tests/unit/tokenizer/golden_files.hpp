// tests/unit/tokenizer/golden_files.hpp: reads tests/golden/tokenizer.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "temp_folder.hpp"

namespace mortise::test {

inline std::filesystem::path golden_dir() {
  return std::filesystem::path(MORTISE_SOURCE_DIR) / "tests" / "golden" / "tokenizer";
}

nlohmann::json read_json(const std::filesystem::path& path);

// tokenizer.json files that differ from a base in a few members (RFC 7386), and what the reference makes of texts.
struct Variant {
  std::string name;
  nlohmann::json document;
  nlohmann::json cases;
};
// All of golden_dir() / `folder` / variants.json.
std::vector<Variant> read_variants(const std::string& folder);

}  // namespace mortise::test
