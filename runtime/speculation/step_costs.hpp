// runtime/speculation/step_costs.hpp: the measured times of steps and drafts on this machine, with estimates for shapes
// that were not measured yet. Engine's thread only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace mortise {

// Returns the bucket of a size. Sizes of one bucket are measured together: small sizes have their own, larger ones
// share a quarter of an octave.
std::int32_t size_bucket(std::int32_t n);

// Seconds as a function of a size: straight lines between knots. Invariant: never falling. A value: each thread has its
// own.
class CostCurve {
 public:
  struct Knot {
    double size = 0, seconds = 0, weight = 0;
  };
  // With fewer than two knots, assumes that the fixed part of the time is as long as `base` units of size take. For
  // sizes above a single knot, assumes a fixed part kBold times as long. Larger sizes then look cheap, so they get
  // tried.
  // REQUIRES: sizes ascend.
  CostCurve(std::vector<Knot> knots, double base);

  bool known() const { return !knots_.empty(); }
  double at(double size) const;  // in an arbitrary unit if nothing is known

 private:
  static constexpr double kBold = 4;

  double slope(std::size_t from, std::size_t to) const;

  std::vector<Knot> knots_;
  double base_;
};

// Seconds as a function of (a, b). Measurements at one `a` also show how time grows with `b` at other `a`. Engine's
// thread only. Invariant: every bucket of a line is in all_ too.
class TimeTable {
 public:
  explicit TimeTable(double base) : base_(base) {}

  void add(std::int32_t a, std::int32_t b, double seconds);
  bool knows(std::int32_t a, std::int32_t b) const;  // measured often enough to trust
  // Returns seconds as a function of b at this a. A b that was not measured here gets the mean over all a, scaled by
  // the ratio of this a (or of the nearest measured a) to that mean.
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

// The cost of drafting, and of catching up with the tokens that sequences got since a proposer was last asked for
// drafts. Engine's thread only. Invariant: guess_ is used only while drafts_ has no measurement.
class DraftCosts {
 public:
  // Adds a call that drafted at most `most` tokens for each of `num_drafting` sequences and caught up with `num_unseen`
  // tokens.
  void add(std::int32_t num_drafting, std::int32_t most, std::int32_t num_unseen, double seconds);
  CostCurve curve(std::int32_t num_drafting) const;  // over the most drafts of one sequence
  std::optional<double> catch_up_s() const;          // per token; nullopt: not measured

 private:
  TimeTable drafts_{0};  // over (sequences asked, most drafts of one), of calls with little to catch up with
  std::optional<CostCurve::Knot> guess_;  // used until a call of drafts_ was measured
  // Sums over all other calls: of tokens to catch up with times time beyond drafting, and of these tokens squared.
  // Their quotient is the least-squares slope. Calls with few tokens are mostly noise, and count little in it.
  double products_ = 0, squares_ = 0;
};

}  // namespace mortise
