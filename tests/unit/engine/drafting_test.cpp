// Several proposers in one engine: who is asked, who is told, and what a request may choose.
// Covers: runtime/engine/drafter
#include <gmock/gmock.h>

#include <map>

#include "engine_fixture.hpp"
#include "error.hpp"

namespace mortise::test {
namespace {

using testing::HasSubstr;
using Tokens = std::vector<std::int32_t>;

// A proposer whose answers a test gives. Engine's thread only, except for members that tests read while the engine
// is idle.
struct ScriptedProposer {
  std::function<Tokens(const Tokens& history, std::int32_t most)> draft;
  std::function<mortise_status()> observe_status = [] { return MORTISE_OK; };
  std::function<mortise_status()> propose_status = [] { return MORTISE_OK; };

  std::map<std::uint64_t, Tokens> known = {};        // of live sequences, as it was told
  std::map<std::uint64_t, Tokens> ended = {};        // what was known of those that ended
  std::vector<std::int32_t> whole_history_len = {};  // each time one was told
  bool wants_hidden = false;
  int num_hidden = 0;  // rows that were those of the tokens before the last one told
  int num_asked = 0;
  std::int32_t most_asked = 0;

  mortise_status observe(const mortise_observation& seen) {
    for (std::int32_t i = 0; i < seen.num_ended; ++i) {
      ended[seen.ended_ids[i]] = known[seen.ended_ids[i]];
      known.erase(seen.ended_ids[i]);
    }
    if (const mortise_status status = observe_status(); status != MORTISE_OK) return status;
    for (std::int32_t i = 0; i < seen.num_seqs; ++i) {
      Tokens& tokens = known[seen.seq_ids[i]];
      if (seen.first_positions[i] == 0) {
        tokens.clear();
        whole_history_len.push_back(seen.token_offsets[i + 1] - seen.token_offsets[i]);
      }
      EXPECT_EQ(static_cast<std::int32_t>(tokens.size()), seen.first_positions[i]);
      tokens.insert(tokens.end(), seen.tokens + seen.token_offsets[i], seen.tokens + seen.token_offsets[i + 1]);
      EXPECT_EQ(seen.hidden != nullptr, wants_hidden);
      if (seen.hidden != nullptr) check_hidden(seen, seen.hidden_rows[i], tokens);
    }
    return MORTISE_OK;
  }

  void check_hidden(const mortise_observation& seen, std::int32_t row, Tokens tokens) {
    tokens.pop_back();
    ASSERT_GE(row, 0);
    ASSERT_LT(row, seen.hidden->shape[0]);
    const auto* const rows = static_cast<const float*>(seen.hidden->data);
    EXPECT_EQ(load_hash(rows + row * seen.hidden->shape[1]), hash_history(tokens));
    ++num_hidden;
  }

  mortise_status propose(const mortise_proposal_args& args) {
    for (std::int32_t i = 0; i < args.num_seqs; ++i) {
      ++num_asked;
      most_asked = std::max(most_asked, args.max_drafts[i]);
      EXPECT_EQ(static_cast<std::int64_t>(known[args.seq_ids[i]].size()), args.positions[i]) << "not told everything";
      const Tokens drafts = draft(known[args.seq_ids[i]], args.max_drafts[i]);
      args.num_drafts[i] = static_cast<std::int32_t>(drafts.size());
      std::copy(drafts.begin(), drafts.end(), args.tokens + i * args.draft_stride);
    }
    return propose_status();
  }

  ActiveProposer part(const std::string& name, std::int32_t max_tokens) {
    static const auto table = [] {
      mortise_proposer_table value{};
      value.struct_size = sizeof value;
      value.observe = [](mortise_proposer* self, const mortise_observation* seen, mortise_error*) {
        return reinterpret_cast<ScriptedProposer*>(self)->observe(*seen);
      };
      value.propose = [](mortise_proposer* self, const mortise_step*, const mortise_proposal_args* args,
                         mortise_error*) { return reinterpret_cast<ScriptedProposer*>(self)->propose(*args); };
      return value;
    }();
    ActiveProposer result;
    result.self = reinterpret_cast<mortise_proposer*>(this);
    result.api = &table;
    result.name = "proposer '" + name + "'";
    result.plugin = name;
    result.max_tokens = max_tokens;
    if (wants_hidden) result.capabilities = MORTISE_CAP_NEEDS_HIDDEN;
    return result;
  }
};

// The right tokens, this many of them.
Tokens right(Tokens history, std::int32_t most) {
  Tokens drafts;
  while (static_cast<std::int32_t>(drafts.size()) < most) {
    drafts.push_back(next_token(history));
    history.push_back(drafts.back());
  }
  return drafts;
}

Tokens nothing(const Tokens&, std::int32_t) {
  return {};
}

class DraftingTest : public EngineTest {
 protected:
  // first_of { first { max_tokens = 2 }, second { max_tokens = 3 } }
  void start_both() {
    EngineLimits limits = small_limits();
    limits.max_drafts = 3;
    world = std::make_unique<FakeWorld>(limits);
    Parts parts = world->parts();
    parts.proposers = {first.part("first", 2), second.part("second", 3)};
    engine = std::make_unique<Engine>(parts, limits, ModelInfo{kVocab, {}}, tokenizer());
  }
  Usage run(const Tokens& prompt, std::int32_t max_tokens, const SpeculationChoice& speculation = {}) {
    Request request = greedy(prompt, max_tokens);
    request.speculation = speculation;
    Collector collector;
    engine->submit(request, collector.sink());
    const auto choice = collector.wait().at(0);
    EXPECT_EQ(choice.ids(), expected(prompt, max_tokens));
    return choice.last.usage;
  }
  std::string refusal(const SpeculationChoice& speculation) {
    Request request = greedy({1, 2}, 4);
    request.speculation = speculation;
    try {
      engine->submit(request, [](const Delta&) {});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  ScriptedProposer first{.draft = right}, second{.draft = right};
};

TEST_F(DraftingTest, TheFirstThatHasADraftProposes) {
  first.draft = [](const Tokens& history, std::int32_t most) {
    return history.size() % 4 < 2 ? right(history, most) : Tokens{};
  };
  start_both();
  const Usage usage = run({1, 2, 3}, 30);
  EXPECT_EQ(usage.accepted_tokens, usage.draft_tokens);
  EXPECT_GT(second.num_asked, 0);
  EXPECT_GT(first.num_asked, second.num_asked);  // equal: the second was asked although the first had a draft
  EXPECT_EQ(first.most_asked, 2);
  EXPECT_EQ(second.most_asked, 3);
}

TEST_F(DraftingTest, WhoWantsHiddenRowsIsToldThoseThatTheLastTokensWereDrawnFrom) {
  second.wants_hidden = true;
  first.draft = [](const Tokens& history, std::int32_t most) {
    Tokens drafts = right(history, most);  // of two drafts none, one or both are right
    if (history.size() % 3 == 0) drafts.front() = (drafts.front() + 1) % kVocab;
    if (history.size() % 3 == 1) drafts.back() = (drafts.back() + 1) % kVocab;
    return drafts;
  };
  start_both();
  Collector collectors[3];
  for (int i = 0; i < 3; ++i) engine->submit(greedy(Tokens(3 + 9 * i, 1 + i), 20), collectors[i].sink());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(collectors[i].wait().at(0).ids(), expected(Tokens(3 + 9 * i, 1 + i), 20));
  }
  EXPECT_GT(second.num_hidden, 3 * 20 / 3);
}

TEST_F(DraftingTest, NoneIsAskedBeforeItWasTold) {
  bool untold = false;
  first.draft = second.draft = [&](const Tokens& history, std::int32_t) {
    untold = untold || history.empty();
    return Tokens{};
  };
  start_both();
  run({1, 2, 3}, 5);
  EXPECT_GT(first.num_asked, 0);
  EXPECT_FALSE(untold);
}

TEST_F(DraftingTest, AllAreToldOfAllTokensAndOfTheEnd) {
  start_both();
  run({1, 2, 3}, 12);
  Tokens all = {1, 2, 3};
  const Tokens generated = expected(all, 12);
  all.insert(all.end(), generated.begin(), generated.end());
  for (const ScriptedProposer* proposer : {&first, &second}) {
    EXPECT_TRUE(proposer->known.empty());  // no step follows the last request
    ASSERT_EQ(proposer->ended.size(), 1u);
    EXPECT_EQ(proposer->ended.begin()->second, all);
    EXPECT_EQ(proposer->whole_history_len.size(), 1u);
  }
}

TEST_F(DraftingTest, WhenOneFailsTheNextIsAskedInTheSameStep) {
  first.propose_status = [] { return MORTISE_UNAVAILABLE; };
  start_both();
  const Usage usage = run({1, 2, 3}, 20);
  EXPECT_EQ(usage.accepted_tokens, usage.draft_tokens);
  EXPECT_GT(usage.draft_tokens, 0);
  EXPECT_EQ(engine->stats().num_proposer_failures, static_cast<std::uint64_t>(first.num_asked));
}

TEST_F(DraftingTest, ARequestChoosesItsProposer) {
  start_both();
  run({1, 2, 3}, 12, {.proposer = "second"});
  EXPECT_EQ(first.num_asked, 0);
  EXPECT_TRUE(first.ended.empty());  // it was not even told
  EXPECT_GT(second.num_asked, 0);
  run({1, 2, 3}, 12, {.proposer = "first"});
  EXPECT_GT(first.num_asked, 0);
  EXPECT_EQ(second.ended.size(), 1u);
}

TEST_F(DraftingTest, ARequestChoosesNone) {
  start_both();
  EXPECT_EQ(run({1, 2, 3}, 12, {.proposer = "none"}).draft_tokens, 0);
  EXPECT_EQ(run({1, 2, 3}, 12, {.max_tokens = 0}).draft_tokens, 0);
  EXPECT_EQ(first.num_asked + second.num_asked, 0);
}

TEST_F(DraftingTest, ARequestBoundsItsDrafts) {
  start_both();
  run({1, 2, 3}, 12, {.proposer = "second", .max_tokens = 1});
  EXPECT_EQ(second.most_asked, 1);
  run({1, 2, 3}, 12, {.proposer = "second", .max_tokens = 1000});  // as many as the proposer has
  EXPECT_EQ(second.most_asked, 3);
}

TEST_F(DraftingTest, AnUnknownProposerIsRefusedWithTheNames) {
  start_both();
  EXPECT_EQ(refusal({.proposer = "secnd"}),
            "speculation.proposer is 'secnd', which this pipeline does not have; did you mean 'second'? it has: first, "
            "second, none");
  EXPECT_EQ(refusal({.max_tokens = -1}), "speculation.max_tokens is -1; it must be at least 0");
  engine.reset();
  world.reset();
  start();  // no proposer
  EXPECT_EQ(refusal({.proposer = "ngram"}),
            "speculation.proposer is 'ngram', which this pipeline does not have; it has: none");
  EXPECT_EQ(refusal({.proposer = "none"}), "");
}

TEST_F(DraftingTest, AfterAFailedObserveTheWholeHistoryIsToldAgain) {
  int call = 0;
  first.observe_status = [&] { return ++call % 3 == 0 ? MORTISE_UNAVAILABLE : MORTISE_OK; };
  second.draft = nothing;
  start_both();
  run({1, 2, 3}, 24);
  EXPECT_GT(first.whole_history_len.size(), 2u);
  EXPECT_GT(first.whole_history_len.back(), first.whole_history_len.front());
  EXPECT_GT(engine->stats().num_proposer_failures, 0u);
}

TEST_F(DraftingTest, AnEndThatAFailedObserveMissedIsToldAgain) {
  bool fails = false;
  std::size_t num_ends = 0;  // told while it works
  first.observe_status = [&] { return fails ? MORTISE_UNAVAILABLE : MORTISE_OK; };
  start_both();
  run({1, 2, 3}, 6);
  EXPECT_EQ(first.ended.size(), 1u);
  fails = true;
  run({1, 2, 4}, 6);
  run({1, 2, 5}, 6);
  first.ended.clear();
  fails = false;
  run({1, 2, 6}, 6);
  num_ends = first.ended.size();
  EXPECT_EQ(num_ends, 3u);  // 1: those of the two requests before are lost, and so is what is kept of them
}

}  // namespace
}  // namespace mortise::test
