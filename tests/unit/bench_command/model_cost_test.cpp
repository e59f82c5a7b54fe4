#include "bench_command/model_cost.hpp"

#include <gtest/gtest.h>

#include <string>

#include "checkpoint/gguf/types.hpp"
#include "golden/write_gguf.hpp"
#include "temp_folder.hpp"

namespace mortise::bench {
namespace {

constexpr double kNoKv = 0;

// Matrices of one layer, [64, 64] and [256, 64], a norm, an embedding of 100 rows, and a head of its own or a tied one.
Checkpoint small(bool tied) {
  TensorMap tensors;
  const auto add = [&](const char* name, std::vector<std::int64_t> shape) {
    tensors[name] = {.dtype = Dtype::kBf16, .dtype_name = "BF16", .shape = std::move(shape), .bytes = {}};
  };
  add("model.embed_tokens.weight", {100, 64});
  add("model.layers.0.self_attn.q_proj.weight", {64, 64});
  add("model.layers.0.mlp.up_proj.weight", {256, 64});
  add("model.layers.0.mlp.up_proj.bias", {256});
  add("model.norm.weight", {64});
  if (!tied) add("lm_head.weight", {100, 64});
  return Checkpoint::from_memory("small", {}, std::move(tensors), nullptr);
}

mortise_model_dims dims_of(std::int32_t dtype, std::int32_t bits, std::int32_t group_size) {
  mortise_model_dims dims{};
  dims.num_layers = 2;
  dims.num_heads = 3;
  dims.head_dim = 16;
  dims.vocab_size = 100;
  dims.hidden_size = 64;
  dims.dtype = dtype;
  dims.weight_bits = bits;
  dims.weight_group_size = group_size;
  return dims;
}

TEST(BenchModelCost, MatricesCountAndATiedEmbeddingOnce) {
  for (const bool tied : {false, true}) {
    const ModelCost cost = model_cost(small(tied), dims_of(MORTISE_BF16, 0, 0), 7);
    EXPECT_EQ(cost.body_elements, 64 * 64 + 256 * 64);
    EXPECT_EQ(cost.head_elements, 100 * 64) << tied;
    EXPECT_EQ(cost.weight_bytes, 2 * (64 * 64 + 256 * 64 + 100 * 64)) << tied;
    EXPECT_EQ(cost.kv_bytes, 7);
    EXPECT_EQ(cost.attention_width, 3 * 16);
    EXPECT_EQ(cost.windows, (std::vector<std::int32_t>{0, 0}));
  }
  EXPECT_EQ(model_cost(small(true), dims_of(MORTISE_F32, 0, 0), kNoKv).weight_bytes, 4 * (320 * 64 + 100 * 64));
}

TEST(BenchModelCost, IntegersMadeAtLoadHaveScalesAndZeroPointsAndAHeadOf8Bits) {
  const double head = 100 * 64 + 100 * 5;
  EXPECT_EQ(model_cost(small(false), dims_of(MORTISE_BF16, 8, 0), kNoKv).weight_bytes, 320 * 64 + 320 * 5 + head);
  EXPECT_EQ(model_cost(small(false), dims_of(MORTISE_BF16, 4, 32), kNoKv).weight_bytes, 320 * 32 + 320 * 2 * 5 + head);
  EXPECT_EQ(model_cost(small(true), dims_of(MORTISE_BF16, 4, 48), kNoKv).weight_bytes,  // the last group is shorter
            320 * 32 + 320 * 2 * 5 + head);
}

TEST(BenchModelCost, SlidingWindowsAreThoseOfTheModel) {
  mortise_model_dims dims = dims_of(MORTISE_BF16, 0, 0);
  const std::int32_t windows[] = {0, 32};
  dims.sliding_windows = windows;
  EXPECT_EQ(model_cost(small(true), dims, kNoKv).windows, (std::vector<std::int32_t>{0, 32}));
}

// One matrix in each layout, [N, K] with groups of G; there is no head, so the tied one of bf16 counts.
struct Layout {
  const char* folder;
  double n, k, bits, groups;
};
class BenchModelCostOfLayout : public testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Layouts, BenchModelCostOfLayout,
                         testing::Values(Layout{"awq", 40, 128, 4, 2}, Layout{"gptq4_row", 16, 72, 4, 1},
                                         Layout{"gptq4_sym", 24, 128, 4, 4}, Layout{"pack4_group", 23, 128, 4, 4},
                                         Layout{"int8_channel", 17, 65, 8, 1}),
                         [](const auto& info) { return std::string(info.param.folder); });

TEST_P(BenchModelCostOfLayout, AQuantizedCheckpointCountsAsItsOwnIntegers) {
  const Layout layout = GetParam();
  const auto checkpoint =
      Checkpoint::open(std::string(MORTISE_SOURCE_DIR) + "/tests/golden/quantized/" + layout.folder);
  const ModelCost cost =
      model_cost(checkpoint, dims_of(MORTISE_BF16, static_cast<std::int32_t>(layout.bits), 64), kNoKv);
  EXPECT_EQ(cost.body_elements, layout.n * layout.k);
  // 6900 instead: the head was counted as integers, but a quantised checkpoint's head stays float.
  const double head = 2 * 100 * 64;
  EXPECT_EQ(cost.weight_bytes, layout.n * layout.k * layout.bits / 8 + layout.n * layout.groups * 5 + head);
}

// Blocks of GGUF files count with the scales and minima of their type.
TEST(BenchModelCost, BlocksOfAGgufFileCountAsTheyAreKept) {
  const auto cost_of = [](GgufType type, const char* which, std::int32_t weight_bits) {
    const GgufTypeInfo& info = info_of(type);
    test::GgufWriter writer =
        test::gguf_of_checkpoint(std::string(MORTISE_SOURCE_DIR) + "/tests/golden/models/llama_tied");
    writer.retype(which, static_cast<std::uint32_t>(type), info.block_elements, info.block_bytes);
    const test::TempFolder folder;
    mortise_model_dims dims = dims_of(MORTISE_BF16, weight_bits, 32);
    dims.vocab_size = 160;
    dims.weight_type = MORTISE_I8_BLOCK32;
    return model_cost(Checkpoint::open(folder.write("x.gguf", writer.bytes())), dims, kNoKv);
  };
  // Columns of down_proj are no whole block, so that it stays floats.
  const double mlp = 3 * 2 * 56 * 64, attention = 3 * 4 * 64 * 64, head = 160 * 64;
  const ModelCost floats = cost_of(GgufType::kQ8_0, "ffn_", 0);  // as with weights = "float"
  const auto with_mlp = [&](double bits) { return floats.weight_bytes + mlp * (bits / 8 - 2); };
  EXPECT_EQ(cost_of(GgufType::kQ8_0, "ffn_", 8).weight_bytes, with_mlp(8.5));
  EXPECT_EQ(cost_of(GgufType::kQ4_0, "ffn_", 4).weight_bytes, with_mlp(4.5));
  EXPECT_EQ(cost_of(GgufType::kQ4_1, "ffn_", 4).weight_bytes, with_mlp(5));
  // A tied embedding counts as the head that it is kept as.
  EXPECT_EQ(cost_of(GgufType::kQ8_0, "", 8).weight_bytes,
            floats.weight_bytes + (mlp + attention + head) * (8.5 / 8 - 2));
}

}  // namespace
}  // namespace mortise::bench
