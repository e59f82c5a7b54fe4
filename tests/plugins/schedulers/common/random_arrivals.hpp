// tests/plugins/schedulers/common/random_arrivals.hpp: requests that come to a simulated engine in bursts and lulls.
#pragma once

#include <gtest/gtest.h>

#include <random>

#include "simulated_engine.hpp"

namespace mortise::test {

// Options of the simulated engine, as a parameter of tests.
struct Mix {
  const char* name;
  SimulationOptions options;
};

// Submits the requests that arrive before a step, and returns how many. An idle engine gets one.
inline int64_t submit_arrivals(SimulatedEngine& engine, std::mt19937_64& random) {
  const bool burst = random() % 97 == 0;
  int64_t arriving = burst ? static_cast<int64_t>(random() % 12) : random() % 24 == 0;
  if (engine.num_live() > 30) arriving = 0;  // a longer queue tests nothing new, and the checks are quadratic
  if (engine.idle()) arriving = 1;
  for (int64_t i = 0; i < arriving; ++i) engine.submit_random();
  return arriving;
}

// Runs what is left when nothing arrives any more: at least a row a step, so it cannot take longer than its rows,
// recomputed ones included.
inline void run_to_the_end(SimulatedEngine& engine) {
  for (int64_t steps = 0; !engine.idle(); ++steps) {
    ASSERT_NO_THROW(engine.step());
    ASSERT_LT(steps, 1000000) << "somebody is starved";
  }
}

}  // namespace mortise::test
