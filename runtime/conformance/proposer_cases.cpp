// runtime/conformance/proposer_cases.cpp: rules of proposers, on texts that repeat themselves.
#include <algorithm>
#include <chrono>

#include "conformance/behaviour.hpp"
#include "conformance/proposer_driver.hpp"
#include "conformance/subject.hpp"

namespace mortise::conformance {
namespace {

Tokens part_of(const Tokens& text, std::size_t begin, std::size_t end) {
  return {text.begin() + static_cast<std::ptrdiff_t>(begin), text.begin() + static_cast<std::ptrdiff_t>(end)};
}

// Returns a text that repeats one passage, so that it is plain what comes next.
Tokens periodic_text(std::uint64_t seed, std::size_t size) {
  const Tokens passage = repetitive_text(seed, 24);
  Tokens text;
  while (text.size() < size) text.push_back(passage[text.size() % passage.size()]);
  return text;
}

Wanted wanted_after(std::uint64_t id, const Tokens& text, std::int32_t max_drafts) {
  return {id, max_drafts, static_cast<std::int64_t>(text.size())};
}

void one_token_is_enough(Subject& subject) {
  const auto part = subject.make_active();
  ProposerDriver driver(*part);
  driver.observe({{1, 0, {7}}});
  driver.propose({{1, driver.max_drafts(), 1}});
  driver.end({1});
}

void none_wanted_none_given(Subject& subject) {
  const auto part = subject.make_active();
  ProposerDriver driver(*part);
  const Tokens text = repetitive_text(1, 100);
  driver.observe({{1, 0, text}, {2, 0, text}});
  const auto drafts = driver.propose({wanted_after(1, text, 0), wanted_after(2, text, driver.max_drafts())});
  expect(drafts[0].tokens.empty(), "a sequence with max_drafts 0 gets {} drafts", drafts[0].tokens.size());
  driver.propose({wanted_after(1, text, 0), wanted_after(2, text, 0)});
}

void nothing_wanted(Subject& subject) {
  const auto part = subject.make_active();
  ProposerDriver driver(*part);
  driver.propose({});
  driver.observe({}, {});
  driver.observe({}, {1, 2, 3});
}

void small_limits_are_kept(Subject& subject) {
  const auto part = subject.make_active();
  ProposerDriver driver(*part);
  const Tokens text = periodic_text(2, 300);
  driver.observe({{1, 0, text}});
  for (std::int32_t most = 1; most <= driver.max_drafts(); ++most) {
    driver.propose({wanted_after(1, text, most)}, {.extra_stride = most % 3});
  }
}

void many_sequences(Subject& subject) {
  const auto part = subject.make_active();
  ProposerDriver driver(*part);
  std::vector<Seen> seen;
  std::vector<Wanted> wanted;
  std::vector<std::uint64_t> ids;
  for (std::uint64_t id = 1; id <= 64; ++id) {
    const Tokens text = repetitive_text(id, 20 + id);
    seen.push_back({id, 0, text});
    wanted.push_back(wanted_after(id, text, static_cast<std::int32_t>(id) % (driver.max_drafts() + 1)));
    ids.push_back(id);
  }
  driver.observe(seen);
  driver.propose(wanted);
  driver.end(ids);
}

// Compares the drafts for a sequence that is reported piece by piece with those for one that is reported at once.
void history_decides(Subject& subject) {
  const std::uint64_t seed = subject.random()();
  const Tokens text = repetitive_text(seed, 240);
  const auto in_pieces = subject.make_active(), at_once = subject.make_active();
  ProposerDriver pieces(*in_pieces), once(*at_once);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.size(), at + 1 + subject.random()() % 9);
    pieces.observe({{1, static_cast<std::int32_t>(at), part_of(text, at, end)}});
    at = end;
  }
  once.observe({{1, 0, text}});
  const Wanted wanted = wanted_after(1, text, std::min(8, once.max_drafts()));
  expect(pieces.propose({wanted}) == once.propose({wanted}),
         "a sequence that is reported piece by piece gets different drafts than one whose history is reported at once");
}

void a_repeated_history_replaces_the_old(Subject& subject) {
  const auto part = subject.make_active(), fresh = subject.make_active();
  ProposerDriver driver(*part), other(*fresh);
  // The new text repeats nothing. The old text contains the end of the new text, and goes on after it.
  Tokens text;
  for (std::int32_t token = 0; token < 100; ++token) text.push_back(token);
  Tokens old_text;
  for (int i = 0; i < 10; ++i) old_text.insert(old_text.end(), {95, 96, 97, 98, 99, 7, 8, 9, 10});
  driver.observe({{1, 0, old_text}});
  driver.observe({{1, 0, text}});
  other.observe({{1, 0, text}});
  const Wanted wanted = wanted_after(1, text, driver.max_drafts());
  expect(driver.propose({wanted}) == other.propose({wanted}), "the old history still influences the drafts");
}

// The host reports a failure of observe by a whole history next time; until then the proposer may not know a sequence.
void unknown_sequences_get_nothing(Subject& subject) {
  const auto part = subject.make_active();
  ProposerDriver driver(*part);
  const Tokens text = repetitive_text(5, 80);
  driver.observe({{1, 0, text}});
  const auto drafts = driver.propose({{99, driver.max_drafts(), 80}, wanted_after(1, text, driver.max_drafts())});
  expect(drafts[0].tokens.empty(), "a sequence that was never observed gets {} drafts", drafts[0].tokens.size());
}

void a_gap_is_no_crash(Subject& subject) {
  const auto part = subject.make_active();
  ProposerDriver driver(*part);
  driver.observe({{1, 0, repetitive_text(6, 50)}});
  const Answer answer = driver.try_observe({{1, 90, {1, 2, 3}}});  // positions 50 to 89 are missing
  if (answer.ok()) driver.propose({{1, driver.max_drafts(), 93}});
}

void ended_ids_may_be_unknown(Subject& subject) {
  const auto part = subject.make_active();
  ProposerDriver driver(*part);
  driver.observe({{1, 0, repetitive_text(7, 30)}}, {500, 501});
  driver.end({1});
  driver.end({1});
}

// Ends a sequence and starts another one in the same call.
void ends_come_with_starts(Subject& subject) {
  const auto part = subject.make_active();
  ProposerDriver driver(*part);
  for (std::uint64_t id = 1; id < 200; ++id) {
    const Tokens text = repetitive_text(id, 40);
    driver.observe({{id, 0, text}}, id > 1 ? std::vector<std::uint64_t>{id - 1} : std::vector<std::uint64_t>{});
    driver.propose({wanted_after(id, text, driver.max_drafts())});
    const std::int64_t num = driver.num_sequences();
    expect(num <= 1, "{} sequences have state, but only one is alive", num);
  }
}

// Drafts are for the position that the host names; a proposer that lacks tokens before it has none.
void rejected_drafts_leave_no_trace(Subject& subject) {
  const auto part = subject.make_active(), clean = subject.make_active();
  ProposerDriver driver(*part), other(*clean);
  const Tokens text = periodic_text(8, 200);
  Tokens told = part_of(text, 0, 100);
  driver.observe({{1, 0, told}});
  for (std::size_t at = 100; at < text.size(); ++at) {
    driver.propose({wanted_after(1, told, driver.max_drafts())});  // all of them are rejected
    driver.observe({{1, static_cast<std::int32_t>(at), {text[at]}}});
    told.push_back(text[at]);
  }
  other.observe({{1, 0, text}});
  const Wanted wanted = wanted_after(1, text, std::min(8, driver.max_drafts()));
  expect(driver.propose({wanted}) == other.propose({wanted}), "drafts that were rejected change later drafts");
}

void proposals_may_be_repeated(Subject& subject) {
  const auto part = subject.make_active();
  ProposerDriver driver(*part);
  const Tokens text = periodic_text(9, 200);
  driver.observe({{1, 0, text}});
  const Wanted wanted = wanted_after(1, text, driver.max_drafts());
  const auto first = driver.propose({wanted});
  expect(first == driver.propose({wanted}), "the same proposal gives different drafts the second time");
}

// Drafts must not depend on the batch: the other sequences, and their order.
void batch_does_not_matter(Subject& subject) {
  const auto part = subject.make_active();
  ProposerDriver driver(*part);
  std::vector<Seen> seen;
  std::vector<Wanted> wanted;
  for (std::uint64_t id = 1; id <= 12; ++id) {
    const Tokens text = repetitive_text(subject.random()(), 60 + 5 * id);
    seen.push_back({id, 0, text});
    wanted.push_back(wanted_after(id, text, std::min(6, driver.max_drafts())));
  }
  driver.observe(seen);
  const auto together = driver.propose(wanted);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    expect(driver.propose({wanted[i]})[0] == together[i], "sequence {} gets different drafts alone than in a batch",
           wanted[i].id);
  }
  std::vector<Wanted> reversed(wanted.rbegin(), wanted.rend());
  const auto backwards = driver.propose(reversed);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    expect(backwards[wanted.size() - 1 - i] == together[i], "sequence {} gets different drafts in another order",
           wanted[i].id);
  }
}

void trees_are_valid(Subject& subject) {
  const Component& component = subject.component();
  PartSetup setup = subject.setup();
  if ((component.capabilities & MORTISE_CAP_TREE) == 0) throw NotApplicable("it does not claim MORTISE_CAP_TREE");
  expect(setup.options.contains("branches"), "it claims MORTISE_CAP_TREE but has no option `branches`");
  setup.options["branches"] = 3;
  const auto part = subject.make_active(setup);
  ProposerDriver driver(*part);
  for (int i = 0; i < subject.rounds(5); ++i) {
    const Tokens text = repetitive_text(subject.random()(), 150);
    driver.observe({{1, 0, text}});
    driver.propose({wanted_after(1, text, std::min(4, driver.max_drafts()))}, {.branches = 3});
  }
}

void distributions_are_valid(Subject& subject) {
  if ((subject.component().capabilities & MORTISE_CAP_DISTRIBUTION) == 0) {
    throw NotApplicable("it does not claim MORTISE_CAP_DISTRIBUTION");
  }
  const auto part = subject.make_active();
  ProposerDriver driver(*part);
  const Tokens text = repetitive_text(11, 150);
  driver.observe({{1, 0, text}, {2, 0, text}});
  Wanted sampled = wanted_after(1, text, std::min(4, driver.max_drafts()));
  sampled.temperature = 0.8f;
  driver.propose({sampled, wanted_after(2, text, 2)}, {.wants_distributions = true});
}

void tokens_of_every_value(Subject& subject) {
  const auto part = subject.make_active();
  ProposerDriver driver(*part);
  Tokens text;
  for (int i = 0; i < 40; ++i) text.insert(text.end(), {0, kVocabSize - 1, i % 3});
  driver.observe({{1, 0, text}});
  driver.propose({wanted_after(1, text, driver.max_drafts())});
  const Tokens same(500, kVocabSize - 1);
  driver.observe({{2, 0, same}});
  driver.propose({wanted_after(2, same, driver.max_drafts())});
}

void large_ids(Subject& subject) {
  const auto part = subject.make_active();
  ProposerDriver driver(*part);
  const Tokens text = repetitive_text(12, 60);
  for (const std::uint64_t id : {std::uint64_t{0}, std::uint64_t{1} << 40, (std::uint64_t{1} << 63) - 1}) {
    driver.observe({{id, 0, text}});
    driver.propose({wanted_after(id, text, driver.max_drafts())});
    driver.end({id});
  }
}

void long_texts(Subject& subject) {
  const auto part = subject.make_active();
  ProposerDriver driver(*part);
  const std::size_t size = 4000;  // max_model_len of activate is 4096
  const Tokens text = repetitive_text(13, size);
  const auto begin = std::chrono::steady_clock::now();
  driver.observe({{1, 0, text}});
  driver.propose({wanted_after(1, text, driver.max_drafts())});
  const Tokens same(size, 3);
  driver.observe({{2, 0, same}});
  driver.propose({wanted_after(2, same, driver.max_drafts())});
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  expect(seconds < 20, "two texts of {} tokens take {:.1f} s", size, seconds);
}

void proposer_state_is_released(Subject& subject) {
  const auto part = subject.make_active();
  ProposerDriver driver(*part);
  const auto live = [&](std::uint64_t id) {
    driver.observe({{id, 0, repetitive_text(14, 200)}});
    driver.end({id});
  };
  for (std::uint64_t id = 1; id < 50; ++id) live(id);
  const std::uint64_t before = part->host().allocated_bytes();
  for (std::uint64_t id = 50; id < 50 + static_cast<std::uint64_t>(subject.rounds(200)); ++id) live(id);
  expect(part->host().allocated_bytes() <= before,
         "the host memory that it holds grows with sequences that have ended");
}

// A part that never drafts is legal. But one that does not even draft on a text that repeats itself is probably broken.
void drafts_something(Subject& subject) {
  const auto part = subject.make_active();
  ProposerDriver driver(*part);
  const Tokens text = periodic_text(15, 12 * 24);
  std::size_t num_drafts = 0;
  for (std::size_t at = 200; at < text.size(); ++at) {
    const Tokens known = part_of(text, 0, at);
    driver.observe({{1, 0, known}});
    num_drafts += driver.propose({wanted_after(1, known, driver.max_drafts())})[0].tokens.size();
  }
  expect(num_drafts > 0, "a text that repeats 24 tokens twelve times gets no draft at all");
}

constexpr Case kProposerCases[] = {
    {"proposer.one_token", "propose may be called after a history of one token.", kOfProposer, one_token_is_enough},
    {"proposer.none_wanted", "A sequence that wants no drafts gets none.", kOfProposer, none_wanted_none_given},
    {"proposer.empty_calls", "Calls without any sequence do no harm.", kOfProposer, nothing_wanted},
    {"proposer.limits", "No sequence gets more drafts than it may have.", kOfProposer, small_limits_are_kept},
    {"proposer.many", "Many sequences are served in one call.", kOfProposer, many_sequences},
    {"proposer.history", "Drafts depend on the history, not on the pieces in which it was reported.", kOfProposer,
     history_decides, true},
    {"proposer.replaced_history", "A history from position 0 replaces what was known of the sequence.", kOfProposer,
     a_repeated_history_replaces_the_old},
    {"proposer.unknown", "A sequence that was never observed gets no drafts.", kOfProposer,
     unknown_sequences_get_nothing},
    {"proposer.gap", "A gap in a history is refused or handled, and causes no crash.", kOfProposer, a_gap_is_no_crash},
    {"proposer.unknown_ends", "Ends of unknown sequences are ignored.", kOfProposer, ended_ids_may_be_unknown},
    {"proposer.ends", "State of a sequence goes with its end.", kOfProposer, ends_come_with_starts},
    {"proposer.rejected", "Rejected drafts leave no trace.", kOfProposer, rejected_drafts_leave_no_trace},
    {"proposer.repeated", "The same proposal gives the same drafts.", kOfProposer, proposals_may_be_repeated},
    {"proposer.batch", "Drafts do not depend on the other sequences of a call or their order.", kOfProposer,
     batch_does_not_matter, true},
    {"proposer.trees", "Trees have valid parents and no path longer than allowed.", kOfProposer, trees_are_valid, true},
    {"proposer.distributions", "Distributions are finite, not negative, and allow their own drafts.", kOfProposer,
     distributions_are_valid},
    {"proposer.tokens", "The smallest and largest token ids are handled.", kOfProposer, tokens_of_every_value},
    {"proposer.ids", "Sequence ids may be any 63-bit numbers.", kOfProposer, large_ids},
    {"proposer.long_texts", "Texts of the model's maximum length are handled in time.", kOfProposer, long_texts},
    {"proposer.state", "The host memory that the proposer holds does not grow with sequences that have ended.",
     kOfProposer, proposer_state_is_released},
    {"proposer.drafts", "A text that repeats itself gets drafts.", kOfProposer, drafts_something},
};

}  // namespace

std::span<const Case> proposer_cases() {
  return kProposerCases;
}

}  // namespace mortise::conformance
