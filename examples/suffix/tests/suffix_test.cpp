// examples/suffix/tests/suffix_test.cpp: the automaton beside a naive search, and the plugin through its entry, as the
// host calls it: suffix_test PLUGIN.so. Prints nothing if all is well.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>

#include "loaded_proposer.hpp"
#include "past_texts.hpp"
#include "suffix_automaton.hpp"

namespace suffix {
namespace {

std::string context;

void check(bool holds, const char* what, int line) {
  if (holds) return;
  std::fprintf(stderr, "suffix_test.cpp:%d: %s: not true: %s\n", line, context.c_str(), what);
  std::exit(1);
}
#define CHECK(condition) check(condition, #condition, __LINE__)

// --- the automaton

// Texts that grow in turns, and what the automaton should know of them.
struct NaiveTexts {
  std::vector<Tokens> texts;

  // What followed `pattern` how often.
  std::map<int32_t, int> followers(const Tokens& pattern) const {
    std::map<int32_t, int> result;
    // Texts with the same beginning share it: it counts as often as texts have it.
    for (const Tokens& text : texts) {
      for (std::size_t at = 0; at + pattern.size() < text.size(); ++at) {
        if (std::equal(pattern.begin(), pattern.end(), text.begin() + static_cast<std::ptrdiff_t>(at))) {
          ++result[text[at + pattern.size()]];
        }
      }
    }
    return result;
  }
  bool occurs(const Tokens& pattern) const {
    for (const Tokens& text : texts) {
      if (std::search(text.begin(), text.end(), pattern.begin(), pattern.end()) != text.end()) return true;
    }
    return pattern.empty();
  }
};

void check_favourite(const SuffixAutomaton& automaton, SuffixAutomaton::Place place, const NaiveTexts& naive,
                     const Tokens& pattern) {
  const auto followers = naive.followers(pattern);
  int most = 0, total = 0;
  for (const auto& [token, count] : followers) {
    most = std::max(most, count);
    total += count;
  }
  const auto favourite = automaton.favourite(place, 0);
  CHECK(favourite.count == most);
  CHECK(followers.at(favourite.token) == most);
  CHECK(favourite.total >= total);  // and the ends of texts
}

void the_automaton_finds_what_a_naive_search_finds() {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    context = "the automaton finds what a naive search finds, seed " + std::to_string(seed);
    std::mt19937_64 random(seed);
    const auto draw = [&](uint64_t below) { return static_cast<int32_t>(random() % below); };
    SuffixAutomaton automaton(seed);
    NaiveTexts naive;
    naive.texts.resize(static_cast<std::size_t>(1 + draw(3)));
    std::vector<SuffixAutomaton::State> ends(naive.texts.size(), SuffixAutomaton::kRoot);
    const int alphabet = 2 + draw(4);  // small: everything repeats. kMaxCounted suffixes are more than there are.
    for (int step = 0; step < 60; ++step) {
      const auto at = static_cast<std::size_t>(draw(naive.texts.size()));
      Tokens& text = naive.texts[at];
      text.push_back(draw(static_cast<uint64_t>(alphabet)));
      ends[at] = automaton.append(ends[at], text.back());

      // The longest suffix of the text that something followed.
      const auto place = automaton.followed(automaton.whole(ends[at]));
      std::size_t longest = text.size();
      while (longest > 0 &&
             naive.followers(Tokens(text.end() - static_cast<std::ptrdiff_t>(longest), text.end())).empty())
        --longest;
      CHECK(place.length == static_cast<int32_t>(longest));
      if (longest > 0) check_favourite(automaton, place, naive, Tokens(text.end() - place.length, text.end()));
    }
    // Another text that is read, not added.
    SuffixAutomaton::Place place;
    Tokens read;
    for (int step = 0; step < 60; ++step) {
      read.push_back(draw(static_cast<uint64_t>(alphabet) + 1));
      place = automaton.advance(place, read.back());
      std::size_t longest = read.size();
      while (!naive.occurs(Tokens(read.end() - static_cast<std::ptrdiff_t>(longest), read.end()))) --longest;
      CHECK(place.length == static_cast<int32_t>(longest));
      const auto followed = automaton.followed(place);
      if (followed.length > 0)
        check_favourite(automaton, followed, naive, Tokens(read.end() - followed.length, read.end()));
    }
  }
}

void memory_grows_with_the_text_and_not_faster() {
  context = "memory grows with the text and not faster";
  std::mt19937_64 random(5);
  for (const int alphabet : {1, 2, 1000}) {
    SuffixAutomaton automaton(1);
    SuffixAutomaton::State end = SuffixAutomaton::kRoot;
    for (int i = 0; i < 20000; ++i)
      end = automaton.append(end, static_cast<int32_t>(random() % static_cast<uint64_t>(alphabet)));
    CHECK(automaton.memory_bytes() < 20000 * 250);  // README.md, Cost
  }
}

void past_texts_are_forgotten_by_halves() {
  context = "past texts are forgotten by halves";
  PastTexts past(/*max_tokens=*/100, /*hash_seed=*/1);
  auto first = past.begin();
  for (int32_t token = 0; token < 50; ++token) past.append(first, token);
  const auto finds = [&](int32_t token) {
    auto reader = past.begin();
    past.append(reader, token);
    return past.in_young(reader).length + past.in_old(reader).length > 0;
  };
  CHECK(finds(7));
  CHECK(past.num_tokens() <= 100);
  for (int32_t token = 1000; token < 1060; ++token) past.append(first, token);  // a text goes on across the halves
  CHECK(past.num_tokens() <= 100);
  CHECK(past.in_old(first).length == 0 && finds(1030));
  auto second = past.begin();
  for (int32_t token = 2000; token < 2050; ++token) past.append(second, token);
  CHECK(!finds(7));
  PastTexts none(0, 1);
  auto reader = none.begin();
  for (int i = 0; i < 10; ++i) none.append(reader, 1);
  CHECK(none.num_tokens() == 0 && none.in_young(reader).length == 0);
}

// --- the plugin

const char* plugin;

Tokens range(int32_t first, int32_t count) {
  Tokens tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back(first + i);
  return tokens;
}
Tokens joined(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

void drafts_follow_the_longest_match() {
  context = "drafts follow the longest match";
  LoadedProposer proposer(plugin, "{}");
  // 5 6 7 was followed by 8; the latest 6 7 by 9.
  CHECK(proposer.observe({{1, 0, {4, 5, 6, 7, 8, 20, 21, 6, 7, 9, 22, 23, 5, 6, 7}}}) == MORTISE_OK);
  CHECK(proposer.propose({{1, 15, 2}}) == (std::vector<Tokens>{{8, 20}}));
}

void drafts_follow_the_most_frequent_continuation_and_of_equals_the_latest() {
  context = "drafts follow the most frequent continuation, and of equals the latest";
  LoadedProposer proposer(plugin, R"({"min_confidence": 0.0})");
  CHECK(proposer.observe({{1, 0, {1, 2, 8, 30, 1, 2, 8, 31, 1, 2, 9, 32, 1, 2}}}) == MORTISE_OK);
  CHECK(proposer.propose({{1, 14, 1}}) == (std::vector<Tokens>{{8}}));
  CHECK(proposer.observe({{1, 14, {9, 33, 1, 2}}}) == MORTISE_OK);
  CHECK(proposer.propose({{1, 18, 1}}) == (std::vector<Tokens>{{9}}));
}

void a_repeating_text_goes_on_repeating() {
  context = "a repeating text goes on repeating";
  LoadedProposer proposer(plugin, "{}");
  CHECK(proposer.observe({{1, 0, {5, 6, 7, 5, 6, 7, 5, 6, 7, 5, 6, 7}}}) == MORTISE_OK);
  const Tokens drafts = proposer.propose({{1, 12, 16}})[0];
  CHECK(drafts.size() > 3);  // beyond the end of the text
  for (std::size_t i = 0; i < drafts.size(); ++i) CHECK(drafts[i] == 5 + static_cast<int32_t>(i % 3));
}

void a_longer_match_gets_more_drafts() {
  context = "a longer match gets more drafts";
  std::vector<std::size_t> counts;
  for (const int32_t length : {1, 3, 12}) {
    LoadedProposer proposer(plugin, "{}");
    const Tokens text = joined(joined(range(100, 50), {1, 2, 3}), range(100, length));
    CHECK(proposer.observe({{1, 0, text}}) == MORTISE_OK);
    counts.push_back(proposer.propose({{1, static_cast<int64_t>(text.size()), 16}})[0].size());
  }
  CHECK(counts[0] < counts[1] && counts[1] < counts[2] && counts[2] > 8);
}

void favourites_that_prove_wrong_are_drafted_no_more() {
  context = "favourites that prove wrong are drafted no more";
  LoadedProposer proposer(plugin, "{}");
  std::mt19937_64 random(3);
  Tokens text = {0};
  for (int i = 0; i < 400; ++i) text.push_back(static_cast<int32_t>(random() % 20));  // pairs repeat and mean nothing
  CHECK(proposer.observe({{1, 0, text}}) == MORTISE_OK);
  const auto share = [&](int steps) {
    std::size_t drafts = 0;
    for (int i = 0; i < steps; ++i) {
      const auto position = static_cast<int32_t>(text.size());
      drafts += proposer.propose({{1, position, 8}})[0].size();
      text.push_back(static_cast<int32_t>(random() % 20));
      CHECK(proposer.observe({{1, position, {text.back()}}}) == MORTISE_OK);
    }
    return static_cast<double>(drafts) / steps;
  };
  share(100);
  CHECK(share(200) < 0.1);
}

void answers_of_others_are_drafted_also_while_they_run() {
  context = "answers of others are drafted, also while they run";
  LoadedProposer proposer(plugin, "{}");
  const Tokens prompt = {1, 2, 3, 4, 5, 6, 7, 8}, answer = range(100, 40);
  CHECK(proposer.observe({{1, 0, joined(prompt, {answer[0]})}}) == MORTISE_OK);
  CHECK(proposer.observe({{1, 9, Tokens(answer.begin() + 1, answer.begin() + 20)}}) == MORTISE_OK);
  CHECK(proposer.observe({{2, 0, joined(prompt, {answer[0]})}}) == MORTISE_OK);
  CHECK(proposer.propose({{2, 9, 4}}) == (std::vector<Tokens>{range(101, 4)}));
  CHECK(proposer.observe({{1, 28, Tokens(answer.begin() + 20, answer.end())}}, {}) == MORTISE_OK);
  CHECK(proposer.observe({}, {1}) == MORTISE_OK);
  CHECK(proposer.observe({{2, 9, Tokens(answer.begin() + 1, answer.begin() + 25)}}) == MORTISE_OK);
  CHECK(proposer.propose({{2, 33, 4}}) == (std::vector<Tokens>{range(125, 4)}));
  LoadedProposer alone(plugin, R"({"past_tokens": 0})");
  CHECK(alone.observe({{1, 0, joined(prompt, answer)}, {2, 0, joined(prompt, {answer[0]})}}) == MORTISE_OK);
  CHECK(alone.propose({{2, 9, 4}}) == (std::vector<Tokens>{{}}));
}

void prompts_of_others_are_not_drafted() {
  context = "prompts of others are not drafted";
  LoadedProposer proposer(plugin, R"({"min_confidence": 0.0})");
  CHECK(proposer.observe({{1, 0, range(100, 60)}, {2, 0, range(100, 10)}}) == MORTISE_OK);
  CHECK(proposer.propose({{2, 10, 4}}) == (std::vector<Tokens>{{}}));
}

void bounds_and_unknown_sequences() {
  context = "bounds and unknown sequences";
  LoadedProposer proposer(plugin, R"({"max_tokens": 3})");
  CHECK(proposer.observe({{1, 0, joined(range(1, 30), range(1, 20))}}) == MORTISE_OK);
  CHECK(proposer.propose({{1, 50, 9}, {7, 50, 9}, {1, 49, 9}, {1, 50, 0}, {1, 50, 2}}) ==
        (std::vector<Tokens>{{21, 22, 23}, {}, {}, {}, {21, 22}}));
  CHECK(proposer.propose({}).empty());
  CHECK(proposer.observe({}) == MORTISE_OK);
}

void state_is_dropped_and_gaps_are_told() {
  context = "state is dropped and gaps are told";
  LoadedProposer proposer(plugin, "{}");
  CHECK(proposer.observe({{1, 0, {1, 1, 1}}, {2, 0, {1, 1, 1}}}) == MORTISE_OK);
  CHECK(proposer.num_sequences() == 2);
  CHECK(proposer.observe({{2, 3, {1}}}, {1, 99}) == MORTISE_OK);
  CHECK(proposer.num_sequences() == 1);
  CHECK(proposer.observe({{2, 7, {1}}}) == MORTISE_FAILED_PRECONDITION);
  CHECK(std::string(proposer.error.message) ==
        "sequence 2 continues at position 7, which does not follow the tokens that the proposer knows");
  CHECK(proposer.propose({{2, 4, 4}}) == (std::vector<Tokens>{{}}));
  CHECK(proposer.observe({{2, 0, range(1, 3)}}) == MORTISE_OK);  // a whole history takes the place of what was kept
  CHECK(proposer.propose({{2, 3, 4}}) == (std::vector<Tokens>{{}}));
  CHECK(proposer.observe({{2, 3, range(1, 2)}}) == MORTISE_OK);
  CHECK(proposer.propose({{2, 5, 1}}) == (std::vector<Tokens>{{3}}));
  CHECK(proposer.observe({}, {2}) == MORTISE_OK);
  CHECK(proposer.num_sequences() == 0);
}

// Two instances that see the same give the same drafts, whatever their hash seeds; a small memory is filled many times.
void the_same_calls_give_the_same_drafts() {
  context = "the same calls give the same drafts";
  LoadedProposer first(plugin, R"({"past_tokens": 500})", /*now_ns=*/1);
  LoadedProposer second(plugin, R"({"past_tokens": 500})", /*now_ns=*/123456789);
  std::mt19937_64 random(9);
  std::map<uint64_t, Tokens> texts;
  uint64_t last_id = 0;
  std::size_t num_drafts = 0;
  for (int step = 0; step < 3000; ++step) {
    if (texts.size() < 6) {
      Tokens& text = texts[++last_id];
      for (int i = 0; i < 20; ++i) text.push_back(static_cast<int32_t>(random() % 5));
      CHECK(first.observe({{last_id, 0, text}}) == MORTISE_OK && second.observe({{last_id, 0, text}}) == MORTISE_OK);
    }
    std::vector<LoadedProposer::Ask> asks;
    for (const auto& [id, text] : texts) asks.push_back({id, static_cast<int64_t>(text.size()), 8});
    const auto drafts = first.propose(asks);
    CHECK(drafts == second.propose(asks));
    std::vector<LoadedProposer::Step> steps;
    std::vector<uint64_t> ended;
    std::size_t row = 0;
    for (auto& [id, text] : texts) {
      num_drafts += drafts[row].size();
      const Tokens accepted(drafts[row].begin(),
                            drafts[row].begin() + static_cast<std::ptrdiff_t>(random() % (drafts[row].size() + 1)));
      ++row;
      const Tokens committed = joined(accepted, {static_cast<int32_t>(random() % 5)});
      steps.push_back({id, static_cast<int32_t>(text.size()), committed, static_cast<int32_t>(accepted.size())});
      text = joined(text, committed);
      if (text.size() > 120) ended.push_back(id);
    }
    for (const uint64_t id : ended) texts.erase(id);
    CHECK(first.observe(steps, ended) == MORTISE_OK && second.observe(steps, ended) == MORTISE_OK);
    CHECK(first.num_sequences() == texts.size());
  }
  CHECK(num_drafts > 1000);
}

}  // namespace
}  // namespace suffix

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "suffix_test PLUGIN.so\n");
    return 2;
  }
  suffix::plugin = arguments[1];
  try {
    suffix::the_automaton_finds_what_a_naive_search_finds();
    suffix::memory_grows_with_the_text_and_not_faster();
    suffix::past_texts_are_forgotten_by_halves();
    suffix::drafts_follow_the_longest_match();
    suffix::drafts_follow_the_most_frequent_continuation_and_of_equals_the_latest();
    suffix::a_repeating_text_goes_on_repeating();
    suffix::a_longer_match_gets_more_drafts();
    suffix::favourites_that_prove_wrong_are_drafted_no_more();
    suffix::answers_of_others_are_drafted_also_while_they_run();
    suffix::prompts_of_others_are_not_drafted();
    suffix::bounds_and_unknown_sequences();
    suffix::state_is_dropped_and_gaps_are_told();
    suffix::the_same_calls_give_the_same_drafts();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "suffix_test: %s: %s\n", suffix::context.c_str(), error.what());
    return 1;
  }
}
