#include "cli/repl/figures.hpp"

#include "test_support.hpp"

namespace mortise {
namespace {

using testing::HasSubstr;
using testing::Not;

Generation generation(std::size_t num_tokens, double first_token_s, double total_s) {
  Generation generation;
  generation.tokens.resize(num_tokens);
  generation.first_token_s = first_token_s;
  generation.total_s = total_s;
  return generation;
}

EngineStats engine_stats() {
  EngineStats stats;
  stats.num_blocks = 100;
  stats.num_free_blocks = 50;
  stats.num_cached_free_blocks = 20;
  stats.num_admitted_tokens = 300;
  stats.num_cached_tokens = 200;
  stats.num_preemptions = 2;
  return stats;
}

EngineLimits limits() {
  EngineLimits limits;
  limits.block_size = 16;
  return limits;
}

TEST(Figures, BeforeTheFirstAnswer) {
  EXPECT_THAT(Figures().text(engine_stats(), limits()), HasSubstr("no answers yet\n"));
}

TEST(Figures, OfTheLastAnswerAndOfAll) {
  Figures figures;
  figures.add(generation(11, 0.010, 1.010));      // 10 tokens in 1 s after the first
  figures.add(generation(31, 0.030, 3.030 - 2));  // 30 in 1 s
  const std::string text = figures.text(engine_stats(), limits());
  EXPECT_THAT(text, HasSubstr("last answer  31 tokens, 30.0 tokens/s, first token after 30.0 ms\n"));
  EXPECT_THAT(text, HasSubstr("2 answers    42 tokens, 20.0 tokens/s, first token after 20.0 ms on average\n"));
  EXPECT_THAT(text, HasSubstr("KV blocks    30 used, 20 cached, 50 free, of 100 with 16 tokens each\n"));
  EXPECT_THAT(text, HasSubstr("prompts      300 tokens, 200 of them from the cache\n"));
  EXPECT_THAT(text, HasSubstr("preemptions  2\n"));
}

TEST(Figures, AnAnswerWithoutATokenHasNoSpeed) {
  Figures figures;
  figures.add(generation(0, 0, 0.5));
  EXPECT_THAT(figures.text(engine_stats(), limits()), HasSubstr("no answers yet"));
}

TEST(Figures, DraftsAreToldWhenThereAreAny) {
  Figures figures;
  EngineStats stats = engine_stats();
  EXPECT_THAT(figures.text(stats, limits()), Not(HasSubstr("drafts")));
  stats.num_drafts = 30;
  stats.num_accepted = 10;
  stats.speculation.proposers.emplace_back().name = "ngram";
  stats.speculation.proposers[0].add(3, 1);
  const std::string text = figures.text(stats, limits());
  EXPECT_THAT(text, HasSubstr("drafts       10 of 30 accepted (33.3 %)\n"));
  EXPECT_THAT(text,
              HasSubstr("ngram: 1 of 3 drafts accepted (33.3 %; by position 100 0 0 %), mean acceptance length 2.00"));
  EXPECT_THAT(text, HasSubstr("preemptions  2\n"));
}

TEST(Figures, AcceptanceByPositionIsDrawn) {
  ProposerStats stats;
  stats.name = "ngram";
  EXPECT_EQ(acceptance_bars(stats), "");
  stats.add(2, 1);
  stats.add(2, 2);
  stats.add(1, 0);
  EXPECT_EQ(acceptance_bars(stats),
            "  position  1  ████████████████████░░░░░░░░░░   66.7 %  2 of 3\n"
            "  position  2  ███████████████░░░░░░░░░░░░░░░   50.0 %  1 of 2\n");
}

}  // namespace
}  // namespace mortise
