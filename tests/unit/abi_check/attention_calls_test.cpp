// Covers: runtime/abi_check/{attention_state,step_rules}
#include "fake_world.hpp"

namespace mortise::attention_calls_test {
namespace {

using namespace fake;

TEST_F(CheckedStep, ASoundStepIsLeftAlone) {
  begin();
  EXPECT_EQ(plan(), "");
  EXPECT_EQ(forward(), "");
  const std::int32_t from[] = {1, 2}, to[] = {3, 4};
  EXPECT_EQ(failure_of(attention, "copy_blocks",
                       [&](mortise_error* error) {
                         return step.attention_table->copy_blocks(step.attention, nullptr, from, to, 2, error);
                       }),
            "");
}

TEST_F(CheckedStep, ALayoutHasAnId) {
  const auto layout = [&] {
    mortise_kv_layout made{};
    made.struct_size = sizeof made;
    return failure_of(attention, "kv_layout", [&](mortise_error* error) {
      return step.attention_table->kv_layout(step.attention, &target, MORTISE_F32, 4, &made, error);
    });
  };
  EXPECT_EQ(layout(), "");
  world.kv_layout = [](mortise_kv_layout* made) { made->bytes_per_block = 64; };
  EXPECT_THAT(layout(),
              HasSubstr("breaks mortise/attention.h, \"instances with equal ids can read each other's blocks\": the "
                        "layout_id is empty"));
}

TEST_F(CheckedStep, ALayoutsIdHasAnEnd) {
  world.kv_layout = [](mortise_kv_layout* made) { std::memset(made->layout_id, 'x', sizeof made->layout_id); };
  mortise_kv_layout made{};
  made.struct_size = sizeof made;
  EXPECT_THAT(failure_of(attention, "kv_layout",
                         [&](mortise_error* error) {
                           return step.attention_table->kv_layout(step.attention, &target, MORTISE_F32, 4, &made,
                                                                  error);
                         }),
              HasSubstr("\"NUL-terminated\": the layout_id has no end"));
}

TEST_F(CheckedStep, ALayoutKeepsItsSize) {
  world.kv_layout = [](mortise_kv_layout* made) { made->struct_size = 8; };
  mortise_kv_layout made{};
  made.struct_size = sizeof made;
  EXPECT_THAT(failure_of(attention, "kv_layout",
                         [&](mortise_error* error) {
                           return step.attention_table->kv_layout(step.attention, &target, MORTISE_F32, 4, &made,
                                                                  error);
                         }),
              HasSubstr("\"the struct_size that the caller set\": kv_layout changes it to 8"));
}

TEST_F(CheckedStep, AttentionIsBoundOnce) {
  ASSERT_EQ(bind(), "");
  EXPECT_THAT(bind(),
              HasSubstr("the host breaks mortise/attention.h, \"once, before activate\": bind is called twice"));
}

TEST_F(CheckedStep, AttentionIsBoundToMemory) {
  kv.clear();
  EXPECT_THAT(bind(),
              HasSubstr("the host breaks mortise/attention.h, \"device memory of num_blocks * bytes_per_block\": 32 "
                        "blocks of 4 tokens in 0 bytes"));
}

TEST_F(CheckedStep, TheBatchIsReadOnly) {
  begin();
  world.attention_plan = [](const mortise_step* shown, mortise_error*) {
    const_cast<std::int32_t*>(shown->batch->seq_lens)[0] = 4;
    return kOk;
  };
  EXPECT_THAT(plan(), HasSubstr("breaks mortise/abi.h, \"Data behind `const` is read-only\": plan changes seq_lens"));
}

TEST_F(CheckedStep, AModelAppendsBeforeItRuns) {
  begin();
  ASSERT_EQ(plan(), "");
  world.forward = [](const mortise_step* shown, mortise_tensor*, mortise_error* error) { return run(shown, 1, error); };
  EXPECT_THAT(forward(),
              HasSubstr("model 'fake' (fake.so): forward: breaks mortise/attention.h, \"The model calls it for each "
                        "layer before `run`\": run of layer 1 comes without append"));
}

TEST_F(CheckedStep, AModelThatIgnoresAFailureFailsToo) {
  begin();
  ASSERT_EQ(plan(), "");
  world.forward = [](const mortise_step* shown, mortise_tensor* hidden, mortise_error* error) {
    append(shown, 5, error);
    return sound_forward(shown, hidden, error);
  };
  EXPECT_THAT(forward(),
              HasSubstr("forward: breaks mortise/attention.h, \"The model calls it for each layer\": layer 5 of 2"));
}

TEST_F(CheckedStep, AnAttentionIsNamedWhereAModelCallsIt) {
  begin();
  ASSERT_EQ(plan(), "");
  world.append = [](const mortise_append_args* args) { const_cast<mortise_append_args*>(args)->layer = 1; };
  EXPECT_THAT(forward(),
              HasSubstr("model 'fake' (fake.so): forward: append: attention 'fake' (fake.so) breaks mortise/abi.h, "
                        "\"Data behind `const` is read-only\": append changes args"));
}

TEST_F(CheckedStep, ATensorHasTheShapeOfTheStep) {
  begin();
  ASSERT_EQ(plan(), "");
  world.forward = [](const mortise_step* shown, mortise_tensor*, mortise_error* error) {
    return append(shown, 0, error, 2);
  };
  EXPECT_THAT(forward(),
              HasSubstr("breaks mortise/tensor.h, \"accessible bytes, starting at data\": q has shape[0] = 2, and 3 "
                        "is needed"));
}

TEST_F(CheckedStep, AStepIsPlannedFirst) {
  begin();
  EXPECT_THAT(
      failure_of(attention, "run", [&](mortise_error* error) { return run(&step, 0, error); }),
      HasSubstr("the host breaks mortise/attention.h, \"Called once per step, before the forward pass or its replay\": "
                "run comes without a plan of this step"));
}

TEST_F(CheckedStep, BlocksAreCopiedToOthers) {
  begin();
  const std::int32_t from[] = {1, 2}, to[] = {3, 1};
  EXPECT_THAT(
      failure_of(attention, "copy_blocks",
                 [&](mortise_error* error) {
                   return step.attention_table->copy_blocks(step.attention, nullptr, from, to, 2, error);
                 }),
      HasSubstr("the host breaks mortise/attention.h, \"have no block in common\": block 1 is written twice, or read"));
}

TEST_F(CheckedStep, BlocksThatAreCopiedExist) {
  begin();
  const std::int32_t from[] = {1}, to[] = {32};
  EXPECT_THAT(failure_of(attention, "copy_blocks",
                         [&](mortise_error* error) {
                           return step.attention_table->copy_blocks(step.attention, nullptr, from, to, 1, error);
                         }),
              HasSubstr("\"Copies block from[i] to block to[i]\": block 1 to block 32 of 32"));
}

// A batch that breaks one rule of mortise/batch.h.
class MistakeInBatch : public CheckedStep {
 protected:
  void expect(const char* rule, const char* header = "mortise/batch.h") {
    EXPECT_THAT(plan(), AllOf(HasSubstr(fmt::format("the host breaks {}", header)), HasSubstr(rule)));
  }
};

#define MISTAKE(Name, change, ...) \
  TEST_F(MistakeInBatch, Name) {   \
    begin();                       \
    change;                        \
    expect(__VA_ARGS__);           \
  }
MISTAKE(TooManyRuns, batch.num_seqs = 5, "5 runs, and max_num_seqs is 4", "mortise/plugin.h")
MISTAKE(TooManyRows, batch.num_tokens = 65, "65 rows, and max_batched_tokens is 64", "mortise/plugin.h")
MISTAKE(MoreRealRows, batch.num_real_tokens = 4, "4 of 3 rows")
MISTAKE(MoreLogitRows, batch.num_logit_rows = 4, "4 of 3 rows")
MISTAKE(AnotherBlockSize, batch.block_size = 8, "block_size is 8, and 4 was bound")
MISTAKE(NoArray, batch.device_slot_mapping = nullptr, "slot_mapping is NULL")
MISTAKE(FirstOffset, cu[0] = 1, "cu_seqlens_q goes from 1 to 3 with 3 rows")
MISTAKE(LastOffset, cu[2] = 2, "cu_seqlens_q goes from 0 to 2 with 3 rows")
MISTAKE(DescendingOffsets, cu[1] = 4, "cu_seqlens_q descends after run 1")
MISTAKE(EmptyRun, cu[1] = 0, "run 0 has no row")
MISTAKE(RealRowsOfRealRuns, batch.num_real_seqs = 1, "the 1 real runs have 2 rows, and num_real_tokens is 3")
MISTAKE(LogitRowsDescend, logit_rows[1] = 0, "logit_rows[1] is 0")
MISTAKE(LogitRowOutOfRange, logit_rows[1] = 3, "logit_rows[1] is 3")
MISTAKE(LongerRunThanItSays, batch.max_query_len = 1, "run 0 has 2 rows and 5 tokens; the bounds are 1 and 5")
MISTAKE(Length, lengths[0] = 4, "seq_lens[0] is 4, and the last position is 4")
MISTAKE(BlockOutOfRange, blocks[1] = 32, "block_table[0][1] is 32, and there are 32 blocks")
MISTAKE(PositionsAscendByOne, (positions[0] = 2, slots[0] = 18), "positions[1] is 4")
MISTAKE(Slot, slots[1] = 25, "slot_mapping[1] is 25, and the block table says 24")
MISTAKE(SlotTwice, (blocks[2] = 4, positions[2] = 3, lengths[1] = 4, slots[2] = 19),
        "row 2 and another one have the slot 19")
MISTAKE(NegativeToken, tokens[2] = -1, "token_ids[2] is -1")
MISTAKE(PaddingWithLength, (batch.num_real_seqs = 1, batch.num_real_tokens = 2), "seq_lens[1] of padding is 1")
MISTAKE(PaddingWithToken, (batch.num_real_seqs = 1, batch.num_real_tokens = 2, lengths[1] = 0),
        "row 2 has token 3, position 0 and slot 36")

// Prefix groups: both runs share block 4.
class MistakeInGroups : public MistakeInBatch {
 protected:
  MistakeInGroups() {
    blocks = {4, 6, 4, 9};
    positions = {4, 5, 4};
    lengths = {6, 5};
    slots = {24, 25, 36};
    batch.max_seq_len = 6;
    batch.num_groups = 1;
    batch.group_offsets = offsets.data();
    batch.group_seqs = members.data();
    batch.group_shared_tokens = shared.data();
    batch.group_parents = parents.data();
  }
  std::array<std::int32_t, 2> offsets = {0, 2}, members = {0, 1};
  std::array<std::int32_t, 1> shared = {4}, parents = {-1};
};
TEST_F(MistakeInGroups, SoundOnesAreLeftAlone) {
  begin();
  EXPECT_EQ(plan(), "");
}
#define GROUP_MISTAKE(Name, change, ...) \
  TEST_F(MistakeInGroups, Name) {        \
    begin();                             \
    change;                              \
    expect(__VA_ARGS__);                 \
  }
GROUP_MISTAKE(OneMember, offsets[1] = 1, "\"A group has at least two members\": group 0 has 1")
GROUP_MISTAKE(HalfABlock, shared[0] = 2, "\"whole blocks\": group 0 shares 2 tokens")
GROUP_MISTAKE(Parent, parents[0] = 0, "group_parents[0] is 0")
GROUP_MISTAKE(MemberTwice, members[1] = 0, "\"members, ascending and without repetition\"")
GROUP_MISTAKE(OtherBlocks, (blocks[2] = 5), "\"up to there the block tables of its members are equal\"")
GROUP_MISTAKE(RowInsideThePrefix, (positions[2] = 2, lengths[1] = 3, slots[2] = 18),
              "\"Each row of a member has position group_shared_tokens[g] - 1 or above\"")

}  // namespace
}  // namespace mortise::attention_calls_test
