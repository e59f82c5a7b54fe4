// runtime/runner/runner.hpp: a draft model that runs beside the target. It keeps the tokens of sequences, runs the
// tokens that have no KV in ragged batches, and draws the next tokens. Implements the contract of mortise/ext/runner.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "execution/execution.hpp"
#include "execution/model_stack.hpp"
#include "mortise/ext/runner.h"
#include "runner/runner_kv.hpp"

namespace mortise {

struct RunnerSizes {
  std::int32_t max_num_seqs;  // in a batch
  std::int32_t max_batched_tokens;
  bool prefix_cache;
  std::int32_t target_vocab_size;  // larger token ids do not exist in the target
};

struct RunnerStats {
  std::uint64_t num_steps = 0, num_passes = 0, num_rows = 0, num_graph_replays = 0;
  std::uint64_t num_forgotten = 0;  // sequences that lost their KV to others
  std::size_t num_sequences = 0;
  // Cached free blocks are kept for their prefix and held by no sequence. The other blocks of num_blocks are held.
  std::size_t num_free_blocks = 0, num_cached_free_blocks = 0, num_blocks = 0;
};

// A draft model and the tokens of its sequences. Invariant: a sequence has KV for a prefix of its tokens. Engine's
// thread only.
class Runner {
 public:
  // `stacks` by rank, at least one; all have loaded their weights.
  Runner(std::vector<std::shared_ptr<ModelStack>> stacks, const RunnerSizes& sizes);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // Prepare for steps: first the model's buffers, then KV memory for `num_blocks` blocks out of the remaining memory.
  // `step_meanwhile` is called between two calls of parts. Throw Errors.
  void activate_model();
  void activate_kv(std::int32_t num_blocks, const std::function<void()>& step_meanwhile);

  // As specified in mortise/ext/runner.h. Throw Errors. Engine's thread only.
  void update(const mortise_runner_tokens& tokens);
  // A step in two calls: the first finds all errors of the arguments; the second may follow only if there were none.
  void begin_step(const mortise_runner_step& step);
  void run_step(const mortise_runner_step& step);
  void end(std::span<const std::uint64_t> ids);
  void fork(const mortise_runner_forks& forks);

  const ModelStack& stack() const { return *stacks_.front(); }
  std::uint64_t world() const { return stacks_.size(); }
  bool active() const { return execution_ != nullptr; }
  RunnerStats stats() const;

 private:
  mortise_activate_args sizes() const;
  void check(const mortise_runner_tokens& tokens) const;
  void append(RunnerSequence& sequence, std::int32_t token) const;
  void add_rows(std::span<RunnerSequence* const> runnable, std::size_t& next);
  void run_pass(const mortise_runner_step& wanted);
  void set_draws(const mortise_runner_step& wanted);
  void take_tokens(const StepResults& results, const mortise_runner_step& wanted);
  void check(const mortise_runner_forks& forks) const;
  void warn_of_full_pool();

  const std::vector<std::shared_ptr<ModelStack>> stacks_;
  ExecutionLimits limits_;
  const bool prefix_cache_;
  const std::int32_t target_vocab_size_;
  RunnerSequences sequences_;
  std::uint64_t num_steps_ = 0, num_passes_ = 0, num_rows_ = 0;
  std::uint64_t next_batch_id_ = 1;
  std::vector<std::uint64_t> ended_;  // ids that model and attention learn of in the next batch
  bool warned_ = false;

  // State of the current step; members only to reuse their memory.
  std::vector<RunnerSequence*> wanted_;   // in the order in which they run
  std::vector<RunnerSequence*> running_;  // in the current batch, parallel to `runs_`
  std::vector<RunnerSequence*> drawing_;  // parallel to the rows of draws_
  std::vector<RowRun> runs_;
  DrawRows draws_;
  const ScoreRows no_scores_{};
  // Set by activate_kv.
  std::unique_ptr<RunnerKv> kv_;
  std::unique_ptr<Execution> execution_;
};

}  // namespace mortise
