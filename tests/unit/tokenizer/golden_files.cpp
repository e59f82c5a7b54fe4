#include "golden_files.hpp"

#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <utility>

namespace mortise::test {

nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream stream(path);
  if (!stream) throw std::runtime_error("cannot read " + path.string());
  return nlohmann::json::parse(stream);
}

std::vector<Variant> read_variants(const std::string& folder) {
  const nlohmann::json base =
      read_json(golden_dir() / (folder == "pieces" ? "llama2_style" : folder) / "tokenizer.json");
  std::vector<Variant> variants;
  for (const nlohmann::json& read : read_json(golden_dir() / folder / "variants.json")) {
    Variant variant{read["name"], base, read["cases"]};
    variant.document.merge_patch(read["patch"]);
    variants.push_back(std::move(variant));
  }
  return variants;
}

}  // namespace mortise::test
