// tests/unit/conformance/broken_drafter.cpp: a proposer that drafts with a model of the host (mortise/ext/runner.h),
// with one defect that an option names.
#include <algorithm>
#include <atomic>
#include <map>
#include <numeric>

#include "defects.hpp"
#include "mortise/ext/runner.h"
#include "mortise/ext/sequences.h"
#include "mortise/proposer.h"

namespace {

using broken::Defect;

struct Drafter {
  Defect defect;
  const mortise_host* host;
  std::string path;
  int32_t branches;
  const mortise_runner_table* runners = nullptr;
  mortise_runner* runner = nullptr;
  std::map<uint64_t, int32_t> known;  // sequences, and how many tokens of each were observed
  std::vector<uint64_t> forks;
  int num_forks_ever = 0;
  std::thread thread = {};
  std::atomic<bool> thread_ends = false;
};

Drafter& self_of(mortise_proposer* handle) {
  return *reinterpret_cast<Drafter*>(handle);
}

mortise_status open_runner(Drafter& self, mortise_error* error) {
  self.runners = static_cast<const mortise_runner_table*>(self.host->get_ext(self.host, MORTISE_EXT_RUNNER));
  if (self.runners == nullptr && !self.defect.is("needs_runner")) {
    return mortise::set_error(error, MORTISE_UNIMPLEMENTED, "bind", "the host runs no draft model");
  }
  auto args = mortise::sized<mortise_runner_open_args>();
  args.path = mortise::view(self.path);
  static constexpr std::string_view kOdd = R"({"kv_memori": 1})";
  if (self.defect.is("odd_options")) args.options = mortise::view(kOdd);
  const mortise_status status = self.runners->open(self.runners, &args, &self.runner, error);
  return self.defect.is("ignores_failed_open") ? MORTISE_OK : status;
}

mortise_status create(const mortise_host* host, const mortise_create_args* args, void** instance,
                      mortise_error* error) {
  const auto given = mortise::known(args);
  if (given.option_reader == nullptr) {
    return mortise::set_error(error, MORTISE_FAILED_PRECONDITION, "create", "this host is too old");
  }
  const mortise::Options options(given);
  auto* const self = new Drafter{Defect(options.get<std::string>("defect")), host, options.get<std::string>("path"),
                                 options.get<int32_t>("branches")};
  if (self->defect.is("opens_in_create")) open_runner(*self, nullptr);
  *instance = self;
  return MORTISE_OK;
}

void deactivate(void* instance) {
  auto& self = *static_cast<Drafter*>(instance);
  self.thread_ends = true;
  if (self.thread.joinable()) self.thread.join();
}

void destroy(void* instance) {
  auto* const self = static_cast<Drafter*>(instance);
  if (self->runner != nullptr && !self->defect.is("never_closes")) self->runners->close(self->runner);
  if (self->runner != nullptr && self->defect.is("closes_twice")) self->runners->close(self->runner);
  delete self;
}

mortise_status bind(mortise_proposer* handle, const mortise_proposer_bind_args*, mortise_error* error) {
  return open_runner(self_of(handle), error);
}

mortise_status activate(void* instance, const mortise_activate_args*, mortise_error*) {
  auto& self = *static_cast<Drafter*>(instance);
  if (self.defect.is("updates_in_activate")) {
    const auto none = mortise::sized<mortise_runner_tokens>();
    return self.runners->update(self.runner, &none, nullptr);
  }
  if (self.defect.is("steps_on_a_thread")) {
    self.thread_ends = false;
    self.thread = std::thread([&self] {
      while (!self.thread_ends) {
        const auto none = mortise::sized<mortise_runner_step>();
        self.runners->step(self.runner, &none, nullptr);
        ::usleep(100);
      }
    });
  }
  return MORTISE_OK;
}

// Gives the runner `tokens` of one sequence, from `begin` on.
mortise_status update(Drafter& self, uint64_t id, int32_t begin, const int32_t* tokens, int32_t count,
                      mortise_error* error) {
  auto args = mortise::sized<mortise_runner_tokens>();
  const int32_t offsets[2] = {0, count};
  args.num_seqs = 1;
  args.seq_ids = &id;
  args.begins = &begin;
  args.offsets = offsets;
  args.tokens = tokens;
  return self.runners->update(self.runner, &args, error);
}

mortise_status observe(mortise_proposer* handle, const mortise_observation* seen, mortise_error* error) {
  Drafter& self = self_of(handle);
  const Defect& defect = self.defect;
  if (!defect.is("leaks_sequences")) self.runners->end(self.runner, seen->ended_ids, seen->num_ended);
  for (int32_t i = 0; i < seen->num_ended; ++i) self.known.erase(seen->ended_ids[i]);
  for (int32_t i = 0; i < seen->num_seqs; ++i) {
    const uint64_t id = seen->seq_ids[i];
    const int32_t first = seen->first_positions[i], count = seen->token_offsets[i + 1] - seen->token_offsets[i];
    const mortise_status status = update(self, id, first, seen->tokens + seen->token_offsets[i], count, error);
    if (status != MORTISE_OK && !defect.is("ignores_failed_update")) return status;
    self.known[id] = first + count;
  }
  return MORTISE_OK;
}

// A sequence or a fork that gets drafts, and where in the arrays of the proposal.
struct Growing {
  int32_t row;
  uint64_t id;
  int32_t last = -1, depth = 0;
};

// Draws one token for each, or the likeliest of all logits.
mortise_status draw(Drafter& self, const mortise_proposal_args& args, const std::vector<Growing>& growing,
                    std::vector<int32_t>& sampled, mortise_error* error) {
  std::vector<uint64_t> ids, keys;
  std::vector<float> temperatures;
  for (const Growing& one : growing) {
    ids.push_back(one.id);
    keys.push_back(args.keys[one.row]);
    temperatures.push_back(args.temperatures[one.row]);
  }
  if (self.defect.is("sorts_ids")) std::ranges::sort(ids);  // and takes the draws in the order of the proposal
  if (self.defect.is("repeats_ids") && ids.size() > 1) ids[1] = ids[0];
  const auto vocab_size = static_cast<std::size_t>(self.runners->dims(self.runner)->vocab_size);
  std::vector<float> logits(self.defect.is("takes_all_logits") ? ids.size() * vocab_size : 0);
  auto step = mortise::sized<mortise_runner_step>();
  if (self.defect.is("old_struct")) step.struct_size = 8;
  step.num_seqs = static_cast<int32_t>(ids.size());
  step.seq_ids = ids.data();
  step.keys = keys.data();
  step.temperatures = temperatures.data();
  step.sampled = sampled.data();
  step.logits = logits.empty() ? nullptr : logits.data();
  const mortise_status status = self.runners->step(self.runner, &step, error);
  for (std::size_t i = 0; status == MORTISE_OK && !logits.empty() && i < ids.size(); ++i) {
    const auto row = logits.begin() + static_cast<std::ptrdiff_t>(i * vocab_size);
    sampled[i] = static_cast<int32_t>(std::max_element(row, row + static_cast<std::ptrdiff_t>(vocab_size)) - row);
  }
  return self.defect.is("ignores_failed_step") ? MORTISE_OK : status;
}

// Another path for each sequence, whose first draft is the next token id.
mortise_status fork(Drafter& self, const mortise_proposal_args& args, std::vector<Growing>& growing,
                    mortise_error* error) {
  const std::size_t count = growing.size();
  std::vector<uint64_t> origins;
  std::vector<int32_t> tokens;
  for (std::size_t i = 0; i < count && self.branches > 1; ++i) {
    const Growing origin = growing[i];
    int32_t* const row = args.tokens + static_cast<int64_t>(origin.row) * args.draft_stride;
    int32_t& num = args.num_drafts[origin.row];
    if (args.parents == nullptr || num == args.draft_stride) continue;
    self.forks.push_back(MORTISE_RUNNER_FORK_BIT | static_cast<uint64_t>(self.num_forks_ever++));
    origins.push_back(origin.id);
    tokens.push_back((row[origin.last] + 1) % 512);
    growing.push_back({origin.row, self.forks.back(), num, 1});
    args.parents[static_cast<int64_t>(origin.row) * args.draft_stride + num] = -1;
    row[num++] = tokens.back();
  }
  auto forks = mortise::sized<mortise_runner_forks>();
  forks.num_forks = static_cast<int32_t>(origins.size());
  forks.from_ids = origins.data();
  forks.to_ids = self.forks.data() + (self.forks.size() - origins.size());
  forks.tokens = tokens.data();
  return self.runners->fork(self.runner, &forks, error);
}

mortise_status propose(mortise_proposer* handle, const mortise_step*, const mortise_proposal_args* args,
                       mortise_error* error) {
  Drafter& self = self_of(handle);
  std::vector<Growing> growing;
  for (int32_t i = 0; i < args->num_seqs; ++i) {
    args->num_drafts[i] = 0;
    const auto known = self.known.find(args->seq_ids[i]);
    if (args->max_drafts[i] == 0 || known == self.known.end()) continue;
    // What an earlier proposal has drawn is no part of the text.
    if (!self.defect.is("keeps_drafts")) update(self, known->first, known->second, nullptr, 0, nullptr);
    growing.push_back({i, known->first});
  }
  while (!growing.empty()) {
    std::vector<int32_t> sampled(growing.size(), 100000);
    const mortise_status status = draw(self, *args, growing, sampled, error);
    if (status != MORTISE_OK) return status;
    const bool is_first = growing.front().depth == 0;
    for (std::size_t i = 0; i < growing.size(); ++i) {
      Growing& one = growing[i];
      int32_t& num = args->num_drafts[one.row];
      const bool is_none = sampled[i] < 0 && !self.defect.is("drafts_what_was_not_drawn");
      if (is_none || num == args->draft_stride) {
        one.depth = args->max_drafts[one.row];
        continue;
      }
      const int64_t at = static_cast<int64_t>(one.row) * args->draft_stride + num;
      args->tokens[at] = sampled[i];
      if (args->parents != nullptr) args->parents[at] = one.last;
      one.last = num++;
      ++one.depth;
    }
    std::erase_if(growing, [&](const Growing& one) { return one.depth == args->max_drafts[one.row]; });
    if (is_first && fork(self, *args, growing, error) != MORTISE_OK) growing.clear();
  }
  if (!self.defect.is("leaks_forks")) {
    self.runners->end(self.runner, self.forks.data(), static_cast<int32_t>(self.forks.size()));
    self.forks.clear();
  }
  return MORTISE_OK;
}

const void* get_ext(void*, const char* id) {
  static constexpr mortise_sequences_table kSequences = {
      sizeof(mortise_sequences_table), 0,
      [](void* instance) -> uint64_t { return static_cast<Drafter*>(instance)->known.size(); }};
  return std::strcmp(id, MORTISE_EXT_SEQUENCES) == 0 ? &kSequences : nullptr;
}

constexpr mortise_proposer_table kTable = {sizeof(mortise_proposer_table), 0, bind, observe, propose, nullptr};
constexpr mortise_component kComponent = {
    sizeof(mortise_component),
    0,
    MORTISE_KIND_PROPOSER,
    0,
    MORTISE_CAP_TREE,
    "broken_drafter",
    "drafts with a model of the host, with a defect",
    R"({"type": "object", "additionalProperties": false, "required": ["path"], "properties": {
        "path": {"title": "folder of the draft model", "type": "string", "minLength": 1, "format": "path"},
        "max_tokens": {"title": "drafts", "type": "integer", "minimum": 1, "maximum": 16, "default": 5},
        "branches": {"title": "paths of a tree", "type": "integer", "minimum": 1, "maximum": 64, "default": 1},
        "defect": {"title": "what is broken", "type": "string", "default": "none"}}})",
    nullptr,
    &kTable,
    [](const mortise_query*, mortise_error*) -> mortise_status { return MORTISE_OK; },
    create,
    destroy,
    activate,
    deactivate,
    get_ext};

}  // namespace

MORTISE_PLUGIN("test.broken", "Tests", "1.0.0", "Apache-2.0", &kComponent)
