// The plugin as the host sees it: through its entry.
#include "proposer_instance.hpp"

namespace mortise::ngram {
namespace {

using test::ProposerInstance;
using test::Tokens;

constexpr const char* kOptions = R"({"min_match": 2, "max_match": 3, "max_tokens": 4})";

TEST(Ngram, MinMatchAboveMaxMatchIsRefused) {
  ProposerInstance proposer(R"({"min_match": 5, "max_match": 4, "max_tokens": 4})");
  EXPECT_EQ(proposer.status, MORTISE_INVALID_ARGUMENT);
  EXPECT_STREQ(proposer.error.message, "min_match is 5 and max_match is 4; min_match must not be above max_match");
}

TEST(Ngram, DraftsForEachSequenceOnItsOwn) {
  ProposerInstance proposer(kOptions);
  ASSERT_EQ(proposer.observe(7, 0, {1, 2, 3, 4, 1, 2}), MORTISE_OK);
  ASSERT_EQ(proposer.observe(9, 0, {1, 2, 5, 6, 7}), MORTISE_OK);
  ASSERT_EQ(proposer.observe(9, 5, {1, 2}), MORTISE_OK);
  // Never more than asked for, nor than max_tokens.
  EXPECT_EQ(proposer.propose({7, 9, 7}, {6, 7, 6}, {2, 9, 1}), (std::vector<Tokens>{{3, 4}, {5, 6, 7, 1}, {3}}));
}

TEST(Ngram, ASequenceThatItHasNotFollowedHasNoDraft) {
  ProposerInstance proposer(kOptions);
  ASSERT_EQ(proposer.observe(7, 0, {1, 1, 1, 1}), MORTISE_OK);
  EXPECT_EQ(proposer.propose({8, 7}, {4, 5}, {3, 3}), (std::vector<Tokens>{{}, {}}));
}

TEST(Ngram, AWholeHistoryTakesThePlaceOfWhatWasKept) {
  ProposerInstance proposer(kOptions);
  ASSERT_EQ(proposer.observe(7, 0, {1, 2, 3, 1, 2}), MORTISE_OK);
  ASSERT_EQ(proposer.observe(7, 0, {1, 2, 4, 1, 2}), MORTISE_OK);
  EXPECT_EQ(proposer.propose({7}, {5}, {1}), (std::vector<Tokens>{{4}}));  // 3: the old tokens are still there
}

TEST(Ngram, AGapIsAnErrorAndAWholeHistoryMendsIt) {
  ProposerInstance proposer(kOptions);
  ASSERT_EQ(proposer.observe(7, 0, {1, 2, 3}), MORTISE_OK);
  EXPECT_EQ(proposer.observe(7, 5, {1, 2}), MORTISE_INTERNAL);
  EXPECT_STREQ(proposer.error.message,
               "sequence 7 continues at position 5, which does not follow the tokens that the proposer knows");
  EXPECT_EQ(proposer.propose({7}, {3}, {1}), (std::vector<Tokens>{{}}));
  ASSERT_EQ(proposer.observe(7, 0, {1, 2, 3, 1, 2}), MORTISE_OK);
  EXPECT_EQ(proposer.propose({7}, {5}, {1}), (std::vector<Tokens>{{3}}));
}

TEST(Ngram, EndedSequencesAreDropped) {
  ProposerInstance proposer(kOptions);
  ASSERT_EQ(proposer.observe(7, 0, {1, 1, 1}), MORTISE_OK);
  ASSERT_EQ(proposer.observe(8, 0, {1, 1, 1}, {7}), MORTISE_OK);
  EXPECT_EQ(proposer.propose({7, 8}, {3, 3}, {1, 1}), (std::vector<Tokens>{{}, {1}}));
  EXPECT_EQ(proposer.num_sequences(), 1u);
  ASSERT_EQ(proposer.end({8, 99}), MORTISE_OK);  // one that it never heard of is no error
  EXPECT_EQ(proposer.num_sequences(), 0u);
  EXPECT_EQ(proposer.propose({8}, {3}, {1}), (std::vector<Tokens>{{}}));
}

}  // namespace
}  // namespace mortise::ngram
