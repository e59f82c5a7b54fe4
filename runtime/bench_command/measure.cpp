#include "bench_command/measure.hpp"

#include <cassert>

namespace mortise::bench {
namespace {

// Returns the share of the links in the time of a floor.
double links_share(const Case& measured, double floor, Limits limits) {
  limits.links.reset();
  const double without = *measured.floor(limits);
  return 1 - (measured.higher_is_better ? floor / without : without / floor);
}

// The samples of one case.
struct Series {
  explicit Series(const Case& measured) : measured(measured) {
    figure.name = measured.name;
    figure.unit = measured.unit;
    figure.higher_is_better = measured.higher_is_better;
  }

  void take(std::uint32_t seed, const std::optional<Limits>& limits) {
    const Outcome outcome = measured.run(seed);
    figure.samples.push_back(outcome.value);
    if (!outcome.note.empty()) figure.note = outcome.note;
    const std::optional<double> floor = limits && measured.floor ? measured.floor(*limits) : std::nullopt;
    if (!floor) return;
    floors.push_back(*floor);
    ratios.push_back(figure.higher_is_better ? outcome.value / *floor : *floor / outcome.value);
    if (limits->links) links.push_back(links_share(measured, *floor, *limits));
  }

  Figure finish() {
    figure.value = median(figure.samples);
    if (!floors.empty()) {
      figure.floor = median(floors);
      figure.ratio = median(ratios);
    }
    if (!links.empty()) figure.links = median(links);
    return figure;
  }

  const Case& measured;
  Figure figure;
  std::vector<double> floors, ratios, links;
};

// Returns the cost of each value: a time as it is, a rate as the time for one.
std::vector<double> costs_of(const Series& series, const std::vector<double>& values) {
  std::vector<double> costs;
  for (const double value : values) costs.push_back(series.figure.higher_is_better ? 1 / value : value);
  return costs;
}

Figure relate(const Relation& relation, const std::vector<Series>& series) {
  const Series &base = series[relation.base], &other = series[relation.other];
  std::vector<double> from = costs_of(base, base.figure.samples), floors = costs_of(base, base.floors);
  if (relation.also) {
    const Series& more = series[*relation.also];
    const std::vector<double> costs = costs_of(more, more.figure.samples), least = costs_of(more, more.floors);
    for (std::size_t i = 0; i < costs.size(); ++i) from[i] += costs[i];
    for (std::size_t i = 0; i < least.size(); ++i) floors[i] += least[i];
  }
  const std::vector<double> to = costs_of(other, other.figure.samples);
  Figure figure;
  figure.name = relation.name;
  figure.unit = "times";
  figure.higher_is_better = false;
  for (std::size_t i = 0; i < from.size(); ++i) figure.samples.push_back(to[i] / from[i]);
  const PairedRatio ratio = paired_ratio(from, to);
  figure.value = ratio.ratio;
  figure.bound = ratio.bound;
  if (!floors.empty() && floors.size() == other.floors.size()) {
    figure.floor = median(costs_of(other, other.floors)) / median(floors);
    figure.ratio = *figure.floor / figure.value;
  }
  return figure;
}

// The seeds of one measurement. No two are equal, because the prefix cache would serve the second run with a seed. Used
// by one thread.
class Seeds {
 public:
  std::uint32_t next() { return ++last_; }

 private:
  std::uint32_t last_ = 0;
};

}  // namespace

Measurement measure(const Scenario& scenario, int repeats) {
  Seeds seeds;
  std::vector<Series> series(scenario.cases.begin(), scenario.cases.end());
  for (const Case& measured : scenario.cases) measured.run(seeds.next());
  Measurement result;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    for (Series& one : series) {
      std::optional<Limits> limits;
      if (scenario.probes) result.limits.push_back(*(limits = scenario.probes->sample()));
      one.take(seeds.next(), limits);
    }
  }
  for (Series& one : series) result.figures.push_back(one.finish());
  for (const Relation& relation : scenario.relations) {
    result.figures.push_back(relate(relation, series));
  }
  return result;
}

std::vector<Comparison> measure_pairs(const Scenario& a, const Scenario& b, int num_pairs) {
  assert(a.cases.size() == b.cases.size());
  Seeds seeds;
  std::vector<Comparison> comparisons;
  for (std::size_t i = 0; i < a.cases.size(); ++i) {
    Series of_a(a.cases[i]), of_b(b.cases[i]);
    const std::uint32_t warm_up = seeds.next();
    a.cases[i].run(warm_up);
    b.cases[i].run(warm_up);
    for (int pair = 0; pair < num_pairs; ++pair) {
      const std::uint32_t seed = seeds.next();  // both sides do the same work
      (pair % 2 == 0 ? of_a : of_b).take(seed, std::nullopt);
      (pair % 2 == 0 ? of_b : of_a).take(seed, std::nullopt);
    }
    const bool rates = a.cases[i].higher_is_better;
    const auto& slow = rates ? of_a.figure.samples : of_b.figure.samples;
    const auto& fast = rates ? of_b.figure.samples : of_a.figure.samples;
    const PairedRatio speed = paired_ratio(slow, fast);
    comparisons.push_back({of_a.finish(), of_b.finish(), speed});
  }
  return comparisons;
}

}  // namespace mortise::bench
