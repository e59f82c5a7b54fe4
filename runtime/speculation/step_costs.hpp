// runtime/speculation/step_costs.hpp: what steps and drafts take on this machine, as measured, and a guess for shapes
// that were not measured yet.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

namespace mortise {

// Sizes that are measured together: small ones each for themselves, then quarters of an octave.
std::int32_t size_bucket(std::int32_t n);

// Seconds over (a, b), where b is what is interpolated over. Measurements of neighbouring a are kept together.
class TimeTable {
 public:
  // kRising: a line with one point falls to 0 with b, as the passes of a draft model do; else it is flat.
  enum class Lone { kFlat, kRising };
  explicit TimeTable(Lone lone = Lone::kFlat) : lone_(lone) {}

  void add(std::int32_t a, std::int32_t b, double seconds);
  // Between and beyond the measured b of the nearest a; nothing: there is no measurement at all. An a with one b takes
  // the shape of the nearest one with more; if there is none, what is longer than was tried counts as no dearer, and so
  // is tried.
  std::optional<double> at(std::int32_t a, std::int32_t b) const;

 private:
  struct Point {
    double b = 0, seconds = 0;
    std::int32_t count = 0;
  };
  using Line = std::map<std::int32_t, Point>;  // by bucket of b

  double at(const Line& line, double b) const;
  const Line* nearest(std::int32_t bucket, std::size_t least_points) const;

  Lone lone_;
  std::map<std::int32_t, Line> lines_;  // by bucket of a
};

struct StepCosts {
  TimeTable steps;  // over (sequences, rows), drafting left out, of steps in which all sequences decode
  TimeTable drafts{TimeTable::Lone::kRising};  // over (sequences asked, most drafts of one), of calls that had nothing
                                               // to catch up with
  double catch_up_s = 0;                       // for each token that a sequence got since it was asked the last time
};

}  // namespace mortise
