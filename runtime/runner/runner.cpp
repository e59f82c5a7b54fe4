#include "runner/runner.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "error.hpp"

namespace mortise {

// Everything that lies in the device's memory or stands for what does.
struct Runner::Machine {
  Machine(const Parts& parts, const EngineLimits& limits, std::int32_t vocab_size)
      : kv(limits.num_blocks, limits.block_size, limits.prefix_cache),
        builder(parts.device, limits),
        graphs(parts, limits),
        head(parts, vocab_size),
        upload(parts.device),
        download(parts.device),
        results(parts.device) {}

  RunnerKv kv;
  BatchBuilder builder;
  StepGraphs graphs;
  HeadPass head;
  PackedUpload upload;
  Download download;
  DeviceBuffer results;

  // The sampling arguments of the rows that are drawn now.
  std::vector<float> temperatures, top_ps, min_ps;
  std::vector<std::int32_t> top_ks;
  std::vector<std::uint64_t> keys;
  std::vector<std::int64_t> positions;
  std::vector<std::vector<std::int32_t>> banned;  // ascending, of each row
  std::vector<std::int32_t> edit_offsets, edit_ids;
  std::vector<float> edit_biases, edit_repetitions, edit_subtracts;

  void set_arguments(std::span<RunnerSequence* const> drawn, const mortise_runner_step& wanted);
  // A token for each row; valid until the next call.
  std::span<const std::int32_t> draw(const DevicePart& device, const mortise_step& step, const mortise_tensor& logits,
                                     std::size_t count);
  // The next draw goes without these, one of each row.
  void ban(std::span<const std::int32_t> tokens);
};

namespace {

std::size_t num_choices_of(const mortise_runner_step& step) {
  return static_cast<std::size_t>(std::max(step.num_choices, 1));
}

}  // namespace

void Runner::Machine::set_arguments(std::span<RunnerSequence* const> drawn, const mortise_runner_step& wanted) {
  for (auto* array : {&temperatures, &top_ps, &min_ps, &edit_biases, &edit_repetitions, &edit_subtracts})
    array->clear();
  for (auto* array : {&top_ks, &edit_offsets, &edit_ids}) array->clear();
  keys.clear();
  positions.clear();
  banned.clear();
  for (const RunnerSequence* sequence : drawn) {
    const std::size_t i = sequence->step_index;
    temperatures.push_back(wanted.temperatures[i]);
    top_ks.push_back(wanted.top_ks == nullptr ? 0 : wanted.top_ks[i]);
    top_ps.push_back(wanted.top_ps == nullptr ? 1 : wanted.top_ps[i]);
    min_ps.push_back(wanted.min_ps == nullptr ? 0 : wanted.min_ps[i]);
    keys.push_back(wanted.keys[i]);
    positions.push_back(sequence->num_tokens());
  }
}

void Runner::Machine::ban(std::span<const std::int32_t> tokens) {
  banned.resize(tokens.size());
  edit_ids.clear();
  edit_offsets.assign(1, 0);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0) banned[i].insert(std::ranges::upper_bound(banned[i], tokens[i]), tokens[i]);
    edit_ids.insert(edit_ids.end(), banned[i].begin(), banned[i].end());
    edit_offsets.push_back(static_cast<std::int32_t>(edit_ids.size()));
  }
  edit_biases.assign(edit_ids.size(), -std::numeric_limits<float>::infinity());
  edit_repetitions.assign(edit_ids.size(), 1);
  edit_subtracts.assign(edit_ids.size(), 0);
}

std::span<const std::int32_t> Runner::Machine::draw(const DevicePart& device, const mortise_step& step,
                                                    const mortise_tensor& logits, std::size_t count) {
  upload.clear();
  const auto put = [&](const auto& values) {
    return upload.put(std::span<const typename std::decay_t<decltype(values)>::value_type>(values));
  };
  const std::size_t temperature = put(temperatures), top_k = put(top_ks), top_p = put(top_ps), min_p = put(min_ps),
                    key = put(keys), position = put(positions), offset = put(edit_offsets), id = put(edit_ids),
                    bias = put(edit_biases), repetition = put(edit_repetitions), subtract = put(edit_subtracts);
  upload.upload();
  mortise_sample_args args{};
  args.struct_size = sizeof args;
  args.logits = &logits;
  args.temperatures = upload.device<float>(temperature);
  args.top_ks = upload.device<std::int32_t>(top_k);
  args.top_ps = upload.device<float>(top_p);
  args.min_ps = upload.device<float>(min_p);
  args.keys = upload.device<std::uint64_t>(key);
  args.positions = upload.device<std::int64_t>(position);
  if (!edit_ids.empty()) args.edit_offsets = upload.device<std::int32_t>(offset);
  args.edit_ids = upload.device<std::int32_t>(id);
  args.edit_biases = upload.device<float>(bias);
  args.edit_repetitions = upload.device<float>(repetition);
  args.edit_subtracts = upload.device<float>(subtract);
  args.tokens = static_cast<std::int32_t*>(results.reserve(count * sizeof(std::int32_t)));
  mortise_error error = empty_error();
  check_part(device.api->sample(device.self, step.stream, &args, &error), error, device.name);
  return download.fetch(args.tokens, count);
}

Runner::Runner(std::unique_ptr<ModelStack> stack, const RunnerSizes& sizes)
    : stack_(std::move(stack)), target_vocab_size_(sizes.target_vocab_size) {
  limits_.max_num_seqs = sizes.max_num_seqs;
  limits_.max_batched_tokens = sizes.max_batched_tokens;
  limits_.max_logit_rows = stack_->max_logit_rows(sizes.max_batched_tokens);
  limits_.max_model_len = stack_->dims().max_model_len;
  limits_.block_size = stack_->block_size();
  limits_.prefix_cache = sizes.prefix_cache;
  limits_.prefix_groups = (stack_->attention().component().capabilities & MORTISE_CAP_CASCADE) != 0;
  // After a full acceptance the last draft and the bonus token are run together; such steps are worth a graph.
  limits_.max_draft_tokens = 1;
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
  stack_->activate_model(sizes());
}

void Runner::activate_kv(std::int32_t num_blocks) {
  limits_.num_blocks = num_blocks;
  if (stack_->parts().graphs != nullptr) limits_.padding_block = num_blocks;
  stack_->bind_kv(num_blocks);
  stack_->activate_attention(sizes());
  machine_ = std::make_unique<Machine>(stack_->parts(), limits_, stack_->dims().vocab_size);
  if (limits_.padding_block >= 0)
    warm_up(stack_->parts(), limits_, machine_->builder, machine_->graphs, machine_->head);
}

void Runner::check(const mortise_runner_tokens& tokens) const {
  if (!active()) fail("the runner is not active: sequences come after the proposer's activate");
  for (std::int32_t i = 0; i < tokens.num_seqs; ++i) {
    const auto known = sequences_.find(tokens.seq_ids[i]);
    const std::int32_t length = known == sequences_.end() ? 0 : known->second.num_tokens();
    if (tokens.begins[i] < 0 || tokens.begins[i] > length) {
      fail("sequence {} is to go on at token {}, but the runner knows {} tokens of it", tokens.seq_ids[i],
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
    // KV stays as far as the tokens do: drafts that were accepted need not be run again.
    const auto equal = std::mismatch(begin, sequence.tokens.end(), fresh.begin(), fresh.end()).first;
    machine_->kv.cut(sequence, static_cast<std::int32_t>(equal - sequence.tokens.begin()));
    if (sequence.first_unknown >= tokens.begins[i]) sequence.first_unknown = RunnerSequence::kNone;
    sequence.tokens.erase(begin, sequence.tokens.end());
    for (const std::int32_t token : fresh) append(sequence, token);
    const bool drafts = (tokens.flags & MORTISE_RUNNER_DRAFTS) != 0;
    sequence.num_committed = drafts ? std::min(sequence.num_committed, tokens.begins[i]) : sequence.num_tokens();
  }
}

void Runner::append(RunnerSequence& sequence, std::int32_t token) const {
  const bool known = token >= 0 && token < stack_->dims().vocab_size;
  if (!known) sequence.first_unknown = std::min(sequence.first_unknown, sequence.num_tokens());
  sequence.tokens.push_back(token);
}

void Runner::end(std::span<const std::uint64_t> ids) {
  if (!active()) return;
  for (const std::uint64_t id : ids) {
    const auto known = sequences_.find(id);
    if (known == sequences_.end()) continue;
    machine_->kv.release(known->second);
    if (known->second.batch_id != 0) ended_.push_back(known->second.batch_id);
    sequences_.erase(known);
  }
}

// The sequences that the step asks for, but for those that the model cannot run.
void Runner::begin_step(const mortise_runner_step& step) {
  if (!active()) fail("the runner is not active: steps come after the proposer's activate");
  ++num_steps_;
  wanted_.clear();
  for (std::int32_t i = 0; i < step.num_seqs; ++i) {
    const auto known = sequences_.find(step.seq_ids[i]);
    if (known == sequences_.end() || known->second.tokens.empty()) fail("sequence {} has no token", step.seq_ids[i]);
    RunnerSequence& sequence = known->second;
    if (std::exchange(sequence.last_step, num_steps_) == num_steps_) {
      fail("sequence {} is asked for twice", step.seq_ids[i]);
    }
    sequence.step_index = static_cast<std::size_t>(i);
    std::fill_n(step.sampled + static_cast<std::size_t>(i) * num_choices_of(step), num_choices_of(step), -1);
    if (sequence.num_tokens() > limits_.max_model_len || sequence.first_unknown != RunnerSequence::kNone) {
      machine_->kv.release(sequence);  // it will not be run again
    } else {
      machine_->kv.cut(sequence, sequence.num_tokens() - 1);  // the last token's row is what the next is drawn from
      wanted_.push_back(&sequence);
    }
  }
}

void Runner::run_step(const mortise_runner_step& step) {
  const std::size_t count = machine_->kv.reserve(wanted_, sequences_, num_steps_);
  if (count < wanted_.size()) warn_of_full_pool();
  const auto runnable = std::span<RunnerSequence* const>(wanted_).first(count);
  for (std::size_t next = 0; next < runnable.size();) {
    add_rows(runnable, next);
    run_pass(step);
  }
}

// As many rows of the sequences from `next` on as a batch takes; `next` becomes the first that is not run to its end.
void Runner::add_rows(std::span<RunnerSequence* const> runnable, std::size_t& next) {
  runs_.clear();
  running_.clear();
  drawing_.clear();
  logit_rows_.clear();
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
    logit_rows_.push_back(rows - 1);
    drawing_.push_back(&sequence);
    ++next;
  }
}

void Runner::run_pass(const mortise_runner_step& wanted) {
  const Parts& parts = stack_->parts();
  const std::optional<BatchBucket> bucket = machine_->graphs.bucket_of(runs_);
  const mortise_batch& batch =
      machine_->builder.build(num_passes_++, runs_, logit_rows_, ended_, bucket ? &*bucket : nullptr);
  mortise_step step = make_step(parts);
  step.batch = &batch;
  mortise_error error = empty_error();
  check_part(parts.attention.api->plan(parts.attention.self, &step, &error), error, parts.attention.name);
  const mortise_tensor hidden = machine_->graphs.forward(step, bucket);
  ended_.clear();  // attention and model have been told
  num_rows_ += static_cast<std::uint64_t>(batch.num_real_tokens);
  for (std::size_t i = 0; i < running_.size(); ++i) {
    running_[i]->num_computed += runs_[i].num_rows();
  }
  draw(step, hidden, wanted);
  for (RunnerSequence* sequence : running_) machine_->kv.publish(*sequence);
}

void Runner::draw(const mortise_step& step, const mortise_tensor& hidden, const mortise_runner_step& wanted) {
  Machine& m = *machine_;
  const auto limit = static_cast<std::size_t>(limits_.max_logit_rows);
  const auto vocab_size = static_cast<std::size_t>(stack_->dims().vocab_size);
  for (std::size_t first = 0; first < drawing_.size(); first += limit) {
    const auto drawn =
        std::span<RunnerSequence* const>(drawing_).subspan(first, std::min(limit, drawing_.size() - first));
    const mortise_tensor logits =
        m.head.run(step, hidden, step.batch->device_logit_rows + first, static_cast<std::int64_t>(drawn.size()));
    sample(step, logits, drawn, wanted);
    if (wanted.logits == nullptr) continue;
    const auto stride = static_cast<std::size_t>(logits.stride[0]);
    const auto values = m.download.fetch(static_cast<const float*>(logits.data), drawn.size() * stride);
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      std::ranges::copy(values.subspan(i * stride, vocab_size), wanted.logits + drawn[i]->step_index * vocab_size);
    }
  }
}

// The next tokens of each of `drawn`, one choice after the other; the first is appended.
void Runner::sample(const mortise_step& step, const mortise_tensor& logits, std::span<RunnerSequence* const> drawn,
                    const mortise_runner_step& wanted) {
  const std::size_t num_choices = num_choices_of(wanted);
  machine_->set_arguments(drawn, wanted);
  for (std::size_t choice = 0; choice < num_choices; ++choice) {
    const std::span<const std::int32_t> tokens = machine_->draw(stack_->parts().device, step, logits, drawn.size());
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      if (tokens[i] < 0 || tokens[i] >= target_vocab_size_) continue;
      wanted.sampled[drawn[i]->step_index * num_choices + choice] = tokens[i];
      if (choice == 0) drawn[i]->tokens.push_back(tokens[i]);
    }
    if (choice + 1 < num_choices) machine_->ban(tokens);
  }
}

void Runner::check(const mortise_runner_forks& forks) const {
  if (!active()) fail("the runner is not active: sequences come after the proposer's activate");
  for (std::int32_t i = 0; i < forks.num_forks; ++i) {
    const auto origin = sequences_.find(forks.from_ids[i]);
    if (origin == sequences_.end() || origin->second.tokens.empty()) {
      fail("sequence {} is to be forked and has no token", forks.from_ids[i]);
    }
    if ((forks.to_ids[i] & MORTISE_RUNNER_FORK_BIT) == 0) {
      fail("fork {} has no id of the caller's own: the highest bit is 0", forks.to_ids[i]);
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
    // Without room it begins without KV, like any other sequence.
    machine_->kv.fork(origin, std::min(origin.num_computed, fork.num_tokens()), fork, from, to);
    append(fork, forks.tokens[i]);
  }
  if (from.empty()) return;
  const auto& attention = stack_->parts().attention;
  mortise_error error = empty_error();
  check_part(attention.api->copy_blocks(attention.self, nullptr, from.data(), to.data(),
                                        static_cast<std::int32_t>(from.size()), &error),
             error, attention.name);
}

void Runner::warn_of_full_pool() {
  if (std::exchange(warned_, true)) return;
  spdlog::warn(
      "{}: the draft model's KV cache of {} tokens is full: some sequences go without its drafts, or are computed by "
      "it "
      "anew; raise the proposer's kv_memory or lower max_num_seqs",
      stack_->checkpoint().folder().string(), std::int64_t{limits_.num_blocks} * limits_.block_size);
}

RunnerStats Runner::stats() const {
  RunnerStats stats;
  stats.num_steps = num_steps_;
  stats.num_passes = num_passes_;
  stats.num_rows = num_rows_;
  stats.num_sequences = sequences_.size();
  if (!active()) return stats;
  stats.num_graph_replays = machine_->graphs.num_replays();
  stats.num_forgotten = machine_->kv.num_forgotten();
  stats.num_free_blocks = machine_->kv.cache().num_free();
  stats.num_cached_blocks = machine_->kv.cache().num_cached();
  stats.num_blocks = machine_->kv.cache().num_blocks();
  return stats;
}

}  // namespace mortise
