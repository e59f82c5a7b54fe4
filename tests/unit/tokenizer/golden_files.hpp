// tests/unit/tokenizer/golden_files.hpp: reads tests/golden/tokenizer, and makes folders of changed tokenizers.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

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

// A folder of its own with the given files, removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  void write(const std::string& name, const std::string& text) const;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace mortise::test
