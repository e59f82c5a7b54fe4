#include "published.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <utility>

namespace mortise {
namespace {

TEST(Published, AReaderKeepsTheValueThatItLoaded) {
  Published<int> published(std::make_shared<const int>(1));
  const std::shared_ptr<const int> first = published.load();
  published.store(std::make_shared<const int>(2));
  EXPECT_EQ(*first, 1);
  EXPECT_EQ(*published.load(), 2);
  EXPECT_EQ(first.use_count(), 1);  // more: the old value lives on although nobody reads it
}

// With a torn read the two halves differ; ThreadSanitizer sees a race of any kind.
TEST(Published, ReadersSeeWholeValuesInTheOrderOfTheirStores) {
  using Pair = std::pair<int, int>;
  constexpr int kLast = 2000;
  Published<Pair> published(std::make_shared<const Pair>(0, 0));
  std::thread writer([&] {
    for (int i = 1; i <= kLast; ++i) published.store(std::make_shared<const Pair>(i, i));
  });
  bool whole = true, ordered = true;
  for (int seen = 0; seen < kLast;) {
    const std::shared_ptr<const Pair> pair = published.load();
    whole = whole && pair->first == pair->second;
    ordered = ordered && pair->first >= seen;
    seen = pair->first;
  }
  writer.join();
  EXPECT_TRUE(whole);
  EXPECT_TRUE(ordered);
}

}  // namespace
}  // namespace mortise
