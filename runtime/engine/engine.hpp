// runtime/engine/engine.hpp: runs requests. One engine thread owns all request state; front ends talk to it through a
// queue. A step:
//   1 inbox: new and aborted requests
//   2 the scheduler plans
//   3 the proposer drafts
//   4 one ragged batch is built
//   5 the model's forward
//   6 head, sampling, scoring of the rows that want it
//   7 tokens are committed, text is streamed, ended sequences let go
// Results do not depend on what else is in a batch: see docs/numerics.md.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "engine/drafting.hpp"
#include "engine/hooks.hpp"
#include "engine/parts.hpp"
#include "engine/planner.hpp"
#include "engine/request.hpp"
#include "engine/row_work.hpp"
#include "engine/sequence.hpp"
#include "engine/sequence_kv.hpp"
#include "engine/step_rows.hpp"
#include "engine/step_trace.hpp"
#include "execution/execution.hpp"
#include "sampling/choice_guides.hpp"
#include "speculation/speculation_stats.hpp"
#include "tokenizer/tokenizer.hpp"

namespace mortise {

// What the engine knows of its model besides the parts.
struct ModelInfo {
  std::int32_t vocab_size = 0;           // of the head
  std::vector<std::int32_t> eos_tokens;  // any of them ends a choice
};

struct EngineStats {
  std::uint64_t num_steps = 0;
  std::uint64_t num_rows = 0;       // rows run in all steps
  std::uint64_t num_generated = 0;  // tokens
  std::uint64_t num_preemptions = 0;
  std::uint64_t num_admitted_tokens = 0;  // known tokens of sequences when they start or go on after a preemption,
  std::uint64_t num_cached_tokens = 0;    // and how many of them came from the prefix cache
  std::uint64_t num_evicted_blocks = 0;   // from the prefix cache
  std::uint64_t num_draft_tokens = 0, num_accepted_tokens = 0;
  SpeculationStats speculation;         // the same by proposer and position, and times
  std::uint64_t num_graph_replays = 0;  // steps that ran as a captured graph
  std::uint64_t num_rejected_plans = 0, num_proposer_failures = 0;
  std::uint64_t num_proposer_sequences = 0;  // that proposers keep something of, as far as they say
  std::int32_t num_running = 0, num_waiting = 0;
  // Free, cached (kept for their prefix, held by nobody) and held blocks make up all.
  std::int32_t num_free_blocks = 0, num_cached_blocks = 0, num_blocks = 0;
};

class Engine {
 public:
  // `parts` are active. Where they have no owner they outlive the engine, as `tokenizer` does. The thread starts here.
  Engine(Parts parts, const EngineLimits& limits, ModelInfo model, const Tokenizer& tokenizer,
         const EngineHooks& hooks = {});
  ~Engine();  // Aborts what still runs and joins the thread.
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Throws an Error if the request can never run (parameters, length, KV memory). What its `choices` are is checked by
  // submit() alone. [any thread]
  void check(const Request& request) const;
  // Checks the request and queues it. `sink` hears of every choice until its finish. [any thread, a sink's too]
  RequestId submit(Request request, Sink sink);
  // The tokens of the request's guided `choices`, in their order. Throws what submit() would. [any thread]
  std::vector<std::vector<std::int32_t>> choice_tokens(const Request& request) const;
  // Ends the request's choices with FinishReason::kAborted at the next step; unknown ids are ignored. [any thread]
  void abort(RequestId id);
  EngineStats stats() const;  // [any thread]
  // The parts that run steps now. [any thread]
  std::shared_ptr<const PartsSnapshot> parts() const { return execution_.snapshot(); }

 private:
  void check_blocks(std::int32_t length, std::int32_t max_tokens) const;
  std::vector<std::int32_t> end_tokens_of(const SamplingParams& sampling) const;
  void run();
  bool take_inbox();  // false: stop, and whoever is live is to be aborted
  void step();
  StepPlan plan(std::uint64_t step_id);
  void preempt(Sequence& sequence);
  void set_pins(const std::vector<Pin>& pins);
  void drop_pins();
  void fork_drafts(std::span<const ScheduledSequence> scheduled);
  void copy_tails(std::span<Sequence* const> admitted);
  void take_best_path(Sequence& sequence, std::vector<LogitRow>& rows, std::vector<TokenInfo>& infos);
  void commit(const std::vector<ScheduledSequence>& scheduled, std::span<const LogitRow> rows,
              std::vector<TokenInfo> infos);
  void commit_sequence(Sequence& sequence, std::span<const LogitRow> rows, std::span<TokenInfo> infos,
                       std::int32_t num_new_tokens);
  FinishReason end_of(const Sequence& sequence, std::int32_t token) const;
  void end(Sequence& sequence, FinishReason reason, Delta delta);
  void drop_ended();
  void send_outbox();
  void step_failed(const std::exception& exception);
  void fail_sequence(Sequence& sequence, const std::string& why, ErrorCode code);
  void fail_all(const std::string& why, ErrorCode code);
  void publish_stats();

  const Policies policies_;
  const EngineLimits limits_;
  const ModelInfo model_;
  const Tokenizer& tokenizer_;
  mutable ChoiceGuides guides_;
  RequestWatcher* const watcher_;

  // Engine thread only.
  RepeatedMessages messages_;
  StepTrace trace_;
  SequenceKv kv_;
  Planner planner_;
  Drafting drafting_;
  StepRows rows_;
  RowWork row_work_;
  Execution execution_;
  std::deque<std::shared_ptr<Sequence>> live_;  // in order of arrival
  bool any_ended_ = false;                      // since drop_ended()
  // Scheduled in the running step, which has committed nothing of them yet: what a failure now costs.
  std::vector<std::shared_ptr<Sequence>> in_step_;
  std::vector<std::uint64_t> ended_ids_;  // to be told to the plugins in the next call
  std::vector<StepOutcome> outcomes_;
  // News of this step, sent when the books are closed: who hears of a finish finds its blocks free in stats().
  std::vector<std::pair<std::shared_ptr<const RequestState>, Delta>> outbox_;
  EngineStats counters_;
  std::uint64_t next_sequence_ = 1;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::vector<std::shared_ptr<RequestState>> submitted_;
  std::vector<RequestId> aborted_;
  RequestId next_request_ = 1;
  bool stop_ = false;
  EngineStats stats_;

  std::thread thread_;
};

}  // namespace mortise
