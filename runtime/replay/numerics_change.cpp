#include "replay/numerics_change.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

namespace mortise {
namespace {

std::vector<std::string> parts_of(const std::string& numerics_id) {
  std::vector<std::string> parts;
  std::istringstream stream(numerics_id);
  for (std::string part; std::getline(stream, part, ';');) {
    part.erase(0, part.find_first_not_of(' '));
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace

// The first parts are numerics ids of devices. The first word of each other part says what it is about. Versions of
// this program may list different parts.
std::string describe_change(const std::string& before, const std::string& now) {
  const auto kind = [](const std::vector<std::string>& parts, std::size_t i) {
    return i == 0 ? std::string() : parts[i].substr(0, parts[i].find(' '));
  };
  const std::vector<std::string> old_parts = parts_of(before);
  std::vector<std::string> new_parts = parts_of(now), changes;
  std::vector<bool> found(new_parts.size());
  for (std::size_t i = 0; i < old_parts.size(); ++i) {
    std::size_t k = 0;
    while (k < new_parts.size() && (found[k] || kind(new_parts, k) != kind(old_parts, i))) ++k;
    if (k == new_parts.size()) {
      changes.push_back(fmt::format("'{}' is gone", old_parts[i]));
      continue;
    }
    found[k] = true;
    if (new_parts[k] != old_parts[i]) {
      changes.push_back(fmt::format("'{}' is now '{}'", old_parts[i], new_parts[k]));
    }
  }
  for (std::size_t k = 0; k < new_parts.size(); ++k) {
    if (!found[k]) changes.push_back(fmt::format("'{}' is new", new_parts[k]));
  }
  return fmt::format("{}", fmt::join(changes, ", "));
}

std::string numerics_remedy(const std::string& before, const std::string& now) {
  static constexpr std::pair<const char*, const char*> kOptions[] = {{"cpu-bf16/1", "tiles"},
                                                                     {"cpu-bf16-pairs/1", "pairs"}};
  // "cpu-bf16/1 with cpu-int8/1, .." is of class cpu-bf16/1.
  const auto option_of = [](const std::string& id) -> const std::pair<const char*, const char*>* {
    const std::string device = id.substr(0, id.find_first_of("; "));
    const auto found = std::ranges::find(kOptions, device, [](const auto& option) { return option.first; });
    return found == std::end(kOptions) ? nullptr : found;
  };
  const auto *wanted = option_of(before), *is = option_of(now);
  if (wanted == nullptr || is == nullptr || wanted == is) return "";
  return fmt::format("; cpu {{ numerics = \"{}\" }} brings class {} back", wanted->second, wanted->first);
}

}  // namespace mortise
