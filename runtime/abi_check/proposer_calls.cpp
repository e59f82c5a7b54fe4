// runtime/abi_check/proposer_calls.cpp: the checks of mortise/proposer.h. The bounds of drafts are not here: the engine
// checks all drafts (engine/drafter).
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "abi_check/kinds.hpp"
#include "abi_check/memory.hpp"
#include "abi_check/step_rules.hpp"
#include "mortise/struct_sizes.h"

namespace mortise::abi_check {
namespace {

constexpr const char* kHeader = "mortise/proposer.h";
constexpr Function kBind = {"bind", Tag::kControl, State::kCreated};
constexpr Function kMaxDrafts = {"max_drafts", Tag::kControl, State::kCreated};
constexpr Function kObserve = {"observe", Tag::kStep, State::kActive};
constexpr Function kPropose = {"propose", Tag::kStep, State::kActive};
constexpr double kMassTolerance = 1e-3;  // for a sum of 10^5 floats

struct Proposer : Instance {
  using Instance::Instance;

  bool is_bound = false;
  std::int32_t vocab_size = 0;
  std::unordered_map<std::uint64_t, std::int64_t> known;  // sequences, and how many of their tokens were reported
};

mortise_status bind(mortise_proposer* handle, const mortise_proposer_bind_args* args, mortise_error* error) {
  return checked<Proposer>(handle, kBind, error, [&](Call& call, Proposer& self) {
    call.check_struct(args, MORTISE_SIZE_0_5(mortise_proposer_bind_args), "args");
    call.caller_must(!self.is_bound, kHeader, "once, before activate", "bind is called twice");
    check_dims(call, args->target);
    self.is_bound = true;
    self.vocab_size = args->target->vocab_size;
    Inputs inputs;
    inputs.add("target", args->target, 1);
    const mortise_status status = call.make(
        error, [&](mortise_error* own) { return self.table<mortise_proposer_table>().bind(handle, args, own); });
    inputs.check(call);
    return status;
  });
}

std::int32_t max_drafts(mortise_proposer* handle) {
  return checked_value<Proposer>(handle, kMaxDrafts, 0, [&](Call& call, Proposer& self) {
    call.caller_must(self.is_bound, kHeader, "called once, after bind", "max_drafts is called before bind");
    std::int32_t most = 0;
    call.make([&] { most = self.table<mortise_proposer_table>().max_drafts(handle); });
    call.part_must(most >= 1, kHeader, "the most drafts per sequence and step, at least 1", "max_drafts returns {}",
                   most);
    return most;
  });
}

void check_observation(const Call& call, const Proposer& self, const mortise_observation& seen) {
  const std::int32_t n = seen.num_seqs;
  call.caller_must(n >= 0 && seen.num_ended >= 0 && n + seen.num_ended > 0, kHeader,
                   "not called when there is nothing to report", "{} sequences and {} ended ones", n, seen.num_ended);
  call.check_array(seen.seq_ids, n, kHeader, "seq_ids");
  call.check_array(seen.token_offsets, n, kHeader, "token_offsets");
  call.check_array(seen.num_accepted, n, kHeader, "num_accepted");
  call.check_array(seen.first_positions, n, kHeader, "first_positions");
  call.check_array(seen.ended_ids, seen.num_ended, kHeader, "ended_ids");
  const bool wants_hidden = (self.real.capabilities & MORTISE_CAP_NEEDS_HIDDEN) != 0;
  call.caller_must(wants_hidden || seen.hidden == nullptr, kHeader,
                   "NULL unless the component has MORTISE_CAP_NEEDS_HIDDEN", "hidden is given");
  call.caller_must(seen.hidden == nullptr || seen.hidden_rows != nullptr, kHeader, "NULL if `hidden` is",
                   "hidden_rows is NULL");
  std::unordered_set<std::uint64_t> ids;
  for (std::int32_t i = 0; i < n; ++i) {
    const std::int64_t begin = seen.token_offsets[i], count = seen.token_offsets[i + 1] - begin;
    call.caller_must(ids.insert(seen.seq_ids[i]).second, kHeader, "What the last step did to the sequences",
                     "sequence {} is given twice", seen.seq_ids[i]);
    call.caller_must((i > 0 || begin == 0) && count >= 0, kHeader, "token_offsets[i + 1] - 1",
                     "token_offsets do not ascend from 0 at sequence {}", i);
    call.caller_must(count == 0 || seen.tokens != nullptr, kHeader, "`tokens` holds the tokens", "tokens is NULL");
    call.caller_must(seen.num_accepted[i] >= 0 && seen.num_accepted[i] <= count, kHeader,
                     "how many of the tokens are accepted drafts", "{} of the {} tokens of sequence {}",
                     seen.num_accepted[i], count, i);
    const auto known = self.known.find(seen.seq_ids[i]);
    const std::int64_t told = known == self.known.end() ? 0 : known->second;
    call.caller_must(seen.first_positions[i] == 0 || seen.first_positions[i] == told, kHeader,
                     "how many tokens of the sequence the proposer received in earlier calls",
                     "first_positions[{}] is {}, and {} were reported", i, seen.first_positions[i], told);
    for (std::int64_t j = 0; j < count; ++j) {
      call.caller_must(seen.tokens[begin + j] >= 0, kHeader, "the tokens that the step committed",
                       "token {} of sequence {}", seen.tokens[begin + j], i);
    }
  }
}

// Updates what the proposer knows after a report, which it has taken or refused.
void follow(Proposer& self, const mortise_observation& seen, bool is_taken) {
  for (std::int32_t i = 0; i < seen.num_seqs; ++i) {
    const std::int64_t count = seen.token_offsets[i + 1] - seen.token_offsets[i];
    self.known[seen.seq_ids[i]] = is_taken ? seen.first_positions[i] + count : 0;
  }
  if (!is_taken) return;
  for (std::int32_t i = 0; i < seen.num_ended; ++i) self.known.erase(seen.ended_ids[i]);
}

mortise_status observe(mortise_proposer* handle, const mortise_observation* seen, mortise_error* error) {
  return checked<Proposer>(handle, kObserve, error, [&](Call& call, Proposer& self) {
    call.check_struct(seen, MORTISE_SIZE_0_5(mortise_observation), "observation");
    check_observation(call, self, *seen);
    const std::int64_t n = seen->num_seqs;
    Inputs inputs;
    inputs.add("observation", seen, 1);
    inputs.add("seq_ids", seen->seq_ids, n);
    inputs.add("num_accepted", seen->num_accepted, n);
    inputs.add("first_positions", seen->first_positions, n);
    inputs.add("ended_ids", seen->ended_ids, seen->num_ended);
    if (n > 0) {
      inputs.add("token_offsets", seen->token_offsets, n + 1);
      inputs.add("tokens", seen->tokens, seen->token_offsets[n]);
    }
    const mortise_status status = call.make(
        error, [&](mortise_error* own) { return self.table<mortise_proposer_table>().observe(handle, seen, own); });
    inputs.check(call);
    follow(self, *seen, status == MORTISE_OK);
    if (self.known.empty()) call.check_no_sequences(handle);
    return status;
  });
}

void check_proposal(const Call& call, const Proposer& self, const mortise_proposal_args& args) {
  const std::int32_t n = args.num_seqs;
  call.caller_must(n > 0 && args.draft_stride > 0, kHeader, "before a step in which some sequence can take drafts",
                   "{} sequences with rows of {} drafts", n, args.draft_stride);
  const std::pair<const void*, const char*> arrays[] = {{args.seq_ids, "seq_ids"},
                                                        {args.max_drafts, "max_drafts"},
                                                        {args.keys, "keys"},
                                                        {args.temperatures, "temperatures"},
                                                        {args.positions, "positions"},
                                                        {args.tokens, "tokens"},
                                                        {args.num_drafts, "num_drafts"},
                                                        {args.top_ks, "top_ks"},
                                                        {args.top_ps, "top_ps"},
                                                        {args.min_ps, "min_ps"}};
  for (const auto& [array, name] : arrays) call.check_array(array, n, kHeader, name);
  const std::uint64_t capabilities = self.real.capabilities;
  call.caller_must(args.parents == nullptr || (capabilities & MORTISE_CAP_TREE) != 0, kHeader,
                   "Given only to a component with MORTISE_CAP_TREE", "parents is given");
  call.caller_must(args.distributions == nullptr || (capabilities & MORTISE_CAP_DISTRIBUTION) != 0, kHeader,
                   "the component has MORTISE_CAP_DISTRIBUTION", "distributions is given");
  std::unordered_set<std::uint64_t> ids;
  for (std::int32_t i = 0; i < n; ++i) {
    const auto known = self.known.find(args.seq_ids[i]);
    call.caller_must(known != self.known.end() && ids.insert(args.seq_ids[i]).second, kHeader,
                     "Reports a step, after it and before the next propose",
                     "sequence {} is given twice, or was never reported", args.seq_ids[i]);
    call.caller_must(args.max_drafts[i] >= 0 && args.max_drafts[i] <= args.draft_stride, kHeader,
                     "the most drafts wanted, <= draft_stride", "max_drafts[{}] is {}", i, args.max_drafts[i]);
    call.caller_must(args.num_drafts[i] == 0, kHeader, "0 before the call", "num_drafts[{}] is {}", i,
                     args.num_drafts[i]);
    call.caller_must(std::isfinite(args.temperatures[i]) && args.temperatures[i] >= 0, kHeader, "0: arg max",
                     "temperatures[{}] is {}", i, args.temperatures[i]);
    call.caller_must(args.positions[i] == known->second, kHeader, "the position of the first draft",
                     "positions[{}] is {}, and {} tokens were reported", i, args.positions[i], known->second);
  }
}

// Checks the sums of the distributions that the engine will read. The engine itself checks the single numbers.
void check_distributions(const Call& call, const Proposer& self, const mortise_proposal_args& args) {
  if (args.distributions == nullptr) return;
  for (std::int32_t i = 0; i < args.num_seqs; ++i) {
    if (args.temperatures[i] == 0) continue;
    for (std::int32_t j = 0; j < std::clamp(args.num_drafts[i], 0, args.draft_stride); ++j) {
      const std::int64_t row = std::int64_t{i} * args.draft_stride + j;
      const float* const numbers = args.distributions + row * self.vocab_size;
      double mass = 0;
      for (std::int32_t v = 0; v < self.vocab_size; ++v) mass += numbers[v];
      call.part_must(std::abs(mass - 1) <= kMassTolerance, kHeader, "the distribution that tokens[i, j] was drawn from",
                     "the numbers of draft {} of sequence {} have the sum {}", j, i, mass);
    }
  }
}

mortise_status propose(mortise_proposer* handle, const mortise_step* step, const mortise_proposal_args* args,
                       mortise_error* error) {
  return checked<Proposer>(handle, kPropose, error, [&](Call& call, Proposer& self) {
    call.check_struct(step, MORTISE_SIZE_0_5(mortise_step), "step");
    call.check_struct(args, MORTISE_SIZE_0_5(mortise_proposal_args), "args");
    check_proposal(call, self, *args);
    const std::int64_t n = args->num_seqs, cells = n * args->draft_stride;
    Output<std::int32_t> tokens("tokens", args->tokens, cells), counts("num_drafts", args->num_drafts, n),
        parents("parents", args->parents, cells);
    mortise_proposal_args mine = *args;
    mine.tokens = tokens.data();
    mine.num_drafts = counts.data();
    mine.parents = parents.data();
    Inputs inputs;
    inputs.add("args", &mine, 1);
    inputs.add("seq_ids", args->seq_ids, n);
    inputs.add("max_drafts", args->max_drafts, n);
    inputs.add("keys", args->keys, n);
    inputs.add("temperatures", args->temperatures, n);
    inputs.add("positions", args->positions, n);
    inputs.add("top_ks", args->top_ks, n);
    inputs.add("top_ps", args->top_ps, n);
    inputs.add("min_ps", args->min_ps, n);
    const mortise_status status = call.make(error, [&](mortise_error* own) {
      return self.table<mortise_proposer_table>().propose(handle, step, &mine, own);
    });
    inputs.check(call);
    tokens.take(call);
    counts.take(call);
    parents.take(call);
    if (status == MORTISE_OK) check_distributions(call, self, *args);
    return status;
  });
}

}  // namespace

std::shared_ptr<Instance> make_proposer(const Component& real) {
  return std::make_shared<Proposer>(real);
}

void check_table(mortise_proposer_table& table) {
  replace(table.bind, &bind);
  replace(table.observe, &observe);
  replace(table.propose, &propose);
  replace(table.max_drafts, &max_drafts);
}

}  // namespace mortise::abi_check
