// What cascade says of itself, and which prefix groups it refuses: a host that lies gets no wrong rows.
// Covers: plugins/attention/span_cpu/{attention,component}
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "fixture.hpp"
#include "sequences.hpp"

namespace mortise::test {
namespace {

using span_cpu::kCascade;
using span_cpu::kPaged;
using testing::HasSubstr;

TEST(CascadeContract, ItIsPagedButForThePrefixes) {
  EXPECT_STREQ(kCascade.name, "cascade");
  EXPECT_EQ(kCascade.capabilities, kPaged.capabilities | MORTISE_CAP_CASCADE);
  EXPECT_STREQ(kCascade.numerics_id, kPaged.numerics_id);
  EXPECT_STREQ(kCascade.options_schema, kPaged.options_schema);
  auto dims = sized<mortise_model_dims>();
  dims.num_layers = 2;
  dims.num_heads = 8;
  dims.num_kv_heads = 2;
  dims.head_dim = 64;
  dims.dtype = MORTISE_BF16;
  Config config;
  std::string ids[2];
  for (const bool cascade : {false, true}) {
    config.component = cascade ? &kCascade : &kPaged;
    const Attention attention(config);
    auto layout = sized<mortise_kv_layout>();
    mortise_error error = make_error();
    ASSERT_EQ(attention.table().kv_layout(attention.instance(), &dims, MORTISE_I8, 32, &layout, &error), MORTISE_OK);
    ids[cascade] = layout.layout_id;
  }
  EXPECT_EQ(ids[0], ids[1]);
}

TEST(CascadeContract, RefusalsBearItsName) {
  auto query = sized<mortise_query>();
  query.device = "cpu";
  query.block_size = 24;
  mortise_error error = make_error();
  EXPECT_EQ(kCascade.supports(&query, &error), MORTISE_UNIMPLEMENTED);
  EXPECT_THAT(error.message, HasSubstr("block_size is 24"));
  query.block_size = 16;
  query.device = "cuda";
  EXPECT_EQ(kCascade.supports(&query, &error), MORTISE_UNIMPLEMENTED);
  EXPECT_THAT(error.message, HasSubstr("this file is for the device cpu, not for cuda"));
}

// Four runs of which all share 32 tokens, and the last two 64.
class CascadeGroups : public testing::Test {
 protected:
  CascadeGroups() : sequences_({{1, 40}}) {
    sequences_.add(2, 50, 0, 32);
    sequences_.add(1, 80, 0, 32);
    sequences_.add(3, 90, 2, 64);
    config_.component = &kCascade;
  }

  // What the plan says of these groups; empty: it takes them.
  std::string fault(const std::function<void(Groups&, mortise_batch&)>& change) {
    mortise_batch batch = sequences_.batch();
    batch.step_id = 1;
    std::vector<int64_t> slots;
    for (int32_t row = 0; row < batch.num_tokens; ++row) {
      const int32_t seq = sequences_.sequence_of(row), position = sequences_.positions[static_cast<std::size_t>(row)];
      slots.push_back(int64_t{batch.block_table[seq * batch.max_blocks + position / 16]} * 16 + position % 16);
    }
    batch.slot_mapping = slots.data();
    change(sequences_.groups, batch);
    Attention attention(config_);
    mortise_error error = make_error();
    return attention.plan(batch, &error) == MORTISE_OK ? "" : error.message;
  }

  Sequences sequences_;
  Config config_;
};

TEST_F(CascadeGroups, TrueOnesAreTaken) {
  EXPECT_EQ(fault([](Groups& groups, mortise_batch&) {
              EXPECT_EQ(groups.shared, (std::vector<int32_t>{32, 64}));
              EXPECT_EQ(groups.members, (std::vector<int32_t>{0, 1, 2, 3, 2, 3}));
              EXPECT_EQ(groups.parents, (std::vector<int32_t>{-1, 0}));
            }),
            "");
}

TEST_F(CascadeGroups, LiesAreRefused) {
  const auto says = [&](const char* text, const std::function<void(Groups&)>& lie) {
    EXPECT_THAT(fault([&](Groups& groups, mortise_batch&) { lie(groups); }), HasSubstr(text));
  };
  says("group 0: run 4 is not in the batch", [](Groups& g) { g.members[3] = 4; });
  says("group 0: run -1 is not in the batch", [](Groups& g) { g.members[0] = -1; });
  says("group 0: its shared tokens must be whole blocks", [](Groups& g) { g.shared[0] = 30; });
  says("group 0: its shared tokens must be whole blocks, and more than its parent's",
       [](Groups& g) { g.shared[0] = 0; });
  says("group 1: its shared tokens must be whole blocks, and more than its parent's",
       [](Groups& g) { g.shared[1] = 32; });
  says("group 0: run 0 has a row that does not see all shared tokens", [](Groups& g) { g.shared[0] = 48; });
  says("group 1: run 2 has a row that does not see all shared tokens", [](Groups& g) { g.shared[1] = 1 << 30; });
  says("group 1: run 3 does not share its blocks with run 2", [](Groups& g) { g.shared[1] = 80; });
  says("group 1: its parent does not come before it", [](Groups& g) { g.parents[1] = 1; });
  says("group 1: its parent does not come before it", [](Groups& g) { g.parents[1] = -2; });
  says("group 1: run 2 is not in the parent group, or is also in a sibling group",
       [](Groups& g) { g.parents[1] = -1; });
  says("group 0: run 0 is not in the parent group, or is also in a sibling group", [](Groups& g) { g.members[1] = 0; });
  says("group_offsets do not ascend", [](Groups& g) { g.offsets[2] = 3; });
  says("group_offsets do not ascend", [](Groups& g) { g.offsets[0] = -1; });
  EXPECT_THAT(fault([](Groups&, mortise_batch& batch) { batch.group_parents = nullptr; }),
              HasSubstr("prefix groups: an array is missing"));
  EXPECT_THAT(fault([](Groups&, mortise_batch& batch) { batch.num_groups = -1; }), HasSubstr("an array is missing"));
}

// Paged has no use for them and does not look.
TEST_F(CascadeGroups, PagedIgnoresThem) {
  config_.component = &kPaged;
  EXPECT_EQ(fault([](Groups& groups, mortise_batch&) { groups.members[3] = 99; }), "");
}

}  // namespace
}  // namespace mortise::test
