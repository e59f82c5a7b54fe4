// tests/unit/speculation/simulated_machine.hpp: requests on a machine with a clock of its own, for policies of draft
// lengths. The policy sees times with noise; the time that is scored has none, and the luck of drafts is that of their
// place in the text, so that two policies differ by their choices alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "speculation/adaptive_lengths.hpp"

namespace mortise::test {

// The seconds of a step with a number of sequences and rows, and of drafting.
struct Machine {
  std::string name;
  std::function<double(int seqs, int rows)> step_s;
  std::function<double(int asked, int most)> draft_s;
  double catch_up_s = 0;  // a token that a sequence was not asked after
};

// Straight lines between (rows, milliseconds), and beyond the last two.
inline std::function<double(int, int)> measured_steps(std::vector<std::pair<double, double>> points) {
  return [points = std::move(points)](int, int rows) {
    std::size_t i = 1;
    while (i + 1 < points.size() && points[i].first < rows) ++i;
    const auto [x0, y0] = points[i - 1];
    const auto [x1, y1] = points[i];
    return 1e-3 * (y0 + (y1 - y0) * (rows - x0) / (x1 - x0));
  };
}

// A number of [0, 1) that is a function of its arguments.
inline double luck(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  std::uint64_t x = a * 0x9e3779b97f4a7c15u + b * 0xbf58476d1ce4e5b9u + c * 0x94d049bb133111ebu + 1;
  for (int i = 0; i < 2; ++i) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
  }
  return static_cast<double>(x >> 11) * 0x1p-53;
}

// How drafts fare at a place of a request's text, `run` tokens after the last one that was drafted wrongly or not at
// all.
struct Text {
  std::string name;
  std::function<double(std::uint64_t request, int position, int run)> rate;
  std::function<double(int run)> yield = [](int) { return 1.0; };  // that there is a draft
  int max_drafts = 5;
};

inline Text steady(double rate) {
  return {"rate " + std::to_string(rate).substr(0, 4), [rate](auto, int, int) { return rate; }};
}
// A text that repeats passages word for word. When a passage ends, some tokens pass before the next one begins.
inline Text quoted() {
  return {"quoted text", [](auto, int, int run) { return run < 2 ? 0.5 : 0.99; },
          [](int run) { return run < 2 ? 0.7 : 1.0; }, 8};
}
inline Text changing() {
  return {"changing", [](auto request, int position, int) { return (position / 40 + request) % 2 == 0 ? 0.95 : 0.05; }};
}
// Drafts of some requests stand, those of others do not.
inline Text mixed() {
  return {"mixed", [](auto request, int, int) { return request % 2 == 0 ? 0.95 : 0.05; }};
}

enum class Lengths { kNone, kFixed, kAdaptive };

struct Simulation {
  struct Running {
    std::uint64_t request;
    int output;
    int generated = 1, run = 1000;
    DraftState state = {};
    double sum_lengths = 0;
  };

  const Machine& machine;
  Lengths lengths = Lengths::kAdaptive;
  std::uint64_t seed = 1;
  double noise = 0.1;      // of the times that the policy sees
  double outliers = 0.02;  // of them 2 to 6 times as long
  AdaptiveLengths policy = {};
  std::vector<Running> running = {};
  std::uint64_t next_request = 0, num_steps = 0;
  double seconds = 0, tokens = 0;
  std::uint64_t num_without = 0;  // steps in which nobody was asked

  double seen(double time, std::uint64_t which) const {
    const double outlier = luck(seed, num_steps, which) < outliers ? 2 + 4 * luck(seed, num_steps, which + 1) : 1;
    return time * outlier * (1 + noise * (2 * luck(seed, num_steps, which + 2) - 1));
  }

  // Drafts of one sequence: how many there are, and what came of them.
  std::pair<int, int> verify(Running& one, const Text& text) {
    const auto place = [&](int ahead) { return static_cast<std::uint64_t>(one.generated + ahead); };
    const std::uint64_t which = seed * 100000 + one.request;
    const auto stands = [&](int ahead) {
      return luck(which, place(ahead), 1) < text.rate(one.request, one.generated + ahead, one.run + ahead);
    };
    const bool yields = luck(which, place(0), 2) < text.yield(one.run);
    const int drafts = yields ? one.state.length : 0;
    int accepted = 0;
    while (accepted < drafts && stands(accepted)) ++accepted;
    one.run = yields && stands(accepted) ? one.run + accepted + 1 : 0;
    one.generated += accepted + 1;
    return {drafts, accepted};
  }

  void step(const Text& text) {
    ++num_steps;
    std::vector<AdaptiveLengths::Candidate> candidates;
    for (Running& one : running) {
      const int left = one.output - one.generated;
      candidates.push_back({&one.state, std::min(text.max_drafts, left - 1), one.generated, left});
      one.state.length = lengths == Lengths::kFixed ? candidates.back().limit : 0;
    }
    if (lengths == Lengths::kAdaptive) policy.choose(candidates);
    AdaptiveLengths::StepTimes times;
    times.num_seqs = times.num_rows = static_cast<int>(running.size());
    double catch_up = 0;
    for (Running& one : running) {
      const int asked = one.state.length;
      one.sum_lengths += asked;
      times.max_drafts = std::max(times.max_drafts, asked);
      times.num_drafting += asked > 0 ? 1 : 0;
      if (asked > 0) catch_up += machine.catch_up_s * one.state.num_unseen;
      const auto [drafts, accepted] = verify(one, text);
      times.num_rows += drafts;
      tokens += accepted + 1;
      policy.verified(one.state, asked, drafts, accepted);
    }
    num_without += times.num_drafting == 0 ? 1 : 0;
    const double rest = machine.step_s(times.num_seqs, times.num_rows);
    const double draft = times.num_drafting > 0 ? machine.draft_s(times.num_drafting, times.max_drafts) + catch_up : 0;
    seconds += rest + draft;
    if (lengths == Lengths::kAdaptive) {
      times.rest_s = seen(rest, 10);
      times.draft_s = seen(draft, 20);
      policy.measured(times);
    }
    std::erase_if(running, [&](const Running& one) {
      if (one.generated < one.output) return false;
      policy.ended(one.generated);
      return true;
    });
  }

  void add(int count, int output, int prompt = 0) {
    for (int i = 0; i < count; ++i) {
      running.push_back({.request = next_request++, .output = output, .state = {.num_unseen = prompt}});
    }
  }
  void steps(const Text& text, int count) {
    for (int i = 0; i < count; ++i) step(text);
  }
  // `count` requests, `batch` at a time: one that ends makes room for the next one.
  void stream(const Text& text, int count, int batch, int output) {
    while (count > 0) {
      const int room = std::min(count, batch - static_cast<int>(running.size()));
      add(room, output);
      count -= room;
      step(text);
    }
  }
  void forget_score() {
    seconds = tokens = 0;
    num_steps = num_without = 0;
    for (Running& one : running) one.sum_lengths = 0;
  }
  double speed() const { return tokens / seconds; }
};

}  // namespace mortise::test
