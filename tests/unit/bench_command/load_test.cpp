#include "bench_command/load.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace mortise::bench {
namespace {

constexpr std::int32_t kVocab = 1000;

TEST(BenchLoad, RequestsHaveTheAskedShapesAndNeverEndEarly) {
  const auto requests = make_requests({{5, 7, 0}, {1, 2, 0}}, kVocab, 1);
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0].prompt.size(), 5u);
  EXPECT_EQ(requests[0].sampling.max_tokens, 7);
  EXPECT_EQ(requests[1].prompt.size(), 1u);
  for (const Request& request : requests) {
    EXPECT_TRUE(request.sampling.ignore_eos);
    EXPECT_EQ(request.sampling.temperature, 0);
    for (const std::int32_t token : request.prompt) EXPECT_TRUE(token >= 0 && token < kVocab);
  }
}

TEST(BenchLoad, TheSameSeedMakesTheSamePromptsAndAnotherNone) {
  const std::vector<SequenceShape> shapes(4, SequenceShape{32, 1, 0});
  const auto once = make_requests(shapes, kVocab, 1), again = make_requests(shapes, kVocab, 1),
             other = make_requests(shapes, kVocab, 2);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    EXPECT_EQ(once[i].prompt, again[i].prompt);
    EXPECT_NE(once[i].prompt.front(), other[i].prompt.front());  // equal: the prefix cache could answer
  }
}

TEST(BenchLoad, MembersOfAGroupShareTheirBeginningAndNothingElse) {
  const PrefixGroupLoad load{3, 4, 20, 5, 2};
  const auto requests = make_group_requests(load, kVocab, 1);
  ASSERT_EQ(requests.size(), 12u);
  std::map<std::vector<std::int32_t>, int> members;
  for (const Request& request : requests) {
    ASSERT_EQ(request.prompt.size(), 25u);
    ++members[{request.prompt.begin(), request.prompt.begin() + 20}];
  }
  EXPECT_EQ(members.size(), 3u);
  for (const auto& [prefix, count] : members) EXPECT_EQ(count, 4);
  const auto prefix_of = [](const Request& r) { return std::vector(r.prompt.begin(), r.prompt.begin() + 20); };
  EXPECT_FALSE(prefix_of(requests[0]) == prefix_of(requests[1]) && prefix_of(requests[1]) == prefix_of(requests[2]) &&
               prefix_of(requests[2]) == prefix_of(requests[3]));  // true: not shuffled
}

TEST(BenchLoad, OneOfAGroupComputesWhatTheOthersFind) {
  const auto shapes = group_shapes({2, 3, 20, 5, 4});
  ASSERT_EQ(shapes.size(), 6u);
  EXPECT_EQ(std::count_if(shapes.begin(), shapes.end(), [](auto& s) { return s.cached == 0; }), 2);
  EXPECT_EQ(std::count_if(shapes.begin(), shapes.end(), [](auto& s) { return s.cached == 20; }), 4);
  for (const SequenceShape& s : shapes) EXPECT_TRUE(s.prompt == 25 && s.output == 4);
}

TEST(BenchLoad, OneGroupMayBeLargerThanTheOthers) {
  const PrefixGroupLoad load{2, 3, 20, 5, 4, /*largest=*/7};
  EXPECT_EQ(group_shapes(load).size(), 13u);
  std::map<std::int32_t, int> members;
  for (const Request& request : make_group_requests(load, kVocab, 1)) ++members[request.prompt.front()];
  std::vector<int> counts;
  for (const auto& [token, count] : members) counts.push_back(count);
  std::sort(counts.begin(), counts.end());
  EXPECT_EQ(counts, (std::vector<int>{3, 3, 7}));
  EXPECT_EQ(load.num_different(), 3 * 20 + 13 * 5);
}

TEST(BenchLoad, MixedLengthsReachFromTheLeastToTheMost) {
  const auto shapes = mixed_shapes(2000, 64, 12, 1);
  const auto [shortest, longest] =
      std::minmax_element(shapes.begin(), shapes.end(), [](auto& a, auto& b) { return a.prompt < b.prompt; });
  EXPECT_EQ(shortest->prompt, 16);
  EXPECT_EQ(longest->prompt, 64);
  const auto [least, most] =
      std::minmax_element(shapes.begin(), shapes.end(), [](auto& a, auto& b) { return a.output < b.output; });
  EXPECT_EQ(least->output, 8);
  EXPECT_EQ(most->output, 12);
  for (const SequenceShape& s : mixed_shapes(5, 3, 1, 1)) EXPECT_TRUE(s.prompt == 3 && s.output == 1);
}

}  // namespace
}  // namespace mortise::bench
