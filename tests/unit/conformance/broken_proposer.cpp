// tests/unit/conformance/broken_proposer.cpp: a proposer that continues the last place where the last two tokens stood,
// with one defect that an option names.
#include <algorithm>
#include <limits>
#include <map>

#include "defects.hpp"
#include "mortise/ext/sequences.h"
#include "mortise/proposer.h"

namespace {

using broken::Defect;

struct Proposer {
  Defect defect;
  int32_t vocab_size = 0;
  std::map<uint64_t, std::vector<int32_t>> texts;
  int proposals = 0;
  const int32_t* kept = nullptr;  // of the last observation
};

mortise_status create(const mortise_host* host, const mortise_create_args* args, void** instance,
                      mortise_error* error) {
  const auto given = mortise::known(args);
  if (given.option_reader == nullptr) {
    return mortise::set_error(error, MORTISE_FAILED_PRECONDITION, "create", "this host is too old");
  }
  const Defect defect(mortise::Options(given).get<std::string>("defect"));
  const mortise_status status = broken::misbehave_in_create(defect, host, args, error);
  if (status == MORTISE_OK) *instance = new Proposer{defect};
  return status;
}

void destroy(void* instance) {
  delete static_cast<Proposer*>(instance);
}

mortise_status bind(mortise_proposer* handle, const mortise_proposer_bind_args* args, mortise_error*) {
  reinterpret_cast<Proposer*>(handle)->vocab_size = args->target->vocab_size;
  return MORTISE_OK;
}

mortise_status observe(mortise_proposer* handle, const mortise_observation* seen, mortise_error* error) {
  auto& self = *reinterpret_cast<Proposer*>(handle);
  const Defect& defect = self.defect;
  for (int32_t i = 0; i < seen->num_ended && !defect.is("leaks_state"); ++i) {
    if (defect.is("ends_must_be_known") && !self.texts.contains(seen->ended_ids[i])) {
      return mortise::set_error(error, MORTISE_INTERNAL, "observe", "an unknown sequence ended");
    }
    self.texts.erase(seen->ended_ids[i]);
  }
  for (int32_t i = 0; i < seen->num_seqs; ++i) {
    std::vector<int32_t>& text = self.texts[seen->seq_ids[i]];
    const auto first = static_cast<std::size_t>(seen->first_positions[i]);
    if (first == 0 && !defect.is("appends_histories")) text.clear();
    if (first > text.size() && !defect.is("crashes_on_gaps")) {
      self.texts.erase(seen->seq_ids[i]);
      return mortise::set_error(error, MORTISE_INVALID_ARGUMENT, "observe", "tokens are missing");
    }
    if (first > text.size()) std::abort();
    text.insert(text.end(), seen->tokens + seen->token_offsets[i], seen->tokens + seen->token_offsets[i + 1]);
    if (defect.is("needs_two_tokens") && text.size() < 2) std::abort();
  }
  if (defect.is("keeps_tokens") && self.kept != nullptr && *self.kept < 0) return MORTISE_UNAVAILABLE;
  if (seen->num_seqs > 0) self.kept = seen->tokens;
  return MORTISE_OK;
}

std::vector<int32_t> continuation(const std::vector<int32_t>& text, std::size_t most) {
  for (std::size_t at = text.size() < 3 ? 0 : text.size() - 2; at-- > 0;) {
    if (text[at] != text[text.size() - 2] || text[at + 1] != text.back()) continue;
    const std::size_t begin = at + 2, end = std::min(text.size(), begin + most);
    return {text.begin() + static_cast<std::ptrdiff_t>(begin), text.begin() + static_cast<std::ptrdiff_t>(end)};
  }
  return {};
}

mortise_status propose(mortise_proposer* handle, const mortise_step*, const mortise_proposal_args* args,
                       mortise_error*) {
  auto& self = *reinterpret_cast<Proposer*>(handle);
  const Defect& defect = self.defect;
  if (broken::misbehave_in_step(defect)) return MORTISE_UNAVAILABLE;
  ++self.proposals;
  for (int32_t i = 0; i < args->num_seqs; ++i) {
    int32_t* const row = args->tokens + static_cast<int64_t>(i) * args->draft_stride;
    const auto at = self.texts.find(args->seq_ids[i]);
    args->num_drafts[i] = 0;
    if (at == self.texts.end()) {
      if (defect.is("drafts_for_anybody") && args->max_drafts[i] > 0) row[0] = 1, args->num_drafts[i] = 1;
      continue;
    }
    std::size_t most = static_cast<std::size_t>(args->max_drafts[i]);
    if (defect.is("one_too_many")) ++most;
    if (defect.is("ignores_zero")) most = std::max<std::size_t>(most, 1);
    if (defect.is("depends_on_batch")) most = std::min<std::size_t>(most, static_cast<std::size_t>(args->num_seqs));
    if (defect.is("depends_on_order")) most = i % 2 == 0 ? most : 0;
    if (defect.is("alternates") && self.proposals % 2 == 0) most = 0;
    if (defect.is("never_drafts")) most = 0;
    std::vector<int32_t> drafts = continuation(at->second, most);
    if (defect.is("ignores_zero") && drafts.empty()) drafts = {1};
    if (defect.is("token_out_of_range") && !drafts.empty()) drafts.back() = self.vocab_size;
    if (defect.is("negative_token") && !drafts.empty()) drafts.back() = -1;
    if (defect.is("remembers_drafts")) at->second.insert(at->second.end(), drafts.begin(), drafts.end());
    std::copy(drafts.begin(), drafts.end(), row);
    args->num_drafts[i] = static_cast<int32_t>(drafts.size());
    if (defect.is("writes_past_output")) row[(args->num_seqs - i) * args->draft_stride + 1] = 0;
    if (args->parents != nullptr) {
      for (std::size_t k = 0; k < drafts.size(); ++k) {
        const auto index = static_cast<int32_t>(k);
        args->parents[static_cast<int64_t>(i) * args->draft_stride + index] =
            defect.is("cycle") && index == 0 ? 0 : index - 1;
      }
    }
    for (std::size_t k = 0; args->distributions != nullptr && k < drafts.size(); ++k) {
      float* const p = args->distributions +
                       (static_cast<int64_t>(i) * args->draft_stride + static_cast<int64_t>(k)) * self.vocab_size;
      std::fill(p, p + self.vocab_size, 0.0f);
      p[drafts[k]] = defect.is("forbids_its_draft") ? 0.0f : 1.0f;
      if (defect.is("nan_probability")) p[(drafts[k] + 1) % self.vocab_size] = std::numeric_limits<float>::quiet_NaN();
    }
  }
  return MORTISE_OK;
}

int32_t max_drafts(mortise_proposer* handle) {
  return reinterpret_cast<Proposer*>(handle)->defect.is("no_drafts_at_all") ? 0 : 6;
}

const void* get_ext(void*, const char* id) {
  static constexpr mortise_sequences_table kSequences = {
      sizeof(mortise_sequences_table), 0,
      [](void* instance) -> uint64_t { return static_cast<Proposer*>(instance)->texts.size(); }};
  return std::strcmp(id, MORTISE_EXT_SEQUENCES) == 0 ? &kSequences : nullptr;
}

constexpr mortise_proposer_table kTable = {sizeof(mortise_proposer_table), 0, bind, observe, propose, max_drafts};
constexpr mortise_component kComponent = {
    sizeof(mortise_component),
    0,
    MORTISE_KIND_PROPOSER,
    0,
    MORTISE_CAP_TREE | MORTISE_CAP_DISTRIBUTION,
    "broken_proposer",
    "continues the last place of two tokens, with a defect",
    R"({"type": "object", "additionalProperties": false, "properties": {
        "branches": {"title": "paths of a tree", "type": "integer", "minimum": 1, "maximum": 64, "default": 1},
        "defect": {"title": "what is broken", "type": "string", "default": "none"}}})",
    nullptr,
    &kTable,
    [](const mortise_query*, mortise_error*) -> mortise_status { return MORTISE_OK; },
    create,
    destroy,
    nullptr,
    nullptr,
    get_ext};

}  // namespace

MORTISE_PLUGIN("test.broken", "Tests", "1.0.0", "Apache-2.0", &kComponent)
