#include "speculation/step_costs.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>

namespace mortise {
namespace {

constexpr double kStep = 0.125;  // weight of a later measurement
// A measurement counts as at most this many times the mean: a pause of the machine says nothing about the shape.
constexpr double kLargestRise = 1.3;
constexpr double kMaxWeight = 16;  // the most weight of a point, in measurements
// Tokens to catch up with, per draft. A call with fewer measures the time of drafting.
constexpr double kFewUnseen = 0.25;
// Times of equal calls differ by about this share. Only time beyond that counts as catching up.
constexpr double kNoise = 0.1;
constexpr double kMaxUnseen = 4096;  // tokens: a call with this many outweighs all calls before it
constexpr double kWide = 1.5;        // slopes beyond the measured sizes come from two points at least this factor apart

// A first measurement may include one-time work of the device for its shape. It counts only if it is not much longer
// than a smaller step predicts, nor than a larger step. Otherwise a second measurement decides, because a size that
// seems expensive is never tried again.
bool is_believed(const CostCurve::Knot& knot, const CostCurve::Knot* smaller, const CostCurve::Knot* larger,
                 double base) {
  constexpr double kSlack = 1.5;
  if (knot.weight > 1) return true;
  if (smaller != nullptr) {
    const double guess = smaller->seconds * (base + knot.size) / (base + smaller->size);
    if (knot.seconds > kSlack * guess) return false;
  }
  return larger == nullptr || knot.seconds <= kSlack * larger->seconds;
}

// Makes times never fall with size: neighbours that do are noise, and get their mean.
void make_monotone(std::vector<CostCurve::Knot>& knots) {
  struct Run {
    double seconds, weight;
    std::size_t count;
  };
  std::vector<Run> runs;
  for (const CostCurve::Knot& knot : knots) {
    runs.push_back({knot.seconds, knot.weight, 1});
    while (runs.size() > 1 && runs[runs.size() - 2].seconds > runs.back().seconds) {
      const Run last = runs.back();
      runs.pop_back();
      Run& run = runs.back();
      run.seconds = (run.seconds * run.weight + last.seconds * last.weight) / (run.weight + last.weight);
      run.weight += last.weight;
      run.count += last.count;
    }
  }
  std::size_t i = 0;
  for (const Run& run : runs) {
    for (std::size_t n = 0; n < run.count; ++n) knots[i++].seconds = run.seconds;
  }
}

}  // namespace

std::int32_t size_bucket(std::int32_t n) {
  if (n <= 8) return n;
  return static_cast<std::int32_t>(std::lround(4 * std::log2(static_cast<double>(n)))) - 4;
}

CostCurve::CostCurve(std::vector<Knot> knots, double base) : base_(base) {
  for (std::size_t i = 0; i < knots.size(); ++i) {
    const Knot* const smaller = knots_.empty() ? nullptr : &knots_.back();
    if (is_believed(knots[i], smaller, i + 1 < knots.size() ? &knots[i + 1] : nullptr, base_))
      knots_.push_back(knots[i]);
  }
  make_monotone(knots_);
}

double CostCurve::slope(std::size_t from, std::size_t to) const {
  return (knots_[to].seconds - knots_[from].seconds) / std::max(knots_[to].size - knots_[from].size, 1e-9);
}

double CostCurve::at(double size) const {
  if (knots_.empty()) return base_ + size;
  const Knot &first = knots_.front(), &last = knots_.back();
  if (knots_.size() == 1) {
    const double base = size > first.size ? kBold * base_ : base_;
    return first.seconds * (base + size) / (base + first.size);
  }
  if (size < first.size) {
    std::size_t other = 1;
    while (other + 1 < knots_.size() && knots_[other].size < kWide * first.size) ++other;
    return std::max(first.seconds - slope(0, other) * (first.size - size), first.seconds * size / first.size);
  }
  if (size >= last.size) {
    std::size_t other = knots_.size() - 2;
    while (other > 0 && knots_[other].size > last.size / kWide) --other;
    return last.seconds + slope(other, knots_.size() - 1) * (size - last.size);
  }
  const auto next = std::ranges::upper_bound(knots_, size, {}, &Knot::size);
  const auto i = static_cast<std::size_t>(next - knots_.begin());
  return knots_[i - 1].seconds + slope(i - 1, i) * (size - knots_[i - 1].size);
}

void TimeTable::Point::add(std::int32_t size, double time) {
  if (++count <= 2) {
    // the first measurement of a shape includes allocations and tuning
    seconds = count == 1 ? time : std::min(seconds, time);
  } else {
    seconds += std::max(kStep, 1.0 / count) * (std::min(time, kLargestRise * seconds) - seconds);
  }
  b += (count == 1 ? 1 : kStep) * (size - b);  // sizes of one bucket differ
}

void TimeTable::add(std::int32_t a, std::int32_t b, double seconds) {
  seconds = std::max(seconds, 1e-9);  // a clock may report 0, and curves are used as ratios
  all_[size_bucket(b)].add(b, seconds);
  lines_[size_bucket(a)][size_bucket(b)].add(b, seconds);
}

bool TimeTable::knows(std::int32_t a, std::int32_t b) const {
  const auto line = lines_.find(size_bucket(a));
  if (line == lines_.end()) return false;
  const auto point = line->second.find(size_bucket(b));
  return point != line->second.end() && point->second.count > 1;
}

const TimeTable::Line& TimeTable::nearest(std::int32_t a) const {
  const std::int32_t bucket = size_bucket(a);
  const auto distance = [&](const auto& line) { return std::abs(line.first - bucket); };
  return std::ranges::min_element(lines_, {}, distance)->second;
}

CostCurve TimeTable::curve(std::int32_t a) const {
  if (lines_.empty()) return CostCurve({}, base_);
  const Line& own = nearest(a);
  const auto ratio_at = [&](const auto& point) { return point.second.seconds / all_.at(point.first).seconds; };
  std::vector<CostCurve::Knot> knots;
  for (const auto& [bucket, point] : all_) {
    const auto next = own.lower_bound(bucket);
    double ratio;
    if (next == own.end()) {
      ratio = ratio_at(*std::prev(next));
    } else if (next->first == bucket || next == own.begin()) {
      ratio = ratio_at(*next);
    } else {
      const auto before = std::prev(next);
      const double share = static_cast<double>(bucket - before->first) / (next->first - before->first);
      ratio = (1 - share) * ratio_at(*before) + share * ratio_at(*next);
    }
    const bool measured = next != own.end() && next->first == bucket;
    const Point& known = measured ? next->second : point;
    knots.push_back({known.b, ratio * point.seconds, std::min<double>(known.count, kMaxWeight)});
  }
  return CostCurve(std::move(knots), base_);
}

void DraftCosts::add(std::int32_t num_drafting, std::int32_t most, std::int32_t num_unseen, double seconds) {
  const double num_drafts = static_cast<double>(num_drafting) * most;
  if (num_unseen <= kFewUnseen * num_drafts) {
    const double catching_up_s = num_unseen * catch_up_s().value_or(0);
    return drafts_.add(num_drafting, most, std::max(0.0, seconds - catching_up_s));
  }
  const CostCurve usual = curve(num_drafting);
  if (!usual.known()) {  // all tokens are assumed to cost the same
    guess_ = CostCurve::Knot{static_cast<double>(most), seconds * num_drafts / (num_drafts + num_unseen), 1};
    return;
  }
  const double usual_s = usual.at(most);
  double beyond_s = seconds - usual_s;
  beyond_s -= std::clamp(beyond_s, -kNoise * usual_s, kNoise * usual_s);
  const double expected_s = num_unseen * catch_up_s().value_or(0);
  if (expected_s > 0) beyond_s = std::min(beyond_s, kLargestRise * expected_s);
  const double square = static_cast<double>(num_unseen) * num_unseen;
  const double keep = std::min(1.0, kMaxUnseen * kMaxUnseen / (squares_ + square));
  products_ = keep * (products_ + num_unseen * beyond_s);
  squares_ = keep * (squares_ + square);
}

CostCurve DraftCosts::curve(std::int32_t num_drafting) const {
  CostCurve measured = drafts_.curve(num_drafting);
  return measured.known() || !guess_ ? measured : CostCurve({*guess_}, 0);
}

std::optional<double> DraftCosts::catch_up_s() const {
  if (squares_ == 0) return std::nullopt;
  return std::max(0.0, products_ / squares_);
}

}  // namespace mortise
