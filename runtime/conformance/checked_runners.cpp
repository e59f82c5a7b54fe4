#include "conformance/checked_runners.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "error.hpp"
#include "mortise/struct_sizes.h"
#include "runner/runner_options.hpp"

namespace mortise::conformance {
namespace {

// A failure of a call of the runner, as the header describes it. The call has changed nothing.
struct RunnerRefusal {
  mortise_status status;
  std::string text;
};

template <typename... Args>
[[noreturn]] void refuse_call(mortise_status status, fmt::format_string<Args...> format, Args&&... args) {
  throw RunnerRefusal{status, fmt::format(format, std::forward<Args>(args)...)};
}

mortise_status answer_with(const RunnerRefusal& refusal, const char* function, mortise_error* error) {
  if (error == nullptr || error->struct_size < sizeof(mortise_error)) return refusal.status;
  error->code = refusal.status;
  fmt::format_to_n(error->where, sizeof error->where - 1, "{}", function).out[0] = '\0';
  fmt::format_to_n(error->message, sizeof error->message - 1, "{}", refusal.text).out[0] = '\0';
  return refusal.status;
}

bool has_twice(const std::uint64_t* ids, std::int32_t count) {
  std::set<std::uint64_t> all;
  return std::any_of(ids, ids + count, [&](std::uint64_t id) { return !all.insert(id).second; });
}

}  // namespace

CheckedRunners::CheckedRunners() : table_(1), dims_(1) {
  dims_[0] = AttentionShape().dims();
  dims_[0].vocab_size = kDraftVocabSize;
  dims_.make_read_only();
  Table& table = table_[0];
  table = {};
  table.struct_size = sizeof(mortise_runner_table);
  table.self = this;
  table.open = [](const mortise_runner_table* runners, const mortise_runner_open_args* args, mortise_runner** runner,
                  mortise_error* error) { return static_cast<const Table*>(runners)->self->open(args, runner, error); };
  table.close = close;
  table.dims = dims;
  table.update = [](mortise_runner* runner, const mortise_runner_tokens* tokens, mortise_error* error) {
    return in_step(runner, "update", error, [&](CheckedRunners& self, Runner& mine) { self.update(mine, *tokens); });
  };
  table.step = [](mortise_runner* runner, const mortise_runner_step* step, mortise_error* error) {
    return in_step(runner, "step", error, [&](CheckedRunners& self, Runner& mine) { self.step(mine, *step); });
  };
  table.end = end;
  table.fork = [](mortise_runner* runner, const mortise_runner_forks* forks, mortise_error* error) {
    return in_step(runner, "fork", error, [&](CheckedRunners& self, Runner& mine) { self.fork(mine, *forks); });
  };
  table_.make_read_only();
}

void CheckedRunners::begin_call(const char* function) {
  const std::lock_guard lock(mutex_);
  const std::string_view name = function == nullptr ? "" : function;
  when_ = name.empty()                             ? When::kOutside
          : name == "create"                       ? When::kInCreate
          : name == "observe" || name == "propose" ? When::kInStep
                                                   : When::kInControl;
}

void CheckedRunners::set_faults(const RunnerFaults& faults) {
  const std::lock_guard lock(mutex_);
  faults_ = faults;
}

std::string CheckedRunners::breach() const {
  const std::lock_guard lock(mutex_);
  return breach_;
}

std::size_t CheckedRunners::num_opened() const {
  const std::lock_guard lock(mutex_);
  return runners_.size();
}

std::size_t CheckedRunners::num_open() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::ranges::count_if(runners_, [](const Runner& one) { return one.is_open; }));
}

std::size_t CheckedRunners::num_sequences() const {
  const std::lock_guard lock(mutex_);
  std::size_t sum = 0;
  for (const Runner& runner : runners_) sum += runner.sequences.size();
  return sum;
}

std::size_t CheckedRunners::num_forks() const {
  const std::lock_guard lock(mutex_);
  std::size_t sum = 0;
  for (const Runner& runner : runners_) {
    for (const auto& [id, text] : runner.sequences) sum += (id & MORTISE_RUNNER_FORK_BIT) != 0;
  }
  return sum;
}

bool CheckedRunners::was_asked_for(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  return paths_.contains(path);
}

void CheckedRunners::note(std::string breach) {
  if (breach_.empty()) breach_ = std::move(breach);
}

bool CheckedRunners::may_use(const Runner& runner, const char* function) {
  if (!runner.is_open) note(fmt::format("{} is called on a runner that was closed", function));
  return runner.is_open;
}

mortise_status CheckedRunners::open(const mortise_runner_open_args* args, mortise_runner** runner,
                                    mortise_error* error) {
  *runner = nullptr;
  const std::lock_guard lock(mutex_);
  if (when_ == When::kOutside) note("open of a runner is called outside of the proposer's calls");
  if (when_ == When::kInCreate) note("open of a runner is called in create; runners may be opened from bind on");
  if (when_ == When::kInStep) note("open of a runner, which loads weights, is called in observe or propose");
  if (args->struct_size < MORTISE_SIZE_0_5(mortise_runner_open_args)) {
    note(fmt::format("open of a runner gets a struct_size of {}", args->struct_size));
    return answer_with({MORTISE_INVALID_ARGUMENT, "the arguments are shorter than at any version"}, "open", error);
  }
  try {
    const std::string path(args->path.data, static_cast<std::size_t>(args->path.size));
    const std::string options(args->options.data, static_cast<std::size_t>(args->options.size));
    paths_.insert(path);
    if (path.empty()) fail("the draft model has no path: give the folder of its checkpoint");
    complete_runner_options(options);
    if (faults_.open) fail("the draft model in {} does not fit; this is a trial of the conformance suite", path);
  } catch (const std::exception& refusal) {
    return answer_with({MORTISE_FAILED_PRECONDITION, refusal.what()}, "open", error);
  }
  *runner = reinterpret_cast<mortise_runner*>(&runners_.emplace_back(Runner{this}));
  return MORTISE_OK;
}

void CheckedRunners::close(mortise_runner* runner) {
  Runner& mine = runner_of(runner);
  const std::lock_guard lock(mine.owner->mutex_);
  if (mine.owner->when_ == When::kOutside)
    mine.owner->note("close of a runner is called outside of the proposer's calls");
  if (mine.owner->when_ == When::kInStep) mine.owner->note("close of a runner is called in observe or propose");
  if (!mine.owner->may_use(mine, "close")) return;
  mine.is_open = false;
  mine.sequences.clear();
}

const mortise_model_dims* CheckedRunners::dims(mortise_runner* runner) {
  Runner& mine = runner_of(runner);
  const std::lock_guard lock(mine.owner->mutex_);
  mine.owner->may_use(mine, "dims");
  return mine.owner->dims_.data();
}

void CheckedRunners::end(mortise_runner* runner, const std::uint64_t* seq_ids, std::int32_t num_seqs) {
  Runner& mine = runner_of(runner);
  const std::lock_guard lock(mine.owner->mutex_);
  if (mine.owner->when_ != When::kInStep) mine.owner->note("end of a runner is called outside of observe and propose");
  if (!mine.owner->may_use(mine, "end")) return;
  if (num_seqs < 0) mine.owner->note(fmt::format("end of a runner is called for {} sequences", num_seqs));
  for (std::int32_t i = 0; i < num_seqs; ++i) mine.sequences.erase(seq_ids[i]);
}

template <typename Body>
mortise_status CheckedRunners::in_step(mortise_runner* runner, const char* function, mortise_error* error,
                                       Body&& body) {
  Runner& mine = runner_of(runner);
  CheckedRunners& self = *mine.owner;
  const std::lock_guard lock(self.mutex_);
  if (self.when_ != When::kInStep)
    self.note(fmt::format("{} of a runner is called outside of observe and propose", function));
  if (!self.may_use(mine, function)) return answer_with({MORTISE_INVALID_ARGUMENT, "it is closed"}, function, error);
  try {
    body(self, mine);
    return MORTISE_OK;
  } catch (const RunnerRefusal& refusal) {
    return answer_with(refusal, function, error);
  } catch (const std::exception& exception) {  // the arguments need more memory than there is
    self.note(fmt::format("{} of a runner fails: {}", function, exception.what()));
    return answer_with({MORTISE_RESOURCE_EXHAUSTED, exception.what()}, function, error);
  }
}

void CheckedRunners::update(Runner& runner, const mortise_runner_tokens& tokens) {
  if (tokens.struct_size < MORTISE_SIZE_0_5(mortise_runner_tokens) || tokens.num_seqs < 0 ||
      (tokens.flags & ~MORTISE_RUNNER_DRAFTS) != 0) {
    note(fmt::format("update of a runner gets a struct_size of {}, the flags {} and {} sequences", tokens.struct_size,
                     tokens.flags, tokens.num_seqs));
    refuse_call(MORTISE_INVALID_ARGUMENT, "the arguments are no mortise_runner_tokens");
  }
  if (has_twice(tokens.seq_ids, tokens.num_seqs)) note("update of a runner gets a sequence twice");
  for (std::int32_t i = 0; i < tokens.num_seqs; ++i) {
    const auto known = runner.sequences.find(tokens.seq_ids[i]);
    const auto length = static_cast<std::int32_t>(known == runner.sequences.end() ? 0 : known->second.size());
    if (tokens.begins[i] < 0 || tokens.begins[i] > length) {
      refuse_call(MORTISE_INVALID_ARGUMENT,
                  "sequence {} should continue at token {}, but the runner knows {} of its tokens", tokens.seq_ids[i],
                  tokens.begins[i], length);
    }
    if (tokens.offsets[i + 1] < tokens.offsets[i]) {
      refuse_call(MORTISE_INVALID_ARGUMENT, "offsets[{}] is less than offsets[{}]", i + 1, i);
    }
  }
  if (faults_.update) refuse_call(MORTISE_RESOURCE_EXHAUSTED, "no memory; this is a trial of the conformance suite");
  for (std::int32_t i = 0; i < tokens.num_seqs; ++i) {
    DraftText& text = runner.sequences[tokens.seq_ids[i]];
    text.cut(static_cast<std::size_t>(tokens.begins[i]));
    for (std::int32_t at = tokens.offsets[i]; at < tokens.offsets[i + 1]; ++at) text.append(tokens.tokens[at]);
  }
}

void CheckedRunners::step(Runner& runner, const mortise_runner_step& step) {
  if (step.struct_size < MORTISE_SIZE_0_5(mortise_runner_step) || step.num_seqs < 0 || step.num_choices < 0 ||
      step.num_choices > kDraftVocabSize) {
    note(fmt::format("step of a runner gets a struct_size of {}, {} sequences and {} choices", step.struct_size,
                     step.num_seqs, step.num_choices));
    refuse_call(MORTISE_INVALID_ARGUMENT, "the arguments are no mortise_runner_step");
  }
  if (has_twice(step.seq_ids, step.num_seqs)) refuse_call(MORTISE_INVALID_ARGUMENT, "a sequence is given twice");
  for (std::int32_t i = 0; i < step.num_seqs; ++i) {
    const auto known = runner.sequences.find(step.seq_ids[i]);
    if (known == runner.sequences.end() || known->second.size() == 0) {
      refuse_call(MORTISE_INVALID_ARGUMENT, "sequence {} has no token", step.seq_ids[i]);
    }
  }
  if (faults_.step) refuse_call(MORTISE_UNAVAILABLE, "the draft model fails; this is a trial of the conformance suite");
  const auto num_choices = static_cast<std::size_t>(std::max(step.num_choices, 1));
  std::vector<float> own_logits(kDraftVocabSize);
  for (std::int32_t i = 0; i < step.num_seqs; ++i) {
    const auto row = static_cast<std::size_t>(i);
    std::int32_t* const sampled = step.sampled + row * num_choices;
    std::fill_n(sampled, num_choices, -1);
    DraftText& text = runner.sequences.at(step.seq_ids[i]);
    if (!text.can_run() || i < faults_.num_without_draw) continue;
    const std::span<float> logits = step.logits == nullptr
                                        ? std::span<float>(own_logits)
                                        : std::span<float>(step.logits + row * kDraftVocabSize, kDraftVocabSize);
    text.write_logits(logits);
    DraftDraw draw{step.keys[i], step.temperatures[i]};
    if (step.top_ks != nullptr) draw.top_k = step.top_ks[i];
    if (step.top_ps != nullptr) draw.top_p = step.top_ps[i];
    if (step.min_ps != nullptr) draw.min_p = step.min_ps[i];
    const std::vector<std::int32_t> choices = draw_choices(logits, draw, text.size(), num_choices);
    for (std::size_t k = 0; k < num_choices; ++k) {
      if (choices[k] < kVocabSize) sampled[k] = choices[k];  // the target does not have the others
    }
    if (sampled[0] >= 0) text.append(sampled[0]);
  }
}

void CheckedRunners::fork(Runner& runner, const mortise_runner_forks& forks) {
  if (forks.struct_size < MORTISE_SIZE_0_5(mortise_runner_forks) || forks.num_forks < 0) {
    note(fmt::format("fork of a runner gets a struct_size of {} and {} forks", forks.struct_size, forks.num_forks));
    refuse_call(MORTISE_INVALID_ARGUMENT, "the arguments are no mortise_runner_forks");
  }
  for (std::int32_t i = 0; i < forks.num_forks; ++i) {
    const auto origin = runner.sequences.find(forks.from_ids[i]);
    if (origin == runner.sequences.end() || origin->second.size() == 0) {
      refuse_call(MORTISE_INVALID_ARGUMENT, "sequence {} cannot be forked: it has no token", forks.from_ids[i]);
    }
    if ((forks.to_ids[i] & MORTISE_RUNNER_FORK_BIT) == 0) {
      refuse_call(MORTISE_INVALID_ARGUMENT, "the id of fork {} lacks MORTISE_RUNNER_FORK_BIT", forks.to_ids[i]);
    }
    if (runner.sequences.contains(forks.to_ids[i])) {
      refuse_call(MORTISE_INVALID_ARGUMENT, "the id {} of a fork is in use", forks.to_ids[i]);
    }
  }
  if (has_twice(forks.to_ids, forks.num_forks))
    refuse_call(MORTISE_INVALID_ARGUMENT, "the id of a fork is given twice");
  if (faults_.fork) refuse_call(MORTISE_RESOURCE_EXHAUSTED, "no memory; this is a trial of the conformance suite");
  for (std::int32_t i = 0; i < forks.num_forks; ++i) {
    DraftText text = runner.sequences.at(forks.from_ids[i]);
    text.cut(text.size() - 1);
    text.append(forks.tokens[i]);
    runner.sequences[forks.to_ids[i]] = std::move(text);
  }
}

}  // namespace mortise::conformance
