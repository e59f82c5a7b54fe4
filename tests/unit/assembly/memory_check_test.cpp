#include "assembly/memory_check.hpp"

#include <gtest/gtest.h>

#include "test_support.hpp"

namespace mortise {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

PipelineDescription with_cache(bool prefix_cache) {
  PipelineDescription description;
  description.where = "chat.lua:6";
  description.kv_cache.prefix_cache = prefix_cache;
  description.kv_cache.most_blocks = INT32_MAX;
  description.block_size = 16;
  description.max_num_seqs = 4;
  return description;
}

TEST(CheckMemory, ToTheLastByteItFits) {
  const PipelineDescription description = with_cache(true);
  check_memory(description, 6 * kGiB, 2 * kGiB, 8 * kGiB, "device 'cpu'");
  EXPECT_EQ(test::error_of([&] { check_memory(description, 6 * kGiB + 1, 2 * kGiB, 8 * kGiB, "device 'cpu'"); }),
            "chat.lua:6: 6.0 GiB of KV cache and 2.0 GiB of weights do not fit the 8.0 GiB of memory of device 'cpu'; "
            "lower kv_cache.memory");
}

TEST(CheckMemory, SumsThatDoNotFit64BitsAreRefused) {
  const PipelineDescription description = with_cache(true);
  EXPECT_NE(test::error_of([&] { check_memory(description, ~std::uint64_t{0}, 2, 8 * kGiB, "x"); }), "");
  EXPECT_NE(test::error_of([&] { check_memory(description, 2, ~std::uint64_t{0}, 8 * kGiB, "x"); }), "");
}

TEST(UsefulBlocks, ThePrefixCacheTakesAllThatThereIsMemoryFor) {
  PipelineDescription description = with_cache(true);
  EXPECT_EQ(useful_blocks(description, 100, 1000), 1000);
  EXPECT_EQ(useful_blocks(description, 100, 0), 0);
  EXPECT_EQ(useful_blocks(description, 100, std::uint64_t{1} << 40), INT32_MAX - 1);
  description.kv_cache.most_blocks = 30;
  EXPECT_EQ(useful_blocks(description, 100, 1000), 30);
}

TEST(UsefulBlocks, WithoutItAllSequencesAtTheirFullLengthAreEnough) {
  const PipelineDescription description = with_cache(false);
  EXPECT_EQ(useful_blocks(description, 96, 1000), 4 * 6);
  EXPECT_EQ(useful_blocks(description, 97, 1000), 4 * 7);
  EXPECT_EQ(useful_blocks(description, 97, 20), 20);
}

}  // namespace
}  // namespace mortise
