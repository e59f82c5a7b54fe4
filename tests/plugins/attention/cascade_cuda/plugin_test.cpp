// cascade through its ABI: with groups the bits are those without, which are paged's; graphs; what is refused.
// Covers: plugins/attention/span_cuda/{attention,component,share,step}
#include <gmock/gmock.h>

#include <random>

#include "fixture.hpp"

namespace mortise::test {
namespace {

using testing::HasSubstr;

// A tree of prefixes: 1 and 2 share 1024 tokens with 0, 3 shares 512, 4 shares 1536 with 2, 5 nothing.
struct Branch {
  int32_t from, tokens;
};
constexpr Branch kTree[] = {{-1, 0}, {0, 1024}, {0, 1024}, {0, 512}, {2, 1536}, {-1, 0}, {0, 64}, {4, 1792}};
constexpr int32_t kOwn[] = {1600, 300, 700, 40, 350, 900, 1200, 33};  // tokens after the prefix

void make_tree(Attention& attention, AbiRows& rows) {
  for (int32_t seq = 0; seq < 8; ++seq) {
    const Branch& branch = kTree[seq];
    if (branch.from >= 0) attention.share(branch.from, seq, branch.tokens);
    // All but the last 30 tokens at once.
    attention.step({{seq, kOwn[seq] - 30}}, rows);
  }
}

// The last tokens of all sequences, a few at a time.
std::vector<std::vector<Piece>> steps(uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<int32_t> left(8, 30);
  std::vector<std::vector<Piece>> all;
  while (std::any_of(left.begin(), left.end(), [](int32_t n) { return n > 0; })) {
    std::vector<Piece>& pieces = all.emplace_back();
    int32_t rows = 0;
    for (int32_t seq = 0; seq < 8; ++seq) {
      int32_t& mine = left[static_cast<std::size_t>(seq)];
      const int32_t count = std::min({mine, static_cast<int32_t>(rng() % 5), 24 - rows});
      if (count > 0) pieces.push_back({seq, count});
      mine -= count;
      rows += count;
    }
    std::shuffle(pieces.begin(), pieces.end(), rng);
    if (pieces.empty()) all.pop_back();
  }
  return all;
}

// Rows that differ, as texts.
std::vector<std::string> differences(const AbiRows& expected, const AbiRows& actual) {
  std::vector<std::string> all;
  for (const auto& [key, row] : expected) {
    const auto found = actual.find(key);
    if (key.seq < 0 || (found != actual.end() && found->second == row)) continue;
    all.push_back("sequence " + std::to_string(key.seq) + ", position " + std::to_string(key.position) + ", layer " +
                  std::to_string(key.layer));
    if (all.size() > 5) break;
  }
  return all;
}

AbiRows without_groups(AbiConfig config, uint32_t seed) {
  config.groups = false;
  Attention attention(config);
  AbiRows rows;
  make_tree(attention, rows);
  for (const auto& pieces : steps(seed)) attention.step(pieces, rows);
  return rows;
}

class CascadeCuda : public testing::TestWithParam<AbiConfig> {
 protected:
  void SetUp() override { MORTISE_NEEDS_GPU(); }
};

TEST_P(CascadeCuda, GroupsChangeNoBit) {
  for (const uint32_t seed : {3u, 4u}) {
    AbiRows rows;
    Attention attention(GetParam());
    make_tree(attention, rows);
    for (const auto& pieces : steps(seed)) attention.step(pieces, rows);
    EXPECT_EQ(differences(without_groups(GetParam(), seed), rows), std::vector<std::string>{}) << "seed " << seed;
  }
}

// The graph is captured with the first step's groups, and serves all later ones.
TEST_P(CascadeCuda, ReplayedGraphsServeWhateverGroupsThereAre) {
  const AbiRows expected = without_groups(GetParam(), 7);
  for (const Attention::Bucket how : {Attention::Bucket::kEager, Attention::Bucket::kGraph}) {
    AbiRows rows;
    Attention attention(GetParam());
    make_tree(attention, rows);
    const auto all = steps(7);
    attention.bucket_step(all.front(), Attention::Bucket::kEager, rows);  // kernels that load lazily are loaded now
    for (std::size_t i = 1; i < all.size(); ++i) attention.bucket_step(all[i], how, rows);
    EXPECT_EQ(differences(expected, rows), std::vector<std::string>{});
  }
}

AbiConfig plain() {
  AbiConfig config;
  config.groups = true;
  return config;
}
AbiConfig windowed() {
  AbiConfig config = plain();
  config.num_layers = 3;
  config.windows = {0, 200, 900};
  config.head_dim = 128;
  config.block_size = 64;
  config.num_blocks = 200;
  return config;
}
AbiConfig wide() {
  AbiConfig config = plain();
  config.num_heads = 20;  // in two pieces for a tile of 16 rows
  config.num_kv_heads = 1;
  config.num_layers = 1;
  config.head_dim = 128;
  return config;
}
AbiConfig heads_of(int32_t head_dim) {
  AbiConfig config = plain();
  config.num_layers = 1;
  config.num_heads = 4;
  config.head_dim = head_dim;
  return config;
}
AbiConfig int8() {
  AbiConfig config = plain();
  config.kv_dtype = MORTISE_I8;
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
  return info.param.num_heads == 20 ? "wide" : info.param.windows.empty() ? "plain" : "windows";
}
INSTANTIATE_TEST_SUITE_P(Models, CascadeCuda,
                         testing::Values(plain(), windowed(), wide(), heads_of(96), heads_of(192), int8(), fp8()),
                         model_name);

TEST(CascadeCudaComponent, SwapsWithPaged) {
  const mortise_component& component = *attention_component();
  EXPECT_STREQ(component.name, "cascade");
  EXPECT_STREQ(component.numerics_id, "cuda-span128/2");
  EXPECT_NE(component.capabilities & MORTISE_CAP_CASCADE, 0u);
  EXPECT_NE(component.capabilities & MORTISE_CAP_CAPTURE, 0u);
  auto dims = sized<mortise_model_dims>();
  dims.num_layers = 2, dims.num_heads = 8, dims.num_kv_heads = 2, dims.head_dim = 64, dims.dtype = MORTISE_BF16;
  auto layout = sized<mortise_kv_layout>();
  mortise_error error = make_error();
  const auto& table = *static_cast<const mortise_attention_table*>(component.table);
  ASSERT_EQ(table.kv_layout(nullptr, &dims, MORTISE_BF16, 32, &layout, &error), MORTISE_OK) << error.message;
  EXPECT_STREQ(layout.layout_id, "paged-cuda-bf16/1 s128 b32 l2 h2 d64");
}

TEST(CascadeCudaErrors, GroupsThatAreNoneAreNamed) {
  MORTISE_NEEDS_GPU();
  Attention attention(plain());
  std::vector<int32_t> starts = {0, 1, 2, 3}, lengths = {33, 33, 33}, positions = {32, 32, 32};
  std::vector<int32_t> blocks = {1, 2, 3, 1, 2, 4, 1, 5, 6};
  std::vector<int64_t> slots = {48, 64, 96};
  auto batch = sized<mortise_batch>();
  batch.num_seqs = batch.num_tokens = 3;
  batch.block_size = 16;
  batch.max_blocks = 3;
  batch.cu_seqlens_q = starts.data();
  batch.seq_lens = lengths.data();
  batch.positions = positions.data();
  batch.block_table = blocks.data();
  batch.slot_mapping = slots.data();
  std::vector<int32_t> offsets = {0, 3, 5}, seqs = {0, 1, 2, 0, 1}, tokens = {16, 32}, parents = {-1, 0};
  batch.num_groups = 2;
  batch.group_offsets = offsets.data();
  batch.group_seqs = seqs.data();
  batch.group_shared_tokens = tokens.data();
  mortise_error error = make_error();
  const auto text = [&] {
    EXPECT_EQ(attention.plan(batch, &error), MORTISE_INVALID_ARGUMENT);
    return std::string(error.message);
  };
  EXPECT_THAT(text(), HasSubstr("prefix groups: an array is missing"));
  batch.group_parents = parents.data();
  ASSERT_EQ(attention.plan(batch, &error), MORTISE_OK) << error.message;
  parents[0] = 1;
  EXPECT_THAT(text(), HasSubstr("prefix group 0: its parent does not come before it"));
  parents[0] = -1;
  seqs[4] = 2;
  EXPECT_THAT(text(), HasSubstr("group 1: run 2 does not share its blocks with run 0"));
  seqs[4] = 7;
  EXPECT_THAT(text(), HasSubstr("group 1: run 7 is not in the batch"));
  seqs[4] = 0;
  EXPECT_THAT(text(), HasSubstr("group 1: run 0 is not in the parent group, or is also in a sibling group"));
  seqs[4] = 1;
  tokens[1] = 24;
  EXPECT_THAT(text(), HasSubstr("group 1: its shared tokens must be whole blocks, and more than its parent's"));
  tokens[1] = 48;
  EXPECT_THAT(text(), HasSubstr("group 1: run 0 has a row that does not see all shared tokens"));
  tokens[1] = 32;
  offsets[2] = 2;
  EXPECT_THAT(text(), HasSubstr("group 1: group_offsets do not ascend"));
}

}  // namespace
}  // namespace mortise::test
