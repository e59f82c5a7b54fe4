// runtime/engine/engine.hpp: runs requests. One thread, the engine's thread, owns all request state. Front ends submit
// requests through an inbox and read results from channels (delivery/). The engine's thread calls no front end and
// waits for none. A step:
//   1 inbox: new and aborted requests, swaps of parts
//   2 the scheduler plans
//   3 the proposer drafts
//   4 one ragged batch is built
//   5 the model's forward
//   6 head, sampling, scoring of the rows that want it
//   7 tokens are committed, ended sequences released
//   8 their text is written and streamed: on a device that computes behind the host, while the next step runs
// Results do not depend on what else is in a batch: see docs/numerics.md.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "delivery/delivery_pool.hpp"
#include "delivery/outbox.hpp"
#include "engine/gap_watch.hpp"
#include "engine/hooks.hpp"
#include "engine/inbox.hpp"
#include "engine/live_requests.hpp"
#include "engine/parts.hpp"
#include "engine/request.hpp"
#include "engine/sequence.hpp"
#include "engine/setup.hpp"
#include "engine/step_trace.hpp"
#include "engine/swap.hpp"
#include "engine/verified_swap.hpp"
#include "published.hpp"
#include "sampling/choice_guides.hpp"
#include "speculation/speculation_stats.hpp"
#include "tokenizer/tokenizer.hpp"

namespace mortise {

// Facts about the model that the engine needs besides the parts.
struct ModelInfo {
  std::int32_t vocab_size = 0;           // columns of the head
  std::vector<std::int32_t> eos_tokens;  // any of them ends a choice
  bool is_cut = false;                   // max_model_len is the user's and below the checkpoint's own length
};

struct EngineStats {
  std::uint64_t num_steps = 0;
  std::uint64_t num_rows = 0;  // rows run in all steps
  // The same rows by kind, without the additional paths of draft trees. `last_batch` is the last step alone.
  std::uint64_t num_prompt_rows = 0, num_decode_rows = 0, num_draft_rows = 0;
  BatchComposition last_batch;
  PhaseTimes phases;
  std::uint64_t num_generated = 0;  // tokens
  std::uint64_t num_preemptions = 0;
  std::uint64_t num_admitted_tokens = 0;           // known tokens of sequences, counted at each admission,
  std::uint64_t num_cached_tokens = 0;             // and how many of them came from the prefix cache
  std::uint64_t num_evicted_blocks = 0;            // from the prefix cache
  std::uint64_t num_drafts = 0, num_accepted = 0;  // of proposers
  SpeculationStats speculation;                    // drafts by proposer and position, and times
  // Tokens of the predictions of choices that have ended, counted as in Usage.
  std::uint64_t num_accepted_prediction_tokens = 0, num_rejected_prediction_tokens = 0;
  std::uint64_t num_graph_replays = 0;  // steps that ran as a captured graph
  std::uint64_t num_rejected_plans = 0, num_proposer_failures = 0;
  std::uint64_t num_starved = 0;             // sequences that the scheduler passed over until the host ran them
  std::uint64_t num_proposer_sequences = 0;  // that proposers keep state for; a proposer that does not say counts 0
  std::int32_t num_running = 0, num_waiting = 0;
  // Free blocks, cached free blocks (in the prefix tree, held by nobody) and held blocks add up to num_blocks.
  std::int32_t num_free_blocks = 0, num_cached_free_blocks = 0, num_blocks = 0;
};

// Returns a random seed for a request that gives none.
std::uint64_t draw_seed();

// Returns why a sequence cannot run to its end within these limits, or nullopt if it can.
std::optional<std::string> misfit(const Sequence& sequence, const EngineLimits& limits);

// Runs the requests of one pipeline on a thread of its own. Invariant between two steps: every live sequence is in
// live_ and requests_, its known tokens are committed, and each of its blocks is held in the KV cache. Public functions
// state their threads; private ones run on the engine's thread, except those of submit.cpp.
class Engine {
 public:
  // `parts` are active. Parts without an owner outlive the engine, as `tokenizer` does. Starts the engine's thread.
  Engine(const Parts& parts, const EngineLimits& limits, ModelInfo model, const Tokenizer& tokenizer,
         const EngineHooks& hooks = {});
  // Aborts all requests and ends the threads. Returns when every sink has received the end of each of its choices.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Throws an Error if the request can never run (parameters, length, KV memory). Only submit() checks its guided
  // `choices`. [any thread]
  void check(const Request& request) const;
  // Checks the request and queues it. `sink` receives the deltas of every choice until it finishes, on the threads of
  // the engine's DeliveryPool. Throws what check() throws, an OverloadedError when too many requests wait, and an Error
  // with kUnavailable when the engine drains or has failed. [any thread, a sink's too]
  RequestId submit(Request request, Sink sink, News news = News::kEachStep);
  // The same for a front end that reads the channel itself. The channel serves this request alone. [any thread, a
  // sink's too]
  RequestId submit(Request request, std::shared_ptr<PulledChannel> channel);
  // Returns the tokens of the request's guided `choices`, in their order. Throws what submit() would throw. [any
  // thread]
  std::vector<std::vector<std::int32_t>> choice_tokens(const Request& request) const;
  // Ends the request's choices with FinishReason::kAborted at the next step; unknown ids are ignored. Takes constant
  // time, on the engine's thread too. [any thread]
  void abort(RequestId id);
  // Accepts no more requests and waits for the others to finish. Requests left at the deadline end with
  // FinishReason::kError and ErrorCode::kUnavailable. Returns true if no request was left. [any thread but a sink's]
  bool drain(std::chrono::steady_clock::time_point deadline) { return inbox_.drain(deadline); }
  EngineHealth health() const { return inbox_.health(); }  // [any thread]
  // Updated after each step in which a request came, started, was preempted or ended, and otherwise every 50 ms. [any
  // thread]
  EngineStats stats() const;
  // Replaces the serving parts by other parts, or by parts of other sizes, between two steps. Blocks the caller until
  // every sequence that ran has its next token (GapWatch). The engine pauses only while `make` runs and the parts are
  // exchanged. Sequences keep their tokens; if the new parts have other KV memory, their KV is computed again. Throws
  // what `make` throws, what Inbox::put throws, and an Error with kConflict if a live request could not go on; nothing
  // has changed then.
  // With `verify_steps` the candidate first runs beside the serving parts for that many steps and is compared with them
  // (VerifiedSwap); the call blocks meanwhile. Then it also throws a DifferenceError that describes the first
  // difference, and an Error with kConflict when no step could be compared for EngineHooks::verify_patience, when
  // `cancel` was requested, or while another such swap is under way. [any thread but the engine's and a sink's]
  SwapFigures swap(MakeReplacement make, std::int32_t verify_steps = 0, std::stop_token cancel = {});
  // Traces the following steps to `file`; null ends the trace. When the call returns, nothing more is written to the
  // previous file. In the new file the live sequences begin at this time. REQUIRES: `file` outlives the engine, or the
  // next call. [any thread but the engine's and a sink's]
  void trace_to(TraceFile* file);

 private:
  // What a swap has built but not put in place yet. If sizes change, `all` is a complete new Setup, and the other
  // members are null; otherwise `all` is null.
  struct Fresh {
    std::unique_ptr<Setup> all;
    std::unique_ptr<SequenceKv> kv;
    std::unique_ptr<Planner> planner;
    std::unique_ptr<Drafting> drafting;
  };

  static RequestTerms terms_of(const Policies& policies, const EngineLimits& limits);
  SetupContext context() { return {model_.vocab_size, messages_, hooks_}; }
  void check_blocks(const EngineLimits& limits, std::int32_t length, std::int32_t max_tokens) const;
  std::vector<std::int32_t> end_tokens_of(const SamplingParams& sampling) const;
  void check(const Request& request, const RequestTerms& terms) const;
  std::shared_ptr<RequestState> prepare(Request& request) const;  // checks it and draws its seed
  RequestId queue(std::shared_ptr<RequestState> state, Request request, std::shared_ptr<Channel> channel);
  void run();
  void change_trace(TraceOrder& order);
  void step_and_report();  // runs a step and all that follows it; handles its exceptions
  bool take_inbox();       // returns false at stop(); the caller then aborts all live sequences
  bool take_requests(Inbox::Arrivals arrivals);
  void add(const std::shared_ptr<RequestState>& state);
  void step();
  StepPlan plan(std::uint64_t step_id);
  void preempt(Sequence& sequence);
  std::vector<Sequence*> admit(const StepPlan& plan);
  void send_previous_step();
  void set_pins(const std::vector<Pin>& pins);
  void drop_pins();
  void fork_drafts(std::span<const ScheduledSequence> scheduled);
  void copy_partial_blocks(std::span<Sequence* const> admitted);
  void copy_blocks(std::span<const BlockId> from, std::span<const BlockId> to);
  void take_best_path(Sequence& sequence, std::vector<LogitRow>& rows, std::vector<TokenInfo>& infos);
  void commit(const std::vector<ScheduledSequence>& scheduled, std::span<const LogitRow> rows,
              std::vector<TokenInfo> infos);
  void commit_sequence(Sequence& sequence, std::span<const LogitRow> rows, std::span<TokenInfo> infos,
                       std::int32_t num_new_tokens);
  FinishReason end_of(const Sequence& sequence, std::int32_t token) const;
  void write_texts();
  void send(Sequence& sequence);
  void end(Sequence& sequence, FinishReason reason);
  FinishReason end_text(Sequence& sequence, FinishReason reason);
  void drop_ended();
  void send_outbox();
  void step_failed(const std::exception& exception);
  void fail_sequence(Sequence& sequence, const std::string& why, ErrorCode code);
  void fail_all(const std::string& why, ErrorCode code);
  // Ends all requests and accepts no others if the device, the model or the attention has failed.
  void check_required_parts();
  void publish_stats();

  void carry_out(const std::shared_ptr<SwapOrder>& order);
  void carry_out(const std::shared_ptr<SwapOrder>& order, const MakeReplacement& make, VerifiedSwap::Verified* verified,
                 SwapFigures figures);
  void tell_when_streams_go_on(SwapFigures figures, std::function<void(const SwapFigures&)> tell);
  SwapFigures carry_out(const MakeReplacement& make, const std::function<void()>& step_meanwhile,
                        VerifiedSwap::Verified* verified = nullptr, SwapFigures figures = {});
  void begin_verified(const std::shared_ptr<SwapOrder>& order);
  void settle_verified();
  // Returns the kind of a part that failed for good and has a fallback, and how it failed.
  std::optional<std::pair<PartKind, std::string>> find_broken() const;
  bool fall_back(PartKind kind, const std::string& why);  // returns false if there is no fallback or it failed
  bool fall_back_from_broken();
  bool fall_back_from(const PartError& failed);  // `failed` was thrown by a step
  void step_meanwhile();
  Replacement made(const MakeReplacement& make, const StepUse& use) const;
  std::size_t exchange(Replacement next, std::uint64_t num_replays, VerifiedSwap::Verified* verified);
  void put_in(Fresh fresh, bool keeps_kv);
  void check_replacement(const Replacement& next) const;
  std::size_t give_up_kv();
  std::size_t free_places();
  void resume(const std::vector<ShardParts>& before);

  const ModelInfo model_;
  const Tokenizer& tokenizer_;
  mutable ChoiceGuides guides_;
  const EngineHooks hooks_;
  Published<RequestTerms> terms_;  // of setup_

  // Engine's thread only.
  RepeatedMessages messages_;
  StepTrace trace_;
  std::unique_ptr<Setup> setup_;
  std::deque<std::shared_ptr<SwapOrder>> swap_orders_;
  std::unique_ptr<VerifiedSwap> verified_swap_;  // null: none is under way
  std::uint64_t generation_ = 0;                 // of the parts: rises with each swap
  GapWatch gaps_;                                // watches the latest swap
  Fallbacks fallbacks_;                          // the ways back from the parts of setup_
  EngineStats carried_;                          // counts of parts that swaps have removed
  std::deque<std::shared_ptr<Sequence>> live_;   // in order of arrival
  bool any_ended_ = false;                       // since drop_ended()
  bool stats_changed_ = true;                    // since publish_stats()
  std::chrono::steady_clock::time_point published_{};
  // The sequences of the running step until its tokens are committed. If a part refuses this step, only these end.
  std::vector<Sequence*> in_step_;
  std::vector<std::uint64_t> ended_ids_;  // the next call reports them to the plugins
  std::vector<StepOutcome> outcomes_;
  std::vector<Sequence*> unwritten_;  // committed, but their text is not written yet
  LiveRequests requests_;
  Inbox inbox_;
  DeliveryPool delivery_;
  Outbox outbox_;  // deltas of this step
  EngineStats counters_;
  std::uint64_t next_sequence_ = 1;

  mutable std::mutex mutex_;  // guards stats_
  EngineStats stats_;

  std::thread thread_;
};

}  // namespace mortise
