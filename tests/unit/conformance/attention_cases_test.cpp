// Each deliberately broken attention is caught by the case that should catch it.
// Covers: runtime/conformance/{attention_draws,attention_output_cases,attention_reference,attention_scene}
// Covers: runtime/conformance/{attention_shape,own_attention,scene_sequences}
#include <gmock/gmock.h>

#include "broken_plugins.hpp"
#include "variables.hpp"

namespace mortise::conformance {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Attention, InAnInstance,
    testing::Values(
        Broken{"broken_attention", "throws", "attention.one_token", "an exception crossed the C ABI"},
        Broken{"broken_attention", "one_id", "attention.layout", "have one id, 'one for all'"},
        Broken{"broken_attention", "takes_any_memory", "attention.bad_bind", "bind accepts memory that is smaller"},
        Broken{"broken_attention", "one_bit", "attention.one_token", "is not that of attention-span256/1"},
        Broken{"broken_attention", "writes_past_out", "attention.one_token", "after the end of out is overwritten"},
        Broken{"broken_attention", "changes_v", "attention.one_token", "append changes v"},
        Broken{"broken_attention", "keeps_batch", "attention.chunks", "crashes with SEGV"},
        Broken{"broken_attention", "wrong_in_f32", "attention.f32", "f32"},
        Broken{"broken_attention", "wrong_groups", "attention.grouped_heads", "8 heads of 64, 1 KV heads"},
        Broken{"broken_attention", "wrong_head_size", "attention.head_sizes", "heads of 80"},
        Broken{"broken_attention", "ignores_interleaved", "attention.rope", "has the bits"},
        Broken{"broken_attention", "ignores_norms", "attention.norms", "has the bits"},
        Broken{"broken_attention", "ignores_windows", "attention.windows", "sliding windows"},
        Broken{"broken_attention", "mixes_layers", "attention.layers", "layer"},
        Broken{"broken_attention", "depends_on_batch", "attention.batch", "when other sequences are in its step"},
        Broken{"broken_attention", "depends_on_order", "attention.order", "with the order of the sequences"},
        Broken{"broken_attention", "depends_on_chunks", "attention.chunks", "computed in chunks"},
        Broken{"broken_attention", "decodes_otherwise", "attention.decode", "when it is decoded alone"},
        Broken{"broken_attention", "mixes_badly", "attention.mixed", "when its step decodes and prefills"},
        Broken{"broken_attention", "writes_for_padding", "attention.padding", "with the padding of its step"},
        Broken{"broken_attention", "reads_bounds", "attention.buckets", "are upper bounds"},
        Broken{"broken_attention", "needs_dense_rows", "attention.strides", "when q, k and v are strided"},
        Broken{"broken_attention", "alternates", "attention.repeated", "when its step is repeated"},
        Broken{"broken_attention", "depends_on_blocks", "attention.blocks", "with the numbers of its blocks"},
        Broken{"broken_attention", "depends_on_block_size", "attention.block_size", "with the size of the blocks"},
        Broken{"broken_attention", "writes_other_slots", "attention.keeps_cache", "has in the cache"},
        Broken{"broken_attention", "reads_stale", "attention.stale", "that an ended sequence left in a block"},
        Broken{"broken_attention", "reads_later_rows", "attention.causal", "in a later row of the batch"},
        Broken{"broken_attention", "copies_half", "attention.copies", "on copies of its blocks"},
        Broken{"broken_attention", "owns_blocks", "attention.shared_blocks", "has the bits"},
        Broken{"broken_attention", "depends_on_runs", "attention.draft_runs", "when each draft is a run of its own"},
        Broken{"broken_attention", "false_multi_query", "attention.multi_query", "are verified in one step"},
        Broken{"broken_attention", "false_cascade", "attention.cascade", "when its step names prefix groups"},
        Broken{"broken_attention", "keeps_state", "attention.same_layout", "another instance with this layout_id"},
        Broken{"broken_attention", "clears_cache", "attention.reactivated", "after deactivate and activate"},
        Broken{"broken_attention", "allocates_in_step", "attention.allocates", "allocate is called in a step"},
        Broken{"broken_attention", "leaks_device_memory", "attention.device_memory", "not freed by destroy"}),
    name_of);

// Outputs of a class that the suite does not know are compared in double, also where a step has some rows of a
// sequence.
TEST(AnAttentionOfAnotherClass, IsComparedInDouble) {
  test::set_variable("MORTISE_PLUGIN_PATH", MORTISE_BINARY_DIR);
  const std::vector<std::string> cases = {"attention.several_spans", "attention.layers", "attention.shared_blocks"};
  const auto sound = run("broken_attention", {{"defect", "none"}}, cases, std::chrono::seconds(60), "another_class");
  EXPECT_EQ(sound.size(), cases.size());
  EXPECT_EQ(text_of(sound, Outcome::kFailed) + text_of(sound, Outcome::kNotApplicable), "");
  const auto broken =
      run("broken_attention", {{"defect", "mixes_layers"}}, {cases[1]}, std::chrono::seconds(60), "another_class");
  ASSERT_EQ(broken.size(), 1u);
  EXPECT_THAT(broken[0].result.text, testing::HasSubstr("in double"));
}

}  // namespace
}  // namespace mortise::conformance
