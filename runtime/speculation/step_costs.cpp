#include "speculation/step_costs.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>

namespace mortise {
namespace {

constexpr std::int32_t kFirst =
    3;                           // measurements of which the least counts: the first ones of a shape allocate and tune
constexpr double kStep = 0.125;  // of a later measurement
constexpr double kLargestRise = 1.3;  // of one measurement: a pause of the machine is no property of the shape

}  // namespace

std::int32_t size_bucket(std::int32_t n) {
  if (n <= 8) return n;
  return static_cast<std::int32_t>(std::lround(4 * std::log2(static_cast<double>(n)))) - 4;
}

void TimeTable::add(std::int32_t a, std::int32_t b, double seconds) {
  Point& point = lines_[size_bucket(a)][size_bucket(b)];
  if (point.count == 0) {
    point = {static_cast<double>(b), seconds, 1};
    return;
  }
  ++point.count;
  if (point.count <= kFirst && seconds < point.seconds) {
    point.seconds = seconds;
  } else if (point.count > kFirst) {
    point.seconds += kStep * (std::min(seconds, kLargestRise * point.seconds) - point.seconds);
  }
  point.b += kStep * (b - point.b);  // a bucket's sizes differ
}

std::optional<double> TimeTable::at(std::int32_t a, std::int32_t b) const {
  if (lines_.empty()) return std::nullopt;
  const Line& line = *nearest(size_bucket(a), 1);
  const Line* const shape = line.size() > 1 ? nullptr : nearest(size_bucket(a), 2);
  if (shape == nullptr) return at(line, b);
  const Point& known = line.begin()->second;
  return known.seconds * at(*shape, b) / at(*shape, known.b);
}

// The line of at least so many points whose bucket is nearest; null: there is none.
const TimeTable::Line* TimeTable::nearest(std::int32_t bucket, std::size_t least_points) const {
  const Line* best = nullptr;
  std::int32_t distance = 0;
  for (const auto& [at, line] : lines_) {
    if (line.size() < least_points || (best != nullptr && std::abs(at - bucket) >= distance)) continue;
    best = &line;
    distance = std::abs(at - bucket);
  }
  return best;
}

double TimeTable::at(const Line& line, double b) const {
  const Point& first = line.begin()->second;
  if (line.size() == 1) return lone_ == Lone::kFlat || b >= first.b ? first.seconds : first.seconds * b / first.b;
  auto next = std::next(line.begin());
  while (std::next(next) != line.end() && next->second.b < b) ++next;
  const Point& low = std::prev(next)->second;
  const Point& high = next->second;
  const double slope = std::max(0.0, (high.seconds - low.seconds) / std::max(high.b - low.b, 1e-9));
  const double from = b > high.b ? high.seconds + slope * (b - high.b) : low.seconds + slope * (b - low.b);
  return std::max(from, first.seconds / 8);  // below the smallest size a line may lead anywhere
}

}  // namespace mortise
