// runtime/chat_template/budget.hpp: limits the resources of a rendering, so that neither a template nor messages can
// block a server. Every operation pays in proportion to the data that it reads and writes.
#pragma once

#include <cstddef>

#include "error.hpp"

namespace mortise::jinja {

struct Limits {
  std::size_t max_steps = 20'000'000;              // about a second
  std::size_t max_bytes = std::size_t{256} << 20;  // of living values and of the text
  std::size_t max_depth = 1000;                    // nested evaluations, in recursive macros and in expressions
};

// Nesting of lists in values that a template makes. (JSON in a request is at most 100 deep.)
inline constexpr std::size_t kMaxValueDepth = 200;

// The account of one rendering. Its Errors always have the code kInvalid. With kTooLarge, clients would shorten their
// history and try again, which does not help a template that runs forever. Used by one thread. Invariant: steps, bytes
// and depth are within the limits unless an Error was thrown.
class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  void step(std::size_t count = 1) {
    steps_ += count;
    if (steps_ > limits_.max_steps) fail("rendering takes more than {} steps", limits_.max_steps);
  }
  // Pays for work on `num_bytes` bytes: about 32 bytes take as long as a step.
  void read(std::size_t num_bytes) { step(1 + num_bytes / 32); }

  void take(std::size_t num_bytes) {
    read(num_bytes);
    if (num_bytes > limits_.max_bytes - bytes_) {
      fail("rendering takes more than {} bytes of memory", limits_.max_bytes);
    }
    bytes_ += num_bytes;
  }
  void give_back(std::size_t num_bytes) { bytes_ -= num_bytes; }

  void enter() {
    if (depth_ >= limits_.max_depth) {
      fail("calls and expressions nest deeper than {} levels; does a macro call itself forever?", limits_.max_depth);
    }
    ++depth_;
  }
  void leave() { --depth_; }

 private:
  const Limits limits_;
  std::size_t steps_ = 0;
  std::size_t bytes_ = 0;
  std::size_t depth_ = 0;
};

// Pays for a level of nesting for the length of a scope. Invariant: while this lives, the budget counts one level more.
// Used by the thread of the budget.
class Level {
 public:
  explicit Level(Budget& budget) : budget_(budget) { budget.enter(); }
  ~Level() { budget_.leave(); }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  Budget& budget_;
};

// Pays for a growing text for the length of a scope. Invariant: taken_ bytes are paid for. Used by the thread of the
// budget.
class Growth {
 public:
  explicit Growth(Budget& budget) : budget_(budget) {}
  ~Growth() { budget_.give_back(taken_); }
  Growth(const Growth&) = delete;
  Growth& operator=(const Growth&) = delete;

  void reach(std::size_t num_bytes) {
    if (num_bytes <= taken_) return;
    budget_.take(num_bytes - taken_);
    taken_ = num_bytes;
  }

 private:
  Budget& budget_;
  std::size_t taken_ = 0;
};

}  // namespace mortise::jinja
