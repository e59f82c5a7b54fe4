// Covers: runtime/bench_command/speculation_work
#include "bench_command/speculation.hpp"

#include "bench_command/speculation_work.hpp"
#include "test_support.hpp"

namespace mortise::bench {
namespace {

using namespace test;
using testing::HasSubstr;

SpeculationRow example_row() {
  SpeculationRow row;
  row.work = "quoted text";
  row.proposer = "ngram";
  row.batch = 4;
  row.none = {{100, 101}, 100.5, 0, 1, {}};
  row.fixed = {{250, 255}, 252.5, 0.75, 4.5, {}};
  row.adaptive = {{260, 262}, 261, 0.875, 4.25, {}};
  row.fixed_speed = {2.5, std::nullopt};
  row.adaptive_speed = {2.6, Bound{2.5, 2.7}};
  row.adaptive_over_better = {1.03, Bound{1.01, 1.05}};
  return row;
}

TEST(BenchSpeculation, TheTableHasBothLengthsBesideNone) {
  EXPECT_EQ(
      speculation_table({example_row()}),
      "text, proposer, batch  none tokens/s  fixed, over none     adaptive, over none  adaptive, over the better  "
      "accepted  length  adaptive accepted  length\n"
      "quoted text, ngram, 4          100.5             2.500  2.600 (2.500 to 2.700)     1.030 (1.010 to 1.050)  "
      "  75.0 %    4.50             87.5 %  4.25\n");
}

TEST(BenchSpeculation, JsonHasTheSamplesAndTheBounds) {
  const auto json = speculation_json({example_row()}).at(0);
  EXPECT_EQ(json.at("proposer"), "ngram");
  EXPECT_EQ(json.at("fixed").at("samples"), nlohmann::json({250, 255}));
  EXPECT_EQ(json.at("fixed_over_none").at("bound"), nullptr);
  EXPECT_EQ(json.at("adaptive_over_better").at("bound"), nlohmann::json({1.01, 1.05}));
  EXPECT_EQ(json.at("adaptive").at("mean_acceptance_length"), 4.25);
}

TEST(BenchSpeculation, ItsTextsAreTheSameAtEachCallAndAllDifferent) {
  const Tokenizer tokenizer = Tokenizer::load(MORTISE_SOURCE_DIR "/models/demo");
  for (const auto& make : {+[](const Tokenizer& t) { return story_requests(t, 64, 9); },
                           +[](const Tokenizer& t) { return quote_requests(t, 64); },
                           +[](const Tokenizer&) { return novel_requests(4096, 64, 20, 9); }}) {
    std::set<std::vector<std::int32_t>> prompts;
    const std::vector<Request> requests = make(tokenizer), again = make(tokenizer);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(requests[i].prompt, again[i].prompt);
      prompts.insert(requests[i].prompt);
    }
    EXPECT_GT(prompts.size(), 40u);  // stories of the same hero may come twice
  }
}

}  // namespace
}  // namespace mortise::bench
