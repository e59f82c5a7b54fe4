// runtime/conformance/simulated_engine.hpp: what an engine does with a scheduler's plans, without a model: the host's
// own KV cache, tokens that are run and drawn, preemptions, pins, events. Checks every plan against the rules of
// mortise/scheduler.h, including those about starvation.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "conformance/case.hpp"
#include "engine/starvation.hpp"
#include "kv/cached_free_prefixes.hpp"
#include "kv/kv_cache.hpp"
#include "mortise/scheduler.h"

namespace mortise::conformance {

struct SimulationOptions {
  int32_t num_blocks = 64;
  int32_t block_size = 16;
  int32_t token_budget = 64;
  int32_t seq_budget = 8;
  int32_t max_lookahead = 0;   // drafts a decoding sequence may use; how many are accepted is random
  bool whole_drafts = false;   // drafts may not be cut
  int32_t num_priorities = 1;  // drawn per request
  int32_t num_prefixes = 0;    // prompts may begin with one of these
  bool nested = false;         // a prefix may begin with an earlier one
  int32_t num_groups = 0;      // hints, drawn per request
  bool prefix_cache = true;
  bool holds_back = false;   // like the engine, the view omits a sequence while an earlier one computes its prefix
  int percent_replaced = 0;  // percentage of steps that run the host's own plan instead
};

// What a request is; its prompt's tokens are its own.
struct SimulatedRequest {
  std::vector<int32_t> prompt;
  int32_t generated = 1;
  int32_t priority = 0;
  uint64_t group = 0;
};

// The scheduler that a simulated engine asks. Both throw if the call fails.
struct SchedulerCalls {
  std::function<void(const mortise_schedule_events&)> events;
  std::function<void(const mortise_schedule_view&, mortise_schedule_plan&)> plan;
};

// One engine with one scheduler. Throws a CaseFailed that names the rule when a plan breaks one. Invariant between
// calls: a sequence runs exactly while it holds blocks. Used by one thread.
class SimulatedEngine {
 public:
  SimulatedEngine(SchedulerCalls scheduler, const SimulationOptions& options, uint64_t seed);
  virtual ~SimulatedEngine() = default;
  SimulatedEngine(const SimulatedEngine&) = delete;
  SimulatedEngine& operator=(const SimulatedEngine&) = delete;

  // REQUIRES: prompt + generated fit the pool. Returns the sequence's id.
  uint64_t submit(SimulatedRequest request);
  uint64_t submit(int32_t prompt, int32_t generated);  // random tokens
  uint64_t submit_random() { return submit(draw_request()); }
  SimulatedRequest draw_request();
  std::vector<int32_t> draw_tokens(int32_t count);
  void abort(uint64_t id);
  void abort_random();
  void step();
  // Runs a step with the host's own plan; the scheduler is not asked.
  void step_by_host();
  // Shows the scheduler's view of the next step, and an empty plan that is thrown away.
  void with_view(const std::function<void(const mortise_schedule_view&, mortise_schedule_plan&)>& ask);
  void tell_events();  // Reports now the events that the next step would report.
  bool idle() const { return live_.empty(); }
  std::size_t num_live() const { return live_.size(); }
  bool is_live(uint64_t id) const {
    return std::ranges::any_of(live_, [id](const Sequence& s) { return s.id == id; });
  }
  int64_t num_steps() const { return num_steps_; }
  int64_t num_preemptions() const { return num_preemptions_; }
  int64_t num_finished() const { return num_finished_; }
  int64_t num_rows() const { return num_rows_; }                // computed, of prompts and generated tokens
  int64_t num_prompt_rows() const { return num_prompt_rows_; }  // those of num_rows() that are prompt tokens
  int64_t num_dropped_pins() const { return num_dropped_pins_; }
  int64_t num_pins() const { return num_pins_; }             // pins set so far
  std::size_t num_untold() const { return events_.size(); }  // events that the next step tells
  bool holds_nothing() const { return cache_.num_available() == cache_.num_blocks(); }

  // Sequences in the order in which they first ran.
  struct Start {
    uint64_t id;
    int64_t step;
    int32_t num_cached;
  };
  const std::vector<Start>& starts() const { return starts_; }

  // From now on `scheduler` plans. It is told of the live sequences first.
  void swap_scheduler(SchedulerCalls scheduler);

 protected:
  // A sequence of the simulated engine. A value. Invariant: it holds blocks exactly while it runs.
  struct Sequence {
    uint64_t id;
    SimulatedRequest request;
    std::vector<int32_t> tokens;
    int32_t num_computed = 0;
    std::size_t last_token;  // the sequence ends when it has this many tokens
    std::vector<BlockId> blocks, pinned;
    int32_t num_published = 0;
    bool publishes = true, was_started = false;
    int32_t num_cached = 0;  // while it waits
    std::vector<BlockId> path;

    bool running() const { return !blocks.empty(); }
    int32_t num_tokens() const { return static_cast<int32_t>(tokens.size()); }
    bool ended() const { return tokens.size() == last_token; }
  };
  struct View;
  // Writes the host's own plan: first come, first served, without pins.
  virtual void replace(const View& view, mortise_schedule_plan& plan) const;
  // For tests: whether a legal plan keeps what the scheduler itself promises. `tokens` and `preempted` by index.
  virtual void check_policy(const View&, const std::vector<int32_t>& /*tokens*/,
                            const std::vector<char>& /*preempted*/) const {}

 private:
  void look_up(Sequence& sequence) const;
  bool is_held_back(const Sequence& sequence, std::size_t index) const;
  void admit(Sequence& sequence);
  void run(Sequence& sequence, int32_t num_new_tokens, int32_t drafts);
  void release(Sequence& sequence);
  void end(Sequence& sequence);
  void pin(Sequence& sequence, int32_t num_tokens);
  void drop_pins();
  void look_up_waiting();
  void carry_out(const View& view, const mortise_schedule_plan& plan);
  void check(const View& view, const mortise_schedule_plan& plan) const;
  bool lacks_room_for_the_oldest(const View& view) const;
  void check_starvation(const View& view, const mortise_schedule_plan& plan);
  void add_event(int32_t kind, uint64_t id, int32_t num_tokens);

  SchedulerCalls scheduler_;
  const SimulationOptions options_;
  std::mt19937_64 random_;
  KvCache cache_;
  std::vector<Sequence> live_;  // in order of arrival
  std::vector<std::vector<int32_t>> prefixes_;
  struct Event {
    int32_t kind;
    uint64_t id;
    int32_t num_tokens;
    SimulatedRequest added;
  };
  std::vector<Event> events_;
  std::vector<Start> starts_;
  uint64_t next_id_ = 1;
  int64_t num_steps_ = 0, num_preemptions_ = 0, num_finished_ = 0, num_rows_ = 0, num_prompt_rows_ = 0;
  int64_t num_dropped_pins_ = 0, num_pins_ = 0;
  StarvationWatch starvation_;
};

// What the scheduler sees of a step, by index of the view.
struct SimulatedEngine::View {
  mortise_schedule_view abi{};
  std::vector<std::size_t> live;  // index in the engine
  std::vector<uint64_t> ids, groups;
  std::vector<int32_t> states, num_tokens, num_computed, num_cached, held, freed, lookahead, priorities;
  CachedFreePrefixes cached_free;
  std::vector<BlockId> paths;
  const SimulatedEngine& engine;
  mutable std::string wrong_question;  // the first invalid call of blocks_freed by the scheduler

  explicit View(const SimulatedEngine& engine);
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  // Returns the number of blocks that only these sequences hold.
  int32_t blocks_freed(std::span<const int32_t> seqs) const;
  bool running(int32_t i) const { return states[i] == MORTISE_SEQ_RUNNING; }
  int32_t run_begin(int32_t i) const { return running(i) ? num_computed[i] : num_cached[i]; }
  int32_t remaining(int32_t i) const { return num_tokens[i] - run_begin(i); }
  // Returns the number of tokens with KV after a run of n tokens; drafts run only after the last known token.
  int32_t end(int32_t i, int32_t n, int32_t drafts) const {
    return run_begin(i) + n + (n == remaining(i) ? drafts : 0);
  }
  int64_t new_blocks(int32_t i, int32_t end, bool preempts) const;
  // Returns whether sequence a comes before b: by priority, then by arrival.
  bool before(int32_t a, int32_t b) const {
    return std::pair(priorities[a], ids[a]) < std::pair(priorities[b], ids[b]);
  }

 private:
  void add(const Sequence& sequence);
};

}  // namespace mortise::conformance
