// runtime/runner/runner.hpp: a second model beside the target: keeps the tokens of sequences, runs those without KV in
// ragged batches, and draws what comes after them. What mortise/ext/runner.h promises is kept here.
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
  std::int32_t max_num_seqs;  // of a batch
  std::int32_t max_batched_tokens;
  bool prefix_cache;
  std::int32_t target_vocab_size;  // tokens from here on are none of the target
};

struct RunnerStats {
  std::uint64_t num_steps = 0, num_passes = 0, num_rows = 0, num_graph_replays = 0;
  std::uint64_t num_forgotten = 0;  // sequences that lost their KV to others
  std::size_t num_sequences = 0;
  // Free, cached (kept for their prefix, held by nobody) and held blocks make up all.
  std::size_t num_free_blocks = 0, num_cached_blocks = 0, num_blocks = 0;
};

class Runner {
 public:
  // `stack` has its weights.
  Runner(std::shared_ptr<ModelStack> stack, const RunnerSizes& sizes);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // Makes what steps need: first the model's buffers, then, of what these leave, KV memory for `num_blocks` blocks.
  // `step_meanwhile` is called between two calls of parts. Throws Errors.
  void activate_model();
  void activate_kv(std::int32_t num_blocks, const std::function<void()>& step_meanwhile);

  // As mortise/ext/runner.h has them; throw Errors. Engine thread only.
  void update(const mortise_runner_tokens& tokens);
  // A step: what can be wrong with it is found by the first, and only then the second follows.
  void begin_step(const mortise_runner_step& step);
  void run_step(const mortise_runner_step& step);
  void end(std::span<const std::uint64_t> ids);
  void fork(const mortise_runner_forks& forks);

  const ModelStack& stack() const { return *stack_; }
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

  const std::shared_ptr<ModelStack> stack_;
  ExecutionLimits limits_;
  const bool prefix_cache_;
  const std::int32_t target_vocab_size_;
  RunnerSequences sequences_;
  std::uint64_t num_steps_ = 0, num_passes_ = 0, num_rows_ = 0;
  std::uint64_t next_batch_id_ = 1;
  std::vector<std::uint64_t> ended_;  // batch ids, to be told to model and attention in the next pass
  bool warned_ = false;

  // Of the running step; kept for their memory.
  std::vector<RunnerSequence*> wanted_;   // in the order in which they run
  std::vector<RunnerSequence*> running_;  // in the running pass, parallel to `runs_`
  std::vector<RunnerSequence*> drawing_;  // parallel to the rows of draws_
  std::vector<RowRun> runs_;
  DrawRows draws_;
  const ScoreRows no_scores_{};
  // From activate_kv on.
  std::unique_ptr<RunnerKv> kv_;
  std::unique_ptr<Execution> execution_;
};

}  // namespace mortise
