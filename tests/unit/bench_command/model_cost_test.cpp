#include "bench_command/model_cost.hpp"

#include <fmt/format.h>
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

// A rank of 2, of the `small` model with a configuration. Its dims have the heads of a rank.
ModelCost rank_cost(const std::string& config, std::int32_t num_ranks, TensorMap more = {}) {
  TensorMap tensors = small(/*tied=*/false).tensors();
  tensors.merge(more);
  ModelConfig model;
  model.json = config;
  mortise_model_dims dims = dims_of(MORTISE_BF16, 0, 0);
  dims.num_kv_heads = 1;
  return model_cost(Checkpoint::from_memory("small", model, std::move(tensors), nullptr), dims, 7, num_ranks);
}

TEST(BenchModelCost, ARankHasItsColumnsAndTheLargestPartOfTheVocabulary) {
  const ModelCost cost = rank_cost(R"({"intermediate_size": 256})", 2);
  EXPECT_EQ(cost.body_elements, 320 * 64 / 2);
  EXPECT_EQ(cost.head_elements, 64 * 64);  // of 100 tokens the first rank has 64, the second 36
  EXPECT_EQ(cost.weight_bytes, 2 * (320 * 64 / 2 + 64 * 64));
  EXPECT_EQ(cost.kv_bytes, 7);
  EXPECT_EQ(cost.attention_width, 3 * 16);
}

TEST(BenchModelCost, ARankExchangesHalfOfEachRowInEveryLayer) {
  // A rank of 2 receives half of the columns, in bf16: 2 layers, hidden size 64, 6 heads of 16.
  const std::vector<Exchanges> expected = {{1 + 2 * 2, 64}, {2, 6 * 16}, {2, 256}};
  for (const char* key : {"intermediate_size", "ffn_dim", "n_inner"}) {
    EXPECT_EQ(rank_cost(fmt::format(R"({{"{}": 256}})", key), 2).exchanges, expected) << key;
  }
  EXPECT_EQ(rank_cost(R"({"n_inner": null})", 2).exchanges, expected);  // four times the hidden size
  EXPECT_EQ(rank_cost("{}", 2).head_exchange_bytes, 4 * 100 / 2);       // logits are f32
  EXPECT_EQ(rank_cost("{}", 4).head_exchange_bytes, 4 * 100 * 3 / 4);
  EXPECT_EQ(rank_cost("{}", 1).exchanges, std::vector<Exchanges>{});
  EXPECT_EQ(rank_cost("{}", 1).head_exchange_bytes, 0);
}

// 52 KiB for each row of an 8B model, less a rank's own share, as docs/operations.md says.
TEST(BenchModelCost, AnExchangedRowOfEightBillionParametersIsTheKnownOne) {
  ModelConfig model;
  model.json = R"({"intermediate_size": 14336})";
  mortise_model_dims dims = dims_of(MORTISE_BF16, 0, 0);
  dims.num_layers = 1, dims.hidden_size = 4096, dims.num_heads = 16, dims.head_dim = 128;
  const ModelCost cost = model_cost(Checkpoint::from_memory("8b", model, {}, nullptr), dims, kNoKv, 2);
  double layer = -cost.exchanges.front().row_bytes;  // the embedding's is no layer's
  for (const Exchanges& e : cost.exchanges) layer += e.count * e.row_bytes;
  EXPECT_EQ(layer, 53248.0 / 2);
}

TEST(BenchModelCost, RanksThatShareAKvHeadHaveItsProductsTwice) {
  TensorMap more;
  for (const char* name : {"model.layers.0.self_attn.k_proj.weight", "model.layers.0.self_attn.v_proj.weight"}) {
    more[name] = {.dtype = Dtype::kBf16, .dtype_name = "BF16", .shape = {2 * 16, 64}, .bytes = {}};  // two KV heads
  }
  EXPECT_EQ(rank_cost("{}", 2, more).body_elements, 320 * 64 / 2 + 2 * 16 * 64);
  EXPECT_EQ(rank_cost("{}", 4, more).body_elements,
            320 * 64 / 4 + 2 * 16 * 64);  // 320 * 64 / 4 + 2 * 8 * 64: cut too far
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
