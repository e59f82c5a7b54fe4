#include "conformance/proposer_driver.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "conformance/guarded_memory.hpp"
#include "conformance/subject.hpp"
#include "mortise/ext/sequences.h"
#include "mortise/proposer.h"

namespace mortise::conformance {
namespace {

constexpr std::int32_t kMaxDrafts = 8;  // drafts that a case asks for, if the proposer has no smaller limit

const mortise_proposer_table& table_of(const Part& part) {
  return part.table<mortise_proposer_table>();
}

}  // namespace

ProposerDriver::ProposerDriver(Part& part) : part_(part) {
  if (MORTISE_HAS(&table_of(part), max_drafts)) {
    part.perform("max_drafts", [&](mortise_error*) {
      return max_drafts_ = table_of(part).max_drafts(part.handle<mortise_proposer>()), MORTISE_OK;
    });
    expect(max_drafts_ >= 1, "max_drafts returns {}; at least 1 is needed", max_drafts_);
  } else {
    max_drafts_ = kMaxDrafts;
  }
}

std::int64_t ProposerDriver::num_sequences() const {
  const auto* table = static_cast<const mortise_sequences_table*>(part_.get_ext(MORTISE_EXT_SEQUENCES));
  return table == nullptr ? -1 : static_cast<std::int64_t>(table->num_sequences(part_.handle<void>()));
}

Answer ProposerDriver::try_observe(const std::vector<Seen>& seen, const std::vector<std::uint64_t>& ended) {
  std::vector<std::uint64_t> ids;
  std::vector<std::int32_t> offsets = {0}, tokens, accepted, firsts;
  for (const Seen& one : seen) {
    ids.push_back(one.id);
    tokens.insert(tokens.end(), one.tokens.begin(), one.tokens.end());
    offsets.push_back(static_cast<std::int32_t>(tokens.size()));
    accepted.push_back(one.num_accepted);
    firsts.push_back(one.first_position);
  }
  ReadOnlyCopies copies;
  mortise_observation args{};
  args.struct_size = sizeof args;
  args.num_seqs = static_cast<std::int32_t>(seen.size());
  args.num_ended = static_cast<std::int32_t>(ended.size());
  args.seq_ids = copies.copy(ids);
  args.token_offsets = copies.copy(offsets);
  args.tokens = copies.copy(tokens);
  args.num_accepted = copies.copy(accepted);
  args.ended_ids = copies.copy(ended);
  args.first_positions = copies.copy(firsts);
  const auto* const shown = copies.copy(&args, 1);
  return part_.call("observe", [&](mortise_error* error) {
    return table_of(part_).observe(part_.handle<mortise_proposer>(), shown, error);
  });
}

void ProposerDriver::observe(const std::vector<Seen>& seen, const std::vector<std::uint64_t>& ended) {
  const Answer answer = try_observe(seen, ended);
  expect(answer.ok(), "observe fails: {}", answer.text());
}

void ProposerDriver::check(const Wanted& wanted, const Drafts& drafts, std::int32_t stride, bool is_tree) const {
  const auto size = static_cast<std::int32_t>(drafts.tokens.size());
  const std::int32_t most = wanted.max_drafts == 0 ? 0 : is_tree ? stride : wanted.max_drafts;
  expect(size <= most, "propose gives {} drafts for a sequence that may have {}", size, most);
  std::vector<std::int32_t> depths;
  for (std::int32_t j = 0; j < size; ++j) {
    const std::int32_t token = drafts.tokens[static_cast<std::size_t>(j)];
    expect(token >= 0 && token < kVocabSize, "propose gives the token {} of a vocabulary of {}", token, kVocabSize);
    if (!is_tree) continue;
    const std::int32_t parent = drafts.parents[static_cast<std::size_t>(j)];
    expect(parent >= -1 && parent < j, "draft {} has the parent {}, which is not an earlier draft", j, parent);
    depths.push_back(parent < 0 ? 1 : depths[static_cast<std::size_t>(parent)] + 1);
    expect(depths.back() <= wanted.max_drafts, "a path of the tree has {} drafts, but max_drafts is {}", depths.back(),
           wanted.max_drafts);
  }
}

std::vector<Drafts> ProposerDriver::propose(const std::vector<Wanted>& wanted, const ProposalForm& form) {
  std::vector<Drafts> all;
  const Answer answer = ask(wanted, form, all);
  expect(answer.ok(), "propose fails: {}", answer.text());
  return all;
}

Answer ProposerDriver::try_propose(const std::vector<Wanted>& wanted, const ProposalForm& form) {
  std::vector<Drafts> ignored;
  return ask(wanted, form, ignored);
}

// Adds the drafts of each sequence to `all`, in order, if the call succeeds.
Answer ProposerDriver::ask(const std::vector<Wanted>& wanted, const ProposalForm& form, std::vector<Drafts>& all) {
  const std::size_t n = wanted.size();
  const bool is_tree = form.branches > 1;
  std::vector<std::uint64_t> ids, keys;
  std::vector<std::int32_t> most;
  std::vector<float> temperatures;
  std::vector<std::int64_t> positions;
  for (const Wanted& one : wanted) {
    ids.push_back(one.id);
    keys.push_back(one.id * 0x9e3779b97f4a7c15u);
    most.push_back(one.max_drafts);
    temperatures.push_back(one.temperature);
    positions.push_back(one.position);
  }
  const std::int32_t longest = most.empty() ? 0 : *std::ranges::max_element(most);
  const std::int32_t stride = std::max(1, longest * form.branches + form.extra_stride);
  const std::size_t cells = n * static_cast<std::size_t>(stride);
  GuardedArray<std::int32_t> tokens(cells), counts(n), parents(is_tree ? cells : 0);
  GuardedArray<float> distributions(form.wants_distributions ? cells * kVocabSize : 0);
  std::ranges::fill(counts.span(), 0);
  ReadOnlyCopies copies;
  mortise_proposal_args args{};
  args.struct_size = sizeof args;
  args.num_seqs = static_cast<std::int32_t>(n);
  args.draft_stride = stride;
  args.seq_ids = copies.copy(ids);
  args.max_drafts = copies.copy(most);
  args.keys = copies.copy(keys);
  args.temperatures = copies.copy(temperatures);
  args.positions = copies.copy(positions);
  args.tokens = tokens.data();
  args.num_drafts = counts.data();
  args.parents = is_tree ? parents.data() : nullptr;
  args.distributions = form.wants_distributions ? distributions.data() : nullptr;
  args.top_ks = copies.copy(std::vector<std::int32_t>(n, 0));
  args.top_ps = copies.copy(std::vector<float>(n, 1));
  args.min_ps = copies.copy(std::vector<float>(n, 0));
  mortise_batch batch{};
  batch.struct_size = sizeof batch;
  batch.step_id = ++step_;
  mortise_step step{};
  step.struct_size = sizeof step;
  step.batch = copies.copy(&batch, 1);
  step.world = 1;
  const auto* const shown_step = copies.copy(&step, 1);
  const auto* const shown = copies.copy(&args, 1);
  const Answer answer = part_.call("propose", [&](mortise_error* error) {
    return table_of(part_).propose(part_.handle<mortise_proposer>(), shown_step, shown, error);
  });
  if (!answer.ok()) return answer;
  for (std::size_t i = 0; i < n; ++i) {
    expect(counts[i] >= 0 && counts[i] <= stride, "propose sets num_drafts to {}, but a row has {} places", counts[i],
           stride);
    const std::size_t begin = i * static_cast<std::size_t>(stride), end = begin + static_cast<std::size_t>(counts[i]);
    Drafts drafts{{tokens.data() + begin, tokens.data() + end}, {}};
    if (is_tree) drafts.parents.assign(parents.data() + begin, parents.data() + end);
    check(wanted[i], drafts, stride, is_tree);
    for (std::size_t at = begin; form.wants_distributions && wanted[i].temperature > 0 && at < end; ++at) {
      const std::span<const float> row(distributions.data() + at * kVocabSize, kVocabSize);
      expect(std::ranges::all_of(row, [](float p) { return std::isfinite(p) && p >= 0; }),
             "a distribution has a number that is negative or not finite");
      expect(row[static_cast<std::size_t>(tokens[at])] > 0, "a draft has probability 0 in its own distribution");
    }
    all.push_back(std::move(drafts));
  }
  return answer;
}

Tokens repetitive_text(std::uint64_t seed, std::size_t size) {
  std::mt19937_64 random(seed);
  Tokens text;
  while (text.size() < size) {
    const std::size_t length = 1 + random() % 24;
    if (text.size() > 8 && random() % 4 != 0) {  // here the text quotes itself
      const std::size_t at = random() % text.size();
      for (std::size_t i = 0; i < length && text.size() < size; ++i) text.push_back(text[at + i]);
    } else {
      for (std::size_t i = 0; i < length && text.size() < size; ++i) {
        text.push_back(static_cast<std::int32_t>(random() % kVocabSize));
      }
    }
  }
  return text;
}

std::string drafts_of_texts(Part& part, std::uint64_t seed) {
  constexpr std::size_t kSequences = 6, kSize = 200, kPrompt = 80;
  ProposerDriver driver(part);
  std::vector<Tokens> texts;
  std::vector<std::size_t> known(kSequences, 0);
  for (std::size_t i = 0; i < kSequences; ++i) texts.push_back(repetitive_text(seed * 31 + i, kSize));
  std::string journal;
  std::vector<std::uint64_t> ended;
  std::vector<Seen> seen;
  for (std::size_t i = 0; i < kSequences; ++i) {
    known[i] = kPrompt;
    seen.push_back({i + 1, 0, Tokens(texts[i].begin(), texts[i].begin() + kPrompt)});
  }
  while (!seen.empty() || !ended.empty()) {
    driver.observe(seen, std::exchange(ended, {}));
    std::vector<Wanted> wanted;
    for (const Seen& one : std::exchange(seen, {})) {
      const std::size_t i = one.id - 1;
      wanted.push_back({one.id, std::min(kMaxDrafts, driver.max_drafts()), static_cast<std::int64_t>(known[i])});
    }
    if (wanted.empty()) continue;
    const std::vector<Drafts> all = driver.propose(wanted);
    for (std::size_t k = 0; k < wanted.size(); ++k) {
      const std::size_t i = wanted[k].id - 1;
      const Tokens& drafts = all[k].tokens;
      journal += fmt::format("sequence {} at {}: {}\n", wanted[k].id, known[i], fmt::join(drafts, ","));
      std::int32_t accepted = 0;
      while (accepted < static_cast<std::int32_t>(drafts.size()) &&
             known[i] + static_cast<std::size_t>(accepted) < kSize &&
             drafts[static_cast<std::size_t>(accepted)] == texts[i][known[i] + static_cast<std::size_t>(accepted)]) {
        ++accepted;
      }
      const std::size_t end = std::min(known[i] + static_cast<std::size_t>(accepted) + 1, kSize);
      if (known[i] == kSize) {
        ended.push_back(wanted[k].id);
        continue;
      }
      seen.push_back({wanted[k].id, static_cast<std::int32_t>(known[i]),
                      Tokens(texts[i].begin() + static_cast<std::ptrdiff_t>(known[i]),
                             texts[i].begin() + static_cast<std::ptrdiff_t>(end)),
                      accepted});
      known[i] = end;
    }
  }
  return journal;
}

}  // namespace mortise::conformance
