// The goldens of tests/golden/models open, and are what README.md there promises to the parity test.
#include "golden/golden_model.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "checkpoint/checkpoint.hpp"
#include "folder_test.hpp"

namespace mortise::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

class Golden : public ::testing::TestWithParam<std::string> {};

const TensorView& embedding_of(const Checkpoint& checkpoint) {
  for (const auto& [name, view] : checkpoint.tensors()) {
    if (name.ends_with("embed_tokens.weight") || name.ends_with("wte.weight")) return view;
  }
  throw std::runtime_error("no embedding");
}

TEST_P(Golden, OpensAndHoldsWhatTheReadmePromises) {
  const GoldenModel golden = read_golden_model(GetParam());
  const Checkpoint checkpoint = Checkpoint::open(golden.folder);
  EXPECT_EQ(checkpoint.config().vocab_size, golden.vocab_size);
  const auto is_one_of = [](const std::set<std::string>& names) { return names.count(GetParam()) > 0; };
  const bool f16 = is_one_of({"llama_f16", "llama_gqa8", "opt", "gpt2_variant"});
  EXPECT_EQ(checkpoint.config().dtype, f16 ? "float16" : "float32");
  const bool sharded = is_one_of({"llama_linear", "llama_gqa8", "gpt2_variant"});
  EXPECT_EQ(std::filesystem::exists(golden.folder / "model.safetensors.index.json"), sharded);
  EXPECT_EQ(embedding_of(checkpoint).shape.at(0), golden.vocab_size);
  EXPECT_THAT(checkpoint.generation_config().eos_token_ids, ElementsAre(2));

  EXPECT_GE(golden.prompt.size(), 40u);
  const auto config = nlohmann::json::parse(checkpoint.config().json);
  const char* const positions = golden.plugin == "gpt2" ? "n_positions" : "max_position_embeddings";
  EXPECT_LT(golden.prompt.size() + golden.greedy.size(), config.at(positions).get<std::size_t>());
  EXPECT_TRUE(std::is_sorted(golden.positions.begin(), golden.positions.end()));
  EXPECT_EQ(golden.positions.back(), static_cast<std::int64_t>(golden.prompt.size()) - 1);
  EXPECT_EQ(golden.logits.size(), golden.positions.size() * golden.vocab_size);
  EXPECT_EQ(golden.logits_bf16.size(), golden.logits.size());
  EXPECT_EQ(golden.greedy.size(), 64u);
  EXPECT_EQ(golden.greedy_logprobs.size(), 64u);
  EXPECT_THAT(golden.greedy, Not(Contains(2)));

  const auto last = golden.logits.end() - golden.vocab_size;
  EXPECT_EQ(std::max_element(last, golden.logits.end()) - last, golden.greedy.front());
}

TEST(Goldens, AreEighteen) {
  EXPECT_EQ(golden_model_names().size(), 18u);  // fewer: a folder is missing, and parity says less than it did
}

INSTANTIATE_TEST_SUITE_P(Models, Golden, ::testing::ValuesIn(golden_model_names()),
                         [](const auto& info) { return info.param; });

class Bf16Copy : public FolderTest {
 protected:
  void write_model(const TensorToWrite& tensor) const {
    std::filesystem::create_directory(folder_ / "from");
    std::filesystem::create_directory(folder_ / "to");
    write("from/config.json", R"({"model_type":"llama","torch_dtype":"float32"})");
    write("from/generation_config.json", "{}");
    write("from/model.safetensors", safetensors_bytes({tensor}));
  }
  std::vector<std::uint16_t> copied() const {
    write_bf16_copy(folder_ / "from", folder_ / "to");
    const Checkpoint copy = Checkpoint::open(folder_ / "to");
    EXPECT_EQ(copy.config().dtype, "bfloat16");
    const TensorView& view = *copy.find("w");
    EXPECT_EQ(view.dtype, Dtype::kBf16);
    std::vector<std::uint16_t> out(view.bytes.size() / 2);
    std::memcpy(out.data(), view.bytes.data(), view.bytes.size());
    return out;
  }
};

TEST_F(Bf16Copy, RoundsF32ToNearestTiesToEven) {
  const float values[] = {1.0f, 1.0f + 0x1p-8f, 1.0f + 0x1.8p-7f, 1.0f + 0x1.02p-8f, -0.1f, 0.0f};
  write_model({"w", "F32", {6}, {reinterpret_cast<const char*>(values), sizeof values}});
  EXPECT_THAT(copied(), ElementsAre(0x3f80, 0x3f80, 0x3f82, 0x3f81, 0xbdcd, 0));
}

TEST_F(Bf16Copy, WidensF16First) {
  const std::uint16_t values[] = {0x3c00, 0xbc00, 0x0001, 0x3555, 0x7bff};  // 1, -1, 2^-24, 0.333, 65504
  write_model({"w", "F16", {5}, {reinterpret_cast<const char*>(values), sizeof values}});
  EXPECT_THAT(copied(), ElementsAre(0x3f80, 0xbf80, 0x3380, 0x3eab, 0x4780));
}

}  // namespace
}  // namespace mortise::test
