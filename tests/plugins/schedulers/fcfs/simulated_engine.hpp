// tests/plugins/schedulers/fcfs/simulated_engine.hpp: what an engine does with a plan, without a model: counts blocks,
// runs tokens, generates, preempts, shares whole blocks of equal prefixes. Every plan is checked against the rules of
// scheduler.h and against the promises of fcfs; a breach throws std::logic_error.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "mortise/plugin.h"
#include "mortise/scheduler.h"

namespace mortise::test {

struct SimulationOptions {
  int32_t num_blocks = 64;
  int32_t block_size = 16;
  int32_t token_budget = 64;
  int32_t seq_budget = 8;
  int32_t max_lookahead = 0;   // drafts a decoding sequence may use; how many are accepted is random
  bool whole_drafts = false;   // they may not be cut
  int32_t num_priorities = 1;  // drawn per request
  int32_t num_prefixes = 0;    // prompts may begin with one of these, shared in whole blocks
};

class SimulatedEngine {
 public:
  SimulatedEngine(const mortise_component& scheduler, const SimulationOptions& options, uint64_t seed);
  ~SimulatedEngine();
  SimulatedEngine(const SimulatedEngine&) = delete;
  SimulatedEngine& operator=(const SimulatedEngine&) = delete;

  // REQUIRES: prompt + generated fit the pool. `prefix` < 0: none; else the prompt begins with that many whole blocks.
  void submit(int32_t prompt, int32_t generated, int32_t prefix = -1);
  void submit_random();
  void step();
  bool idle() const { return live_.empty(); }
  std::size_t num_live() const { return live_.size(); }

  int64_t num_steps() const { return num_steps_; }
  int64_t num_preemptions() const { return num_preemptions_; }
  int64_t num_finished() const { return num_finished_; }
  int64_t num_rows() const { return num_rows_; }

 private:
  struct Sequence {
    uint64_t id, arrival;
    int32_t priority;
    int32_t num_tokens, num_computed, last_token;  // it ends when num_tokens reaches last_token
    int32_t prefix;                                // -1: none
    bool running;
    bool shares;        // holds the prefix's blocks
    int32_t exclusive;  // other blocks that it holds
  };
  struct Prefix {
    int32_t num_blocks;
    bool resident;
    int32_t num_holders;
  };
  struct View;

  int32_t shared_blocks(const Sequence& sequence) const {
    return sequence.shares ? prefixes_[static_cast<std::size_t>(sequence.prefix)].num_blocks : 0;
  }
  int32_t num_free() const;
  int32_t cached_tokens(const Sequence& sequence) const;
  void release(Sequence& sequence);
  void allocate(int32_t n);
  void run(Sequence& sequence, int32_t num_new_tokens, int32_t lookahead);
  void check(const View& view, const mortise_schedule_plan& plan) const;

  const mortise_component& component_;
  void* scheduler_ = nullptr;
  const SimulationOptions options_;
  std::mt19937_64 random_;
  std::vector<Sequence> live_;  // in order of arrival
  std::vector<Prefix> prefixes_;
  int32_t unused_ = 0;  // blocks that hold nothing
  uint64_t next_id_ = 1;
  int64_t num_steps_ = 0, num_preemptions_ = 0, num_finished_ = 0, num_rows_ = 0;
};

}  // namespace mortise::test
