// runtime/speculation/step_costs.hpp: what steps and drafts take on this machine, as measured, and a guess for shapes
// that were not measured yet.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace mortise {

// Sizes that are measured together: small ones each for themselves, then quarters of an octave.
std::int32_t size_bucket(std::int32_t n);

// Seconds over a size: straight lines between knots, never falling.
class CostCurve {
 public:
  struct Knot {
    double size = 0, seconds = 0, weight = 0;
  };
  // `base`: while less than two knots tell, what does not depend on the size is taken to cost as much as this size;
  // above the knot as kBold times this size, since what is never tried is never known.
  // REQUIRES: sizes ascend.
  CostCurve(std::vector<Knot> knots, double base);

  bool known() const { return !knots_.empty(); }
  double at(double size) const;  // in an unknown unit where nothing is known

 private:
  static constexpr double kBold = 4;

  double slope(std::size_t from, std::size_t to) const;

  std::vector<Knot> knots_;
  double base_;
};

// Seconds over (a, b). What was measured at one a tells of the others how time grows with b.
class TimeTable {
 public:
  explicit TimeTable(double base) : base_(base) {}

  void add(std::int32_t a, std::int32_t b, double seconds);
  bool knows(std::int32_t a, std::int32_t b) const;  // measured often enough to be believed
  // Over b. Where nothing was measured at this a, all others' mean, times what this a (or the nearest one that was
  // measured) is above it.
  CostCurve curve(std::int32_t a) const;

 private:
  struct Point {
    double b = 0, seconds = 0;
    std::int32_t count = 0;
    void add(std::int32_t size, double time);
  };
  using Line = std::map<std::int32_t, Point>;  // by bucket of b

  const Line& nearest(std::int32_t a) const;

  double base_;
  Line all_;
  std::map<std::int32_t, Line> lines_;  // by bucket of a
};

// What it takes to draft, and to catch up with tokens that sequences got since they were asked the last time.
class DraftCosts {
 public:
  // A call that drafted at most `most` tokens for each of `num_asked` sequences, with `num_unseen` tokens to catch up
  // with.
  void add(std::int32_t num_asked, std::int32_t most, std::int32_t num_unseen, double seconds);
  CostCurve curve(std::int32_t num_asked) const;  // over the most drafts of one
  std::optional<double> catch_up_s() const;       // a token

 private:
  TimeTable drafts_{0};  // over (sequences asked, most drafts of one), of calls that had little to catch up with
  std::optional<CostCurve::Knot> guess_;  // until there was such a call
  // Over the other calls, of their tokens and the time beyond what their drafts take: the slope of least squares, since
  // a call with few tokens tells of its noise.
  double products_ = 0, squares_ = 0;
};

}  // namespace mortise
