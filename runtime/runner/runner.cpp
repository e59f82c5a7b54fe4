#include "runner/runner.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "error.hpp"

namespace mortise {

namespace {

std::size_t num_choices_of(const mortise_runner_step& step) {
  return static_cast<std::size_t>(std::max(step.num_choices, 1));
}

}  // namespace

Runner::Runner(std::vector<std::shared_ptr<ModelStack>> stacks, const RunnerSizes& sizes)
    : stacks_(std::move(stacks)), prefix_cache_(sizes.prefix_cache), target_vocab_size_(sizes.target_vocab_size) {
  limits_.max_num_seqs = sizes.max_num_seqs;
  limits_.max_batched_tokens = sizes.max_batched_tokens;
  limits_.max_logit_rows = stack().max_logit_rows(sizes.max_batched_tokens);
  limits_.max_model_len = stack().dims().max_model_len;
  limits_.block_size = stack().block_size();
  // After a full acceptance the last draft and the bonus token run in one batch. Such steps are common enough for a
  // graph.
  limits_.max_drafts = 1;
}

Runner::~Runner() = default;

mortise_activate_args Runner::sizes() const {
  mortise_activate_args args{};
  args.struct_size = sizeof args;
  args.max_num_seqs = limits_.max_batch_seqs();
  args.max_batched_tokens = limits_.max_batched_tokens;
  args.max_logit_rows = limits_.max_logit_rows;
  args.max_model_len = limits_.max_model_len;
  args.block_size = limits_.block_size;
  args.num_blocks = limits_.num_blocks;
  return args;
}

void Runner::activate_model() {
  for (const auto& stack : stacks_) stack->activate_model(sizes());
}

void Runner::activate_kv(std::int32_t num_blocks, const std::function<void()>& step_meanwhile) {
  limits_.num_blocks = num_blocks;
  if (stack().parts().graphs != nullptr) limits_.padding_block = num_blocks;
  std::vector<ShardParts> shards;
  for (const auto& stack : stacks_) {
    stack->bind_kv(num_blocks);
    step_meanwhile();
    stack->activate_attention(sizes());
    step_meanwhile();
    shards.push_back(parts_of(stack));
  }
  kv_ = std::make_unique<RunnerKv>(limits_.num_blocks, limits_.block_size, prefix_cache_);
  execution_ = std::make_unique<Execution>(std::move(shards), limits_, 0, step_meanwhile);
}

void Runner::check(const mortise_runner_tokens& tokens) const {
  if (!active()) fail("the runner is not active: update it after the proposer's activate");
  for (std::int32_t i = 0; i < tokens.num_seqs; ++i) {
    const auto known = sequences_.find(tokens.seq_ids[i]);
    const std::int32_t length = known == sequences_.end() ? 0 : known->second.num_tokens();
    if (tokens.begins[i] < 0 || tokens.begins[i] > length) {
      fail("sequence {} should continue at token {}, but the runner knows {} of its tokens", tokens.seq_ids[i],
           tokens.begins[i], length);
    }
    if (tokens.offsets[i + 1] < tokens.offsets[i]) fail("offsets[{}] is less than offsets[{}]", i + 1, i);
  }
}

void Runner::update(const mortise_runner_tokens& tokens) {
  check(tokens);
  for (std::int32_t i = 0; i < tokens.num_seqs; ++i) {
    RunnerSequence& sequence = sequences_[tokens.seq_ids[i]];
    const std::span<const std::int32_t> fresh(tokens.tokens + tokens.offsets[i], tokens.tokens + tokens.offsets[i + 1]);
    const auto begin = sequence.tokens.begin() + tokens.begins[i];
    // KV stays valid for the common beginning of both token lists, so accepted drafts need not run again.
    const auto equal = std::mismatch(begin, sequence.tokens.end(), fresh.begin(), fresh.end()).first;
    kv_->cut(sequence, static_cast<std::int32_t>(equal - sequence.tokens.begin()));
    if (sequence.first_unknown >= tokens.begins[i]) sequence.first_unknown = RunnerSequence::kNone;
    sequence.tokens.erase(begin, sequence.tokens.end());
    for (const std::int32_t token : fresh) append(sequence, token);
    const bool drafts = (tokens.flags & MORTISE_RUNNER_DRAFTS) != 0;
    sequence.num_committed = drafts ? std::min(sequence.num_committed, tokens.begins[i]) : sequence.num_tokens();
  }
}

void Runner::append(RunnerSequence& sequence, std::int32_t token) const {
  const bool known = token >= 0 && token < stack().dims().vocab_size;
  if (!known) sequence.first_unknown = std::min(sequence.first_unknown, sequence.num_tokens());
  sequence.tokens.push_back(token);
}

void Runner::end(std::span<const std::uint64_t> ids) {
  if (!active()) return;
  for (const std::uint64_t id : ids) {
    const auto known = sequences_.find(id);
    if (known == sequences_.end()) continue;
    kv_->release(known->second);
    if (known->second.batch_id != 0) ended_.push_back(known->second.batch_id);
    sequences_.erase(known);
  }
}

// Collects the sequences of the step, except those that the model cannot run.
void Runner::begin_step(const mortise_runner_step& step) {
  if (!active()) fail("the runner is not active: run steps after the proposer's activate");
  ++num_steps_;
  wanted_.clear();
  for (std::int32_t i = 0; i < step.num_seqs; ++i) {
    const auto known = sequences_.find(step.seq_ids[i]);
    if (known == sequences_.end() || known->second.tokens.empty()) fail("sequence {} has no token", step.seq_ids[i]);
    RunnerSequence& sequence = known->second;
    if (std::exchange(sequence.last_step, num_steps_) == num_steps_) {
      fail("sequence {} is given twice", step.seq_ids[i]);
    }
    sequence.step_index = static_cast<std::size_t>(i);
    std::fill_n(step.sampled + static_cast<std::size_t>(i) * num_choices_of(step), num_choices_of(step), -1);
    if (sequence.num_tokens() > limits_.max_model_len || sequence.first_unknown != RunnerSequence::kNone) {
      kv_->release(sequence);  // it will not run again
    } else {
      // The last token runs again, because the next one is drawn from its row.
      kv_->cut(sequence, sequence.num_tokens() - 1);
      wanted_.push_back(&sequence);
    }
  }
}

void Runner::run_step(const mortise_runner_step& step) {
  const std::size_t count = kv_->reserve(wanted_, sequences_, num_steps_);
  if (count < wanted_.size()) warn_of_full_pool();
  const auto runnable = std::span<RunnerSequence* const>(wanted_).first(count);
  for (std::size_t next = 0; next < runnable.size();) {
    add_rows(runnable, next);
    run_pass(step);
  }
}

// Adds as many rows of the sequences from `next` on as fit into a batch. `next` becomes the first sequence that is not
// complete.
void Runner::add_rows(std::span<RunnerSequence* const> runnable, std::size_t& next) {
  runs_.clear();
  running_.clear();
  drawing_.clear();
  draws_.rows.clear();
  std::int32_t rows = 0;
  while (next < runnable.size() && rows < limits_.max_batched_tokens &&
         runs_.size() < static_cast<std::size_t>(limits_.max_num_seqs)) {
    RunnerSequence& sequence = *runnable[next];
    const std::int32_t missing = sequence.num_tokens() - sequence.num_computed;
    const std::int32_t count = std::min(missing, limits_.max_batched_tokens - rows);
    RowRun run;
    if (sequence.batch_id == 0) sequence.batch_id = next_batch_id_++;
    run.seq_id = sequence.batch_id;
    run.first = sequence.num_computed;
    run.known = std::span<const std::int32_t>(sequence.tokens)
                    .subspan(static_cast<std::size_t>(run.first), static_cast<std::size_t>(count));
    run.blocks = sequence.blocks;
    runs_.push_back(run);
    running_.push_back(&sequence);
    rows += count;
    if (count < missing) return;
    draws_.rows.push_back(rows - 1);
    drawing_.push_back(&sequence);
    ++next;
  }
}

void Runner::run_pass(const mortise_runner_step& wanted) {
  set_draws(wanted);
  execution_->launch({num_passes_++, runs_, draws_, no_scores_, ended_});
  ended_.clear();  // attention and model know of them now
  num_rows_ += static_cast<std::uint64_t>(execution_->num_rows());
  const StepResults results = execution_->collect();
  for (std::size_t i = 0; i < running_.size(); ++i) running_[i]->num_computed += runs_[i].num_rows();
  take_tokens(results, wanted);
  for (RunnerSequence* sequence : running_) kv_->publish(*sequence);
}

// Gives each row of draws_ the sampling arguments that the step has for the row's sequence.
void Runner::set_draws(const mortise_runner_step& wanted) {
  SamplingArrays arrays;
  for (const RunnerSequence* sequence : drawing_) {
    const std::size_t i = sequence->step_index;
    arrays.temperatures.push_back(wanted.temperatures[i]);
    arrays.top_ks.push_back(wanted.top_ks == nullptr ? 0 : wanted.top_ks[i]);
    arrays.top_ps.push_back(wanted.top_ps == nullptr ? 1 : wanted.top_ps[i]);
    arrays.min_ps.push_back(wanted.min_ps == nullptr ? 0 : wanted.min_ps[i]);
    arrays.keys.push_back(wanted.keys[i]);
    arrays.positions.push_back(sequence->num_tokens());
    arrays.edits.emplace_back();
    arrays.allowed_index.push_back(-1);
  }
  draws_.sampling = std::move(arrays);
  draws_.num_top.assign(drawing_.size(), -1);
  draws_.num_choices = static_cast<std::int32_t>(num_choices_of(wanted));
  draws_.wanted_logits.clear();
  draws_.on_logits = nullptr;
  if (wanted.logits == nullptr || drawing_.empty()) return;
  draws_.wanted_logits.push_back({0, drawing_.size()});
  draws_.on_logits = [this, &wanted](const DrawnLogits& drawn) {
    const auto vocab_size = static_cast<std::size_t>(stack().dims().vocab_size);
    for (std::size_t i = 0; i < drawn.range.count; ++i) {
      const std::size_t to = drawing_[drawn.range.first + i]->step_index;
      std::ranges::copy(drawn.logits.subspan(i * drawn.stride, vocab_size), wanted.logits + to * vocab_size);
    }
  };
}

// Takes the drawn tokens of each sequence, choice by choice, and appends the first.
void Runner::take_tokens(const StepResults& results, const mortise_runner_step& wanted) {
  const std::size_t num_choices = num_choices_of(wanted);
  for (std::size_t i = 0; i < drawing_.size(); ++i) {
    for (std::size_t choice = 0; choice < num_choices; ++choice) {
      const std::int32_t token =
          choice == 0 ? results.draws[i].id : results.further_choices[i * (num_choices - 1) + choice - 1];
      if (token < 0 || token >= target_vocab_size_) continue;
      wanted.sampled[drawing_[i]->step_index * num_choices + choice] = token;
      if (choice == 0) drawing_[i]->tokens.push_back(token);
    }
  }
}

void Runner::check(const mortise_runner_forks& forks) const {
  if (!active()) fail("the runner is not active: update it after the proposer's activate");
  for (std::int32_t i = 0; i < forks.num_forks; ++i) {
    const auto origin = sequences_.find(forks.from_ids[i]);
    if (origin == sequences_.end() || origin->second.tokens.empty()) {
      fail("sequence {} cannot be forked: it has no token", forks.from_ids[i]);
    }
    if ((forks.to_ids[i] & MORTISE_RUNNER_FORK_BIT) == 0) {
      fail("the id of fork {} lacks MORTISE_RUNNER_FORK_BIT, the highest bit", forks.to_ids[i]);
    }
    const auto end = forks.to_ids + i;
    if (sequences_.contains(forks.to_ids[i]) || std::find(forks.to_ids, end, forks.to_ids[i]) != end) {
      fail("the id {} of a fork is in use", forks.to_ids[i]);
    }
  }
}

void Runner::fork(const mortise_runner_forks& forks) {
  check(forks);
  std::vector<BlockId> from, to;
  for (std::int32_t i = 0; i < forks.num_forks; ++i) {
    RunnerSequence& fork = sequences_[forks.to_ids[i]];
    const RunnerSequence& origin = sequences_.at(forks.from_ids[i]);
    fork.tokens.assign(origin.tokens.begin(), origin.tokens.end() - 1);
    fork.first_unknown = origin.first_unknown < fork.num_tokens() ? origin.first_unknown : RunnerSequence::kNone;
    fork.num_committed = std::min(origin.num_committed, fork.num_tokens());
    // If there is no room, the fork starts without KV, like a new sequence.
    kv_->fork(origin, std::min(origin.num_computed, fork.num_tokens()), fork, from, to);
    append(fork, forks.tokens[i]);
  }
  execution_->copy_blocks(from, to);
}

void Runner::warn_of_full_pool() {
  if (std::exchange(warned_, true)) return;
  spdlog::warn(
      "{}: the draft model's KV cache of {} tokens is full: some sequences go without its drafts, or are computed by "
      "it anew; raise the proposer's kv_memory or lower max_num_seqs",
      stack().checkpoint().path().string(), std::int64_t{limits_.num_blocks} * limits_.block_size);
}

RunnerStats Runner::stats() const {
  RunnerStats stats;
  stats.num_steps = num_steps_;
  stats.num_passes = num_passes_;
  stats.num_rows = num_rows_;
  stats.num_sequences = sequences_.size();
  if (!active()) return stats;
  stats.num_graph_replays = execution_->num_graph_replays();
  stats.num_forgotten = kv_->num_forgotten();
  stats.num_free_blocks = kv_->cache().num_free();
  stats.num_cached_free_blocks = kv_->cache().num_cached_free();
  stats.num_blocks = kv_->cache().num_blocks();
  return stats;
}

}  // namespace mortise
