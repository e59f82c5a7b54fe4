#include "engine/draft_tree.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace mortise {

std::vector<std::vector<std::int32_t>> paths_of(std::span<const std::int32_t> tokens,
                                                std::span<const std::int32_t> parents, std::int32_t max_depth,
                                                std::string& why) {
  std::vector<std::int32_t> depths(tokens.size());
  std::vector<char> is_leaf(tokens.size(), 1);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (parents[i] < -1 || parents[i] >= static_cast<std::int32_t>(i)) {
      why = fmt::format("draft {} has the parent {}; it must come before it, or be -1", i, parents[i]);
      return {};
    }
    depths[i] = 1;
    if (parents[i] >= 0) {
      depths[i] += depths[static_cast<std::size_t>(parents[i])];
      is_leaf[static_cast<std::size_t>(parents[i])] = 0;
    }
    if (depths[i] > max_depth) {
      why = fmt::format("a path of {} drafts, but at most {} were asked for", depths[i], max_depth);
      return {};
    }
  }
  std::vector<std::vector<std::int32_t>> paths;
  for (std::size_t leaf = 0; leaf < tokens.size(); ++leaf) {
    if (is_leaf[leaf] == 0) continue;
    std::vector<std::int32_t>& path = paths.emplace_back();
    for (auto at = static_cast<std::int32_t>(leaf); at >= 0; at = parents[static_cast<std::size_t>(at)]) {
      path.push_back(tokens[static_cast<std::size_t>(at)]);
    }
    std::ranges::reverse(path);
  }
  return paths;
}

}  // namespace mortise
