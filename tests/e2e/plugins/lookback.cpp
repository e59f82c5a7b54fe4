// tests/e2e/plugins/lookback.cpp: a small proposer: drafts what followed the last token where the sequence had it
// before. It has an option of each sort, for the tests of what can be typed.
#include <algorithm>
#include <filesystem>
#include <map>
#include <vector>

#include "mortise/plugin.hpp"
#include "mortise/proposer.h"

namespace {

constexpr const char* kSchema = R"({
  "type": "object",
  "properties": {
    "max_tokens": {"title": "drafts of a step, at most", "type": "integer", "minimum": 1, "maximum": 16, "default": 4},
    "occurrence": {"title": "which earlier one is followed", "enum": ["first", "latest"], "default": "latest"},
    "eager": {"title": "drafts from the first token on", "type": "boolean", "default": true},
    "notes": {"title": "a file that must exist, if one is named", "type": "string", "format": "path", "default": ""}
  }
})";

struct Lookback {
  bool latest;
  bool eager;
  std::map<std::uint64_t, std::vector<std::int32_t>> history;

  // Where the draft begins: behind an earlier occurrence of the last token; the end when there is none.
  static std::size_t find(const std::vector<std::int32_t>& tokens, bool latest) {
    std::size_t found = tokens.size();
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      if (tokens[i] != tokens.back()) continue;
      found = i + 1;
      if (!latest) break;
    }
    return found;
  }
};

mortise_status create(const mortise_host*, const mortise_create_args* args, void** instance, mortise_error* error) {
  return mortise::guard(error, "lookback", [&] {
    const mortise::Options options(mortise::known(args).options);
    const auto notes = options.get<std::string>("notes");
    if (!notes.empty() && !std::filesystem::exists(notes)) {
      throw mortise::Failure(MORTISE_NOT_FOUND, "notes", notes + ": no such file");
    }
    *instance = new Lookback{options.get<std::string>("occurrence") == "latest", options.get<bool>("eager"), {}};
  });
}

void destroy(void* instance) {
  delete static_cast<Lookback*>(instance);
}

mortise_status supports(const mortise_query*, mortise_error*) {
  return MORTISE_OK;
}

mortise_status bind(mortise_proposer*, const mortise_proposer_bind_args*, mortise_error*) {
  return MORTISE_OK;
}

mortise_status observe(mortise_proposer* proposer, const mortise_observation* seen, mortise_error* error) {
  return mortise::guard(error, "observe", [&] {
    auto& history = reinterpret_cast<Lookback*>(proposer)->history;
    for (std::int32_t i = 0; i < seen->num_seqs; ++i) {
      auto& tokens = history[seen->seq_ids[i]];
      if (seen->first_positions[i] == 0) tokens.clear();  // its whole history
      tokens.insert(tokens.end(), seen->tokens + seen->token_offsets[i], seen->tokens + seen->token_offsets[i + 1]);
    }
    for (std::int32_t i = 0; i < seen->num_ended; ++i) history.erase(seen->ended_ids[i]);
  });
}

mortise_status propose(mortise_proposer* proposer, const mortise_step*, const mortise_proposal_args* args,
                       mortise_error* error) {
  return mortise::guard(error, "propose", [&] {
    const auto& self = *reinterpret_cast<Lookback*>(proposer);
    for (std::int32_t i = 0; i < args->num_seqs; ++i) {
      args->num_drafts[i] = 0;
      const auto known = self.history.find(args->seq_ids[i]);
      if (known == self.history.end() || !self.eager) continue;
      const auto& tokens = known->second;
      for (std::size_t at = Lookback::find(tokens, self.latest);
           at < tokens.size() && args->num_drafts[i] < args->max_drafts[i]; ++at) {
        args->tokens[i * args->max_draft + args->num_drafts[i]++] = tokens[at];
      }
    }
  });
}

constexpr mortise_proposer_table kTable = {sizeof(mortise_proposer_table), 0, bind, observe, propose, nullptr};

constexpr mortise_component kLookback = {
    sizeof(mortise_component),
    0,
    MORTISE_KIND_PROPOSER,
    0,
    0,
    "lookback",
    "drafts what followed the last token before",
    kSchema,
    nullptr,
    &kTable,
    supports,
    create,
    destroy,
    nullptr,
    nullptr,
    nullptr,
};

}  // namespace

MORTISE_PLUGIN("test.lookback", "Tests", "1.0.0", "Apache-2.0", &kLookback)
