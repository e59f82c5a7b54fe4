// runtime/bench_command/measure.hpp: cases are run again and again, each time right after the limits of that moment
// were measured; two subjects are run in turns.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench_command/cost.hpp"
#include "bench_command/probes.hpp"
#include "bench_command/statistics.hpp"

namespace mortise::bench {

struct Outcome {
  double value = 0;  // in the case's unit
  std::string note;  // "3 preemptions", or empty
};

// One thing to measure.
struct Case {
  std::string name;  // "decode, batch 8"
  std::string unit;  // "tokens/s"
  bool higher_is_better = true;
  // Runs it once. Another seed, other prompts.
  std::function<Outcome(std::uint32_t seed)> run;
  // What the limits allow at best, in the same unit; nullopt: not known for them. May be empty.
  std::function<std::optional<double>(const Limits&)> floor;
};

// Of two cases, how much slower the second is: what scoring costs over prefill. With `also` over two together, whose
// values are of the same amount of work.
struct Relation {
  std::string name;
  std::size_t base, other;  // indices of cases
  std::optional<std::size_t> also = {};
};

struct Scenario {
  std::string name;
  std::vector<Case> cases;
  std::vector<Relation> relations;
  std::shared_ptr<LimitProbes> probes;  // null: no limits are known of the device
};

struct Figure {
  std::string name, unit;
  bool higher_is_better = true;
  std::vector<double> samples;
  double value = 0;             // their median
  std::optional<double> floor;  // the median floor of the same moments
  std::optional<double> ratio;  // the median of each sample's nearness to its own floor: 1 is the end
  std::optional<Bound> bound;   // of a relation's value
  std::string note;             // of the last sample that had one
};

struct Measurement {
  std::vector<Figure> figures;
  std::vector<Limits> limits;  // a sample a repetition and case
};

// A warm-up run of each case, then all cases `repeats` times in turns.
Measurement measure(const Scenario& scenario, int repeats);

// One case of two subjects.
struct Comparison {
  Figure a, b;
  PairedRatio speed;  // b's over a's: above 1, b is faster
};
// The cases of two subjects in pairs, A first and B first in turns. REQUIRES: scenarios of the same cases.
std::vector<Comparison> measure_pairs(const Scenario& a, const Scenario& b, int num_pairs);

}  // namespace mortise::bench
