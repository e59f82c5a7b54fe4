// Each deliberately broken model is caught by the case that should catch it.
// Covers: runtime/conformance/{model_load_cases,model_scene}
#include "broken_plugins.hpp"

namespace mortise::conformance {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Model, InAnInstance,
    testing::Values(
        Broken{"broken_model", "throws", "model.hidden", "an exception crossed the C ABI"},
        Broken{"broken_model", "no_scale", "model.dims", "attention_scale is nan"},
        Broken{"broken_model", "changes_dims", "model.dims_stable", "dims after load and activate are"},
        Broken{"broken_model", "ignores_size_of_dims", "model.older_dims", "crashes with SEGV"},
        Broken{"broken_model", "takes_any_config", "model.configurations", "create and dims accept the configuration"},
        Broken{"broken_model", "ignores_missing", "model.missing_tensor", "load accepts a checkpoint without"},
        Broken{"broken_model", "names_nothing", "model.missing_tensor", "does not name it"},
        Broken{"broken_model", "wrong_status", "model.missing_tensor", "must be refused with DATA_LOSS"},
        Broken{"broken_model", "ignores_shapes", "model.wrong_shape", "load accepts a checkpoint with too few rows"},
        Broken{"broken_model", "leaks_after_failure", "model.failed_load", "destroy leaves 1 allocations"},
        Broken{"broken_model", "keeps_reader", "model.reader", "crashes with SEGV"},
        Broken{"broken_model", "wrong_shape", "model.hidden", "expected [1, 48]"},
        Broken{"broken_model", "not_finite", "model.hidden", "is inf"},
        Broken{"broken_model", "ignores_tokens", "model.tokens", "give the same logits"},
        Broken{"broken_model", "depends_on_batch", "model.batch", "when other sequences are in its step"},
        Broken{"broken_model", "depends_on_order", "model.order", "with the order of the sequences"},
        Broken{"broken_model", "depends_on_chunks", "model.chunks", "computed in chunks"},
        Broken{"broken_model", "decodes_otherwise", "model.decode", "when it is decoded"},
        Broken{"broken_model", "mixes_badly", "model.mixed", "when its step decodes and prefills"},
        Broken{"broken_model", "reads_padding", "model.padding", "with the padding of its step"},
        Broken{"broken_model", "reads_bounds", "model.buckets", "are upper bounds"},
        Broken{"broken_model", "alternates", "model.repeated", "when its step is repeated"},
        Broken{"broken_model", "depends_on_blocks", "model.blocks", "with the numbers of its blocks"},
        Broken{"broken_model", "depends_on_block_size", "model.block_size", "with the size of the blocks"},
        Broken{"broken_model", "depends_on_runs", "model.draft_runs", "when each draft is a run of its own"},
        Broken{"broken_model", "looks_ahead", "model.causal", "with the tokens that follow it"},
        Broken{"broken_model", "depends_on_slice", "model.head_slices", "with the slice of the vocabulary"},
        Broken{"broken_model", "depends_on_rows", "model.head_rows", "only one of the head"},
        Broken{"broken_model", "needs_dense_rows", "model.head_strides", "with the stride of the rows"},
        Broken{"broken_model", "head_alternates", "model.head_repeated", "when the head is repeated"},
        Broken{"broken_model", "writes_past_logits", "model.hidden", "is overwritten"},
        Broken{"broken_model", "changes_hidden", "model.hidden", "head changes hidden"},
        Broken{"broken_model", "differs_by_instance", "model.instances", "another instance gives different rows"},
        Broken{"broken_model", "keeps_state", "model.no_state",
               "when another instance has computed the rows before it"},
        Broken{"broken_model", "keeps_table", "model.attention_replaced", "crashes with SEGV"},
        Broken{"broken_model", "forgets", "model.reactivated", "after deactivate and activate"},
        Broken{"broken_model", "depends_on_sizes", "model.sizes", "with the sizes of activate"},
        Broken{"broken_model", "depends_on_thread", "behaviour.threads", "depend on the thread"},
        Broken{"broken_model", "allocates_in_step", "model.allocates", "allocate is called in a step"},
        Broken{"broken_model", "leaks_device_memory", "model.device_memory", "not freed by destroy"}),
    name_of);

}  // namespace
}  // namespace mortise::conformance
