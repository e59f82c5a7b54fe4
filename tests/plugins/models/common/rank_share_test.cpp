// What one rank of several loads and computes of a model; that the whole is the same is for tests/property.
#include "models/common/rank_share.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mortise::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

RankShare share_of(int32_t rank, int32_t world, std::initializer_list<Divided> divided = {}) {
  auto args = sized<mortise_create_args>();
  args.rank = rank;
  args.world = world;
  return RankShare::of(args, divided);
}

template <typename Call>
std::string failure_of(Call call) {
  try {
    call();
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "";
}

TEST(RankShare, RowsAreDividedEvenly) {
  const RankShare share = share_of(2, 4, {{"hidden_size", 64}});
  EXPECT_EQ(share.share(64), 16);
  const CheckpointTensor rows = share.rows("o_proj", 64), within = share.rows_within("c_attn", 192, 64, 64);
  EXPECT_EQ(rows.first, 32);
  EXPECT_EQ(rows.num_loaded(), 16);
  EXPECT_EQ(rows.rows, 64);
  EXPECT_EQ(within.first, 64 + 32);
  EXPECT_EQ(within.num_loaded(), 16);
  EXPECT_EQ(within.rows, 192);
  EXPECT_THAT(failure_of([] {
                share_of(0, 4, {{"hidden_size", 64}, {"num_attention_heads", 6}});
              }),
              HasSubstr("4 ranks cannot divide num_attention_heads = 6 evenly"));
}

TEST(RankShare, TheVocabularyIsDividedInStepsOf64) {
  EXPECT_THAT(share_of(0, 1).vocab_bounds(1000), ElementsAre(0, 1000));
  EXPECT_THAT(share_of(0, 3).vocab_bounds(1000), ElementsAre(0, 320, 640, 1000));
  const CheckpointTensor last = share_of(2, 3).vocab_rows("lm_head.weight", 1000);
  EXPECT_EQ(last.first, 640);
  EXPECT_EQ(last.num_loaded(), 360);
  EXPECT_THAT(failure_of([] { share_of(0, 4).vocab_rows("lm_head.weight", 100); }),
              HasSubstr("4 ranks are too many for the 100 tokens of the vocabulary"));
}

TEST(RankShare, AStepOfAnotherRankIsRefused) {
  auto step = sized<mortise_step>();
  EXPECT_EQ(failure_of([&] { share_of(0, 1).check(step); }), "");  // a host that knows no ranks
  step.rank = 1;
  step.world = 2;
  EXPECT_THAT(failure_of([&] { share_of(0, 1).check(step); }), HasSubstr("it is of rank 1 of 2"));
  EXPECT_THAT(failure_of([&] { share_of(1, 2).check(step); }), HasSubstr("without a collective"));
  const mortise_collective_table table{};
  step.collective = &table;
  EXPECT_EQ(failure_of([&] { share_of(1, 2).check(step); }), "");
  EXPECT_THAT(failure_of([&] { share_of(0, 2).check(step); }), HasSubstr("created for rank 0 of 2"));
}

}  // namespace
}  // namespace mortise::models
