#include "runner/runner.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
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
};

Runner::Runner(std::unique_ptr<ModelStack> stack, const RunnerSizes& sizes)
    : stack_(std::move(stack)), target_vocab_size_(sizes.target_vocab_size) {
  limits_.max_num_seqs = sizes.max_num_seqs;
  limits_.max_batched_tokens = sizes.max_batched_tokens;
  limits_.max_logit_rows = stack_->max_logit_rows(sizes.max_batched_tokens);
  limits_.max_model_len = stack_->dims().max_model_len;
  limits_.block_size = stack_->block_size();
  limits_.prefix_cache = sizes.prefix_cache;
  // After a full acceptance the last draft and the bonus token are run together; such steps are worth a graph.
  limits_.max_draft_tokens = 1;
}

Runner::~Runner() = default;

mortise_activate_args Runner::sizes() const {
  mortise_activate_args args{};
  args.struct_size = sizeof args;
  args.max_num_seqs = limits_.max_num_seqs;
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
  if (limits_.padding_block >= 0) warm_up(stack_->parts(), limits_, machine_->builder, machine_->graphs);
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
    for (const std::int32_t token : fresh) {
      const bool known = token >= 0 && token < stack_->dims().vocab_size;
      if (!known) sequence.first_unknown = std::min(sequence.first_unknown, sequence.num_tokens());
      sequence.tokens.push_back(token);
    }
    sequence.num_committed = sequence.num_tokens();
  }
}

void Runner::end(std::span<const std::uint64_t> ids) {
  if (!active()) return;
  for (const std::uint64_t id : ids) {
    const auto known = sequences_.find(id);
    if (known == sequences_.end()) continue;
    machine_->kv.release(known->second);
    sequences_.erase(known);
  }
}

void Runner::step(const mortise_runner_step& step) {
  collect(step);
  const std::size_t count = machine_->kv.reserve(wanted_, sequences_, num_steps_);
  if (count < wanted_.size()) warn_of_full_pool();
  const auto runnable = std::span<RunnerSequence* const>(wanted_).first(count);
  for (std::size_t next = 0; next < runnable.size();) {
    add_rows(runnable, next);
    run_pass(step);
  }
}

// The sequences that the step asks for, but for those that the model cannot run.
void Runner::collect(const mortise_runner_step& step) {
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
    step.sampled[i] = -1;
    if (sequence.num_tokens() > limits_.max_model_len || sequence.first_unknown != RunnerSequence::kNone) {
      machine_->kv.release(sequence);  // it will not be run again
    } else {
      machine_->kv.cut(sequence, sequence.num_tokens() - 1);  // the last token's row is what the next is drawn from
      wanted_.push_back(&sequence);
    }
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
    run.seq_id = static_cast<std::uint64_t>(sequence.step_index);
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
      machine_->builder.build(num_passes_++, runs_, logit_rows_, {}, bucket ? &*bucket : nullptr);
  mortise_step step = make_step(parts);
  step.batch = &batch;
  mortise_error error = empty_error();
  check_part(parts.attention.api->plan(parts.attention.self, &step, &error), error, parts.attention.name);
  const mortise_tensor hidden = machine_->graphs.forward(step, bucket);
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
    take(drawn, sample(step, logits, drawn, wanted), wanted);
    if (wanted.logits == nullptr) continue;
    const auto values = m.download.fetch(static_cast<const float*>(logits.data), drawn.size() * vocab_size);
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      std::ranges::copy(values.subspan(i * vocab_size, vocab_size), wanted.logits + drawn[i]->step_index * vocab_size);
    }
  }
}

// The next token of each of `drawn`; valid until the next call.
std::span<const std::int32_t> Runner::sample(const mortise_step& step, const mortise_tensor& logits,
                                             std::span<RunnerSequence* const> drawn,
                                             const mortise_runner_step& wanted) {
  Machine& m = *machine_;
  for (auto* array : {&m.temperatures, &m.top_ps, &m.min_ps}) array->clear();
  m.top_ks.clear();
  m.keys.clear();
  m.positions.clear();
  for (const RunnerSequence* sequence : drawn) {
    const std::size_t i = sequence->step_index;
    m.temperatures.push_back(wanted.temperatures[i]);
    m.top_ks.push_back(wanted.top_ks == nullptr ? 0 : wanted.top_ks[i]);
    m.top_ps.push_back(wanted.top_ps == nullptr ? 1 : wanted.top_ps[i]);
    m.min_ps.push_back(wanted.min_ps == nullptr ? 0 : wanted.min_ps[i]);
    m.keys.push_back(wanted.keys[i]);
    m.positions.push_back(sequence->num_tokens());
  }
  m.upload.clear();
  const auto put = [&](const auto& values) {
    return m.upload.put(std::span<const typename std::decay_t<decltype(values)>::value_type>(values));
  };
  const std::size_t temperatures = put(m.temperatures), top_ks = put(m.top_ks), top_ps = put(m.top_ps),
                    min_ps = put(m.min_ps), keys = put(m.keys), positions = put(m.positions);
  m.upload.upload();
  mortise_sample_args args{};
  args.struct_size = sizeof args;
  args.logits = &logits;
  args.temperatures = m.upload.device<float>(temperatures);
  args.top_ks = m.upload.device<std::int32_t>(top_ks);
  args.top_ps = m.upload.device<float>(top_ps);
  args.min_ps = m.upload.device<float>(min_ps);
  args.keys = m.upload.device<std::uint64_t>(keys);
  args.positions = m.upload.device<std::int64_t>(positions);
  args.tokens = static_cast<std::int32_t*>(m.results.reserve(drawn.size() * sizeof(std::int32_t)));
  const DevicePart& device = stack_->parts().device;
  mortise_error error = empty_error();
  check_part(device.api->sample(device.self, step.stream, &args, &error), error, device.name);
  return m.download.fetch(args.tokens, drawn.size());
}

void Runner::take(std::span<RunnerSequence* const> drawn, std::span<const std::int32_t> tokens,
                  const mortise_runner_step& wanted) {
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= target_vocab_size_) continue;
    wanted.sampled[drawn[i]->step_index] = tokens[i];
    drawn[i]->tokens.push_back(tokens[i]);
  }
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
