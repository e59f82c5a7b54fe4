#include "loader/nearest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace mortise {
namespace {

// Edit distance with adjacent swaps (optimal string alignment).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::optional<std::string> nearest_name(std::string_view given, std::span<const std::string> names) {
  constexpr std::size_t kLongestName = 64;  // the table is quadratic, and a typing error rarely is in so long a name
  if (given.size() > kLongestName) return std::nullopt;
  std::size_t best = std::max<std::size_t>(1, given.size() / 3) + 1;
  std::optional<std::string> nearest;
  for (const auto& name : names) {
    if (name.size() > kLongestName) continue;
    const std::size_t d = distance(given, name);
    if (d < best) {
      best = d;
      nearest = name;
    }
  }
  return nearest;
}

std::string did_you_mean(std::string_view given, std::span<const std::string> names) {
  const auto nearest = nearest_name(given, names);
  return nearest ? fmt::format("; did you mean '{}'?", *nearest) : "";
}

std::string join_names(std::span<const std::string> names) {
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace mortise
