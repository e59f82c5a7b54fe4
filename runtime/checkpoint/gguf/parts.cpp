#include "checkpoint/gguf/parts.hpp"

#include <map>
#include <string>

#include "checkpoint/gguf/keys.hpp"
#include "error.hpp"
#include "json/bounded_json.hpp"
#include "json/is_there.hpp"

namespace mortise {
namespace {

constexpr std::uint64_t kMaxParts = 1024;  // the name has five digits, but no model has that many

std::string part_suffix(std::uint64_t part, std::uint64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", part, count);
}

// The path without "-00001-of-00003.gguf".
std::string stem_of(const std::filesystem::path& path, std::uint64_t count) {
  const std::string& name = path.native();
  const std::string first = part_suffix(1, count);
  if (!name.ends_with(first)) {
    fail("{}: is the first of {} parts, so its name must end with '{}', and the others must lie beside it; rename it",
         name, count, first);
  }
  return name.substr(0, name.size() - first.size());
}

void check_part(const GgufFile& part, std::uint64_t index, std::uint64_t count) {
  GgufKeys keys(part);
  if (keys.need_whole("split.count") != count) {
    keys.refuse("split.count", fmt::format("the first part says {}; download all parts again", count));
  }
  if (keys.need_whole("split.no") != index) {
    keys.refuse("split.no", fmt::format("expected {} in this file; download it again", index));
  }
}

}  // namespace

std::vector<GgufFile> open_gguf_parts(const std::filesystem::path& path) {
  std::vector<GgufFile> parts;
  GgufKeys keys(parts.emplace_back(path));
  const std::uint64_t count = keys.whole("split.count", kMaxParts).value_or(0);
  if (count <= 1) return parts;
  if (const std::uint64_t number = keys.need_whole("split.no"); number != 0) {
    fail("{}: is part {} of {} of a split model; give the first part, whose name ends with '{}'", path.native(),
         number + 1, count, part_suffix(1, count));
  }
  const std::string stem = stem_of(path, count);
  const std::uint64_t num_tensors = keys.need_whole("split.tensors.count");
  parts.reserve(count);  // which moves the first part: `keys` is not used below
  for (std::uint64_t i = 1; i < count; ++i) {
    const std::string name = stem + part_suffix(i + 1, count);
    if (!is_there(name)) {
      fail("{}: is missing, part {} of {} of {}; download it into the same folder", name, i + 1, count, path.native());
    }
    check_part(parts.emplace_back(name), i, count);
  }
  std::map<std::string_view, const GgufFile*> seen;
  for (const GgufFile& part : parts) {
    for (const auto& [tensor, content] : part.tensors()) {
      const auto [earlier, is_new] = seen.emplace(tensor, &part);
      if (!is_new) {
        fail("{}: tensor {} at byte {} is also in {}; download all parts again", part.path().native(), quote(tensor),
             content.offset, earlier->second->path().native());
      }
    }
  }
  if (seen.size() != num_tensors) {
    fail("{}: its {} parts have {} tensors, but split.tensors.count is {}; download all parts again", path.native(),
         count, seen.size(), num_tensors);
  }
  return parts;
}

}  // namespace mortise
