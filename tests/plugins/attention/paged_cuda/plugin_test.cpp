// The plugin through its ABI: any schedule of the same sequences gives the same bits; what is refused, and how.
// Covers: plugins/attention/span_cuda/{attention,component,step}
#include <gmock/gmock.h>

#include <random>

#include "fixture.hpp"

namespace mortise::test {
namespace {

using testing::HasSubstr;

// Rows that are in both and differ, as texts.
std::vector<std::string> differences(const AbiRows& expected, const AbiRows& actual) {
  std::vector<std::string> all;
  for (const auto& [key, row] : actual) {
    const auto found = expected.find(key);
    if (key.seq < 0 || (found != expected.end() && found->second == row)) continue;
    all.push_back("sequence " + std::to_string(key.seq) + ", position " + std::to_string(key.position) + ", layer " +
                  std::to_string(key.layer) + (found == expected.end() ? " is new" : " differs"));
    if (all.size() > 5) break;
  }
  return all;
}

AbiRows whole(const AbiConfig& config, const std::vector<int32_t>& lengths) {
  Attention attention(config);
  AbiRows rows;
  for (std::size_t i = 0; i < lengths.size(); ++i) attention.step({{static_cast<int32_t>(i), lengths[i]}}, rows);
  return rows;
}

class PagedCuda : public testing::TestWithParam<AbiConfig> {
 protected:
  void SetUp() override { MORTISE_NEEDS_GPU(); }
};

TEST_P(PagedCuda, NoScheduleChangesABit) {
  const std::vector<int32_t> lengths = {1, 40, 513, 1300, 2000};
  const AbiRows expected = whole(GetParam(), lengths);
  std::mt19937 rng(23);
  for (int round = 0; round < 3; ++round) {
    Attention attention(GetParam());
    AbiRows rows;
    for (bool left = true; left;) {
      left = false;
      std::vector<Piece> pieces;
      for (std::size_t i = 0; i < lengths.size(); ++i) {
        const auto seq = static_cast<int32_t>(i);
        const int32_t rest = lengths[i] - attention.length(seq);
        const int32_t count = std::min(rest, static_cast<int32_t>(rng() % (rng() % 2 == 0 ? 8 : 500)));
        if (count > 0) pieces.push_back({seq, count});
        left |= count < rest;
      }
      std::shuffle(pieces.begin(), pieces.end(), rng);
      if (!pieces.empty()) attention.step(pieces, rows);
      // Rejects drafts, whose K and V stay in the blocks.
      const auto seq = static_cast<int32_t>(rng() % lengths.size());
      if (left && attention.length(seq) > 8) attention.roll_back(seq, attention.length(seq) - 5);
    }
    EXPECT_EQ(differences(expected, rows), std::vector<std::string>{}) << "round " << round;
  }
}

TEST_P(PagedCuda, ReplayedGraphsGiveTheBitsOfEagerSteps) {
  const std::vector<int32_t> lengths = {30, 600, 1500, 200};
  const AbiRows expected = whole(GetParam(), lengths);
  for (const Attention::Bucket how : {Attention::Bucket::kEager, Attention::Bucket::kGraph}) {
    std::mt19937 rng(29);
    Attention attention(GetParam());
    AbiRows rows;
    attention.step({{0, 3}, {1, 550}, {2, 1300}, {3, 150}}, rows);
    attention.bucket_step({{0, 1}, {1, 1}}, Attention::Bucket::kEager, rows);  // what is lazily loaded comes now
    for (int step = 0; step < 12; ++step) {
      std::vector<Piece> pieces;
      for (std::size_t i = 0; i < lengths.size(); ++i) {
        const auto seq = static_cast<int32_t>(i);
        const int32_t count = std::min(lengths[i] - attention.length(seq), static_cast<int32_t>(rng() % 6));
        if (count > 0) pieces.push_back({seq, count});
      }
      std::shuffle(pieces.begin(), pieces.end(), rng);
      attention.bucket_step(pieces, how, rows);
      for (const auto& [key, row] : rows) {
        if (key.seq >= 0) continue;
        EXPECT_EQ(std::count(row.begin(), row.end(), 0), static_cast<std::ptrdiff_t>(row.size())) << "padding";
      }
    }
    EXPECT_EQ(differences(expected, rows), std::vector<std::string>{});
  }
}

TEST_P(PagedCuda, ACopiedSequenceGoesOnAsTheFirst) {
  const AbiRows expected = whole(GetParam(), {400});
  Attention attention(GetParam());
  AbiRows first, second;
  attention.step({{0, 333}}, first);
  attention.fork(0, 1);
  attention.step({{0, 67}}, first);
  attention.step({{1, 60}}, second);
  attention.step({{1, 7}}, second);
  EXPECT_EQ(differences(expected, first), std::vector<std::string>{});
  EXPECT_EQ(differences(expected, second), std::vector<std::string>{});
}

bool is_nan(const std::vector<uint16_t>& row) {
  return std::all_of(row.begin(), row.end(), [](uint16_t x) { return x == 0x7fc0; });
}

// A sequence whose V becomes NaN or infinite at some token: its rows before have the bits that they have without it,
// its later rows are NaN as far as they see the token, and neither its batch mates nor a sequence that gets its blocks
// afterwards change by a bit. In one prefill, in chunks, as decodes, and in replayed graphs.
TEST_P(PagedCuda, AValueThatIsNotFiniteReachesTheRowsThatSeeItAlone) {
  constexpr int32_t kBroken = 37, kLength = 150;
  const std::vector<int32_t> lengths = {400, kLength, 90, 150};
  const AbiRows expected = whole(GetParam(), lengths);
  for (const int32_t chunk : {150, 50, 38, 7, 1}) {
    Attention attention(GetParam());
    attention.break_token(1, kBroken);
    AbiRows rows, later;
    attention.step({{0, 390}}, rows);
    attention.bucket_step({{0, 1}}, Attention::Bucket::kEager, rows);  // what is lazily loaded comes now
    for (int32_t done = 0; done < kLength; done += chunk) {
      const Piece mine = {1, std::min(chunk, kLength - done)};
      const Piece mate = {2, std::min(lengths[2] - attention.length(2), 30)};
      std::vector<Piece> pieces = {mine};
      if (mate.count > 0) pieces.insert(pieces.begin() + chunk % 2, mate);
      mine.count == 1 && mate.count == 0 ? attention.bucket_step(pieces, Attention::Bucket::kGraph, rows)
                                         : attention.step(pieces, rows);
    }
    int32_t touched = 0;
    for (const auto& [key, row] : rows) {
      if (key.seq < 0) continue;
      const int32_t window = GetParam().windows.empty() ? 0 : GetParam().windows[static_cast<std::size_t>(key.layer)];
      const bool sees = key.seq == 1 && key.position >= kBroken && (window == 0 || kBroken > key.position - window);
      if (sees) {
        EXPECT_TRUE(is_nan(row)) << "position " << key.position << ", layer " << key.layer << ", chunks of " << chunk;
        ++touched;
      } else {
        ASSERT_EQ(row, expected.at(key)) << "sequence " << key.seq << ", position " << key.position << ", layer "
                                         << key.layer << ", chunks of " << chunk;
      }
    }
    EXPECT_GE(touched, 100);
    attention.end(1);
    attention.step({{3, 20}}, later);
    attention.step({{3, 1}, {0, 1}}, later);
    attention.step({{3, 129}}, later);
    EXPECT_EQ(differences(expected, later), std::vector<std::string>{}) << "chunks of " << chunk;
  }
}

AbiConfig windowed() {
  AbiConfig config;
  config.num_layers = 3;
  config.windows = {0, 200, 0};
  config.head_dim = 128;
  config.block_size = 64;
  config.num_blocks = 200;
  return config;
}
AbiConfig normed() {
  AbiConfig config;
  config.qk_norm = true;
  config.num_heads = 6;
  config.num_kv_heads = 1;
  config.num_layers = 1;
  return config;
}
AbiConfig heads_of(int32_t head_dim) {
  AbiConfig config;
  config.num_layers = 1;
  config.num_heads = 4;
  config.head_dim = head_dim;
  config.qk_norm = true;
  return config;
}
AbiConfig int8() {
  AbiConfig config;
  config.kv_dtype = MORTISE_I8;
  config.head_dim = 128;
  return config;
}
AbiConfig fp8() {
  AbiConfig config = int8();
  config.kv_dtype = MORTISE_F8_E4M3;
  return config;
}
std::string model_name(const testing::TestParamInfo<AbiConfig>& info) {
  if (info.param.kv_dtype == MORTISE_I8) return "int8";
  if (info.param.kv_dtype == MORTISE_F8_E4M3) return "fp8";
  if (info.param.num_heads == 4) return "heads" + std::to_string(info.param.head_dim);
  return info.param.qk_norm ? "norms" : info.param.windows.empty() ? "plain" : "windows";
}
INSTANTIATE_TEST_SUITE_P(Models, PagedCuda,
                         testing::Values(AbiConfig{}, windowed(), normed(), heads_of(80), heads_of(256), int8(), fp8()),
                         model_name);

// ---- what is refused; no GPU needed ----

mortise_model_dims dims() {
  auto d = sized<mortise_model_dims>();
  d.num_layers = 2;
  d.num_heads = 8;
  d.num_kv_heads = 2;
  d.head_dim = 64;
  d.dtype = MORTISE_BF16;
  d.attention_scale = 0.125f;
  return d;
}

std::string refusal(const char* device, const mortise_model_dims& d, int32_t kv_dtype, int32_t block_size) {
  auto query = sized<mortise_query>();
  query.device = device;
  query.dims = &d;
  query.kv_dtype = kv_dtype;
  query.block_size = block_size;
  mortise_error error = make_error();
  return attention_component()->supports(&query, &error) == MORTISE_OK ? "" : error.message;
}

TEST(PagedCudaSupports, SaysWhatItDoesNotServe) {
  EXPECT_EQ(refusal("cuda", dims(), MORTISE_BF16, 16), "");
  EXPECT_THAT(refusal("cpu", dims(), MORTISE_BF16, 16), HasSubstr("this file is for the device cuda, not for cpu"));
  EXPECT_EQ(refusal("cuda", dims(), MORTISE_I8, 16), "");
  EXPECT_THAT(refusal("cuda", dims(), MORTISE_F32, 16), HasSubstr("use \"auto\", \"bf16\", \"int8\" or \"fp8\""));
  EXPECT_THAT(refusal("cuda", dims(), MORTISE_BF16, 24), HasSubstr("block_size is 24; expected 16, 32, 64 or 128"));
  mortise_model_dims d = dims();
  d.head_dim = 48;
  EXPECT_THAT(refusal("cuda", d, MORTISE_BF16, 16),
              HasSubstr("head_dim 48 is not supported on cuda; supported are 32, 64, 80, 96, 128, 192, 256"));
  d = dims();
  d.dtype = MORTISE_F32;
  EXPECT_THAT(
      refusal("cuda", d, 0, 16),
      HasSubstr("the model computes in f32; attention on cuda supports bf16: set the model's dtype = \"bf16\""));
  d = dims();
  d.num_heads = 7;
  EXPECT_THAT(refusal("cuda", d, MORTISE_BF16, 16), HasSubstr("7 query heads cannot share 2 kv heads evenly"));
}

TEST(PagedCudaSupports, TheLayoutNamesWhatItDependsOn) {
  const auto& table = *static_cast<const mortise_attention_table*>(attention_component()->table);
  auto layout = sized<mortise_kv_layout>();
  mortise_error error = make_error();
  const mortise_model_dims d = dims();
  ASSERT_EQ(table.kv_layout(nullptr, &d, MORTISE_BF16, 32, &layout, &error), MORTISE_OK) << error.message;
  EXPECT_STREQ(layout.layout_id, "paged-cuda-bf16/1 s128 b32 l2 h2 d64");
  EXPECT_EQ(layout.bytes_per_block, 2u * 2 * 2 * 32 * 64 * 2);
  ASSERT_EQ(table.kv_layout(nullptr, &d, MORTISE_I8, 32, &layout, &error), MORTISE_OK) << error.message;
  EXPECT_STREQ(layout.layout_id, "paged-cuda-int8/1 s128 b32 l2 h2 d64");
  EXPECT_EQ(layout.bytes_per_block, 2u * 2 * 2 * 32 * (64 + 4));
  EXPECT_EQ(table.kv_layout(nullptr, &d, MORTISE_F32, 32, &layout, &error), MORTISE_UNIMPLEMENTED);
}

TEST(PagedCudaSupports, ADeviceWithoutPinnedMemoryIsRefused) {
  auto create = sized<mortise_create_args>();
  mortise_error error = make_error();
  void* instance = nullptr;
  EXPECT_EQ(attention_component()->create(nullptr, &create, &instance, &error), MORTISE_FAILED_PRECONDITION);
  EXPECT_THAT(error.message, HasSubstr("use the cuda device"));
}

TEST(PagedCudaErrors, BatchesThatDoNotFitAreNamed) {
  MORTISE_NEEDS_GPU();
  Attention attention(AbiConfig{});
  std::vector<int32_t> starts = {0, 1}, lengths = {1}, positions = {0}, blocks(4, 0);
  std::vector<int64_t> slots = {0};
  auto batch = sized<mortise_batch>();
  batch.num_seqs = batch.num_tokens = 1;
  batch.block_size = 16;
  batch.max_blocks = 4;
  batch.cu_seqlens_q = starts.data();
  batch.seq_lens = lengths.data();
  batch.positions = positions.data();
  batch.block_table = blocks.data();
  batch.slot_mapping = slots.data();
  mortise_error error = make_error();
  const auto text = [&] {
    EXPECT_EQ(attention.plan(batch, &error), MORTISE_INVALID_ARGUMENT);
    return std::string(error.message);
  };
  ASSERT_EQ(attention.plan(batch, &error), MORTISE_OK) << error.message;
  batch.block_size = 32;
  EXPECT_THAT(text(), HasSubstr("the batch has block_size 32, but the cache has 16"));
  batch.block_size = 16;
  blocks[0] = 600;
  EXPECT_THAT(text(), HasSubstr("sequence 0: block 600 is not in the pool"));
  blocks[0] = 0;
  slots[0] = 5;
  EXPECT_THAT(text(), HasSubstr("slot_mapping does not match block_table"));
  slots[0] = 0;
  lengths[0] = 100;
  EXPECT_THAT(text(), HasSubstr("block_table has too few entries for its seq_len"));
  batch.num_tokens = 5000;
  EXPECT_THAT(text(), HasSubstr("a batch of 5000 rows of 1 sequences; activated for 4096 of 32"));
}

}  // namespace
}  // namespace mortise::test
