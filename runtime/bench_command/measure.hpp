// runtime/bench_command/measure.hpp: runs cases repeatedly, each right after measuring the limits of that moment. Two
// subjects run alternately.
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

// A quantity to measure.
struct Case {
  std::string name;  // "decode, batch 8"
  std::string unit;  // "tokens/s"
  bool higher_is_better = true;
  // Runs the case once. A different seed gives different prompts.
  std::function<Outcome(std::uint32_t seed)> run;
  // Returns the best value that the limits allow, in the same unit; nullopt: unknown. The function may be empty.
  std::function<std::optional<double>(const Limits&)> floor;
};

// How much slower one case is than another, for example scoring than prefill. With `also`, how much slower it is than
// two cases together. All are measured for the same amount of work.
struct Relation {
  std::string name;
  std::size_t base, other;  // indices of cases
  std::optional<std::size_t> also = {};
};

struct Scenario {
  std::string name;
  std::vector<Case> cases;
  std::vector<Relation> relations;
  std::shared_ptr<LimitProbes> probes;  // null: the limits of the device are unknown
};

struct Figure {
  std::string name, unit;
  bool higher_is_better = true;
  std::vector<double> samples;
  double value = 0;             // median of the samples
  std::optional<double> floor;  // median floor at the same moments
  std::optional<double> ratio;  // median ratio of each sample to its own floor; 1 is the best
  std::optional<double> links;  // median share of the links in the floor's time; nullopt: one rank
  std::optional<Bound> bound;   // of the value of a relation
  std::string note;             // of the last sample that had a note
};

struct Measurement {
  std::vector<Figure> figures;
  std::vector<Limits> limits;  // one for each repetition and case
};

// Runs each case once to warm up, then all cases in turn, `repeats` times.
Measurement measure(const Scenario& scenario, int repeats);

// A case of two subjects.
struct Comparison {
  Figure a, b;
  PairedRatio speed;  // speed of b over that of a: above 1, b is faster
};
// Measures the cases of two subjects in pairs, beginning with A and B alternately.
// REQUIRES: the scenarios have the same cases.
std::vector<Comparison> measure_pairs(const Scenario& a, const Scenario& b, int num_pairs);

}  // namespace mortise::bench
