// Each deliberately broken device is caught by the case that should catch it.
// Covers: runtime/conformance/{device_bench,device_buffer,device_linear_cases}
// Covers: runtime/conformance/{device_logit_cases,device_matrix,device_rank_cases,device_row_cases,device_state_cases}
// Covers: runtime/conformance/{device_watch,quantized_product}
#include "broken_plugins.hpp"

namespace mortise::conformance {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Device, InAnInstance,
    testing::Values(
        Broken{"broken_device", "unnamed", "device.describe", "name or isa is empty"},
        Broken{"broken_device", "false_class", "device.numerics", "has no version"},
        Broken{"broken_device", "new_id_each_time", "device.numerics", "a different address at each call"},
        Broken{"broken_device", "dirty_memory", "device.allocate", "not zero-filled"},
        Broken{"broken_device", "unaligned", "device.allocate", "not 256-byte aligned"},
        Broken{"broken_device", "promises_memory", "device.no_memory", "expected RESOURCE_EXHAUSTED"},
        Broken{"broken_device", "copies_words", "device.copy", "change bytes"},
        Broken{"broken_device", "no_host_memory", "device.host_memory", "leaves the memory NULL"},
        Broken{"broken_device", "loses_work", "device.streams", "come after the event"},
        Broken{"broken_device", "vector_of_anything", "device.vectors", "not NULL for a matrix"},
        Broken{"broken_device", "takes_any_bits", "device.bad_weights", "accepts a weight with 3 bits"},
        Broken{"broken_device", "one_bit", "device.linear", "linear: row 0, column 0"},
        Broken{"broken_device", "changes_x", "device.linear", "linear changes x"},
        Broken{"broken_device", "depends_on_rows", "device.linear_rows", "changes with the other rows"},
        Broken{"broken_device", "depends_on_columns", "device.linear_columns", "changes with column_begin"},
        Broken{"broken_device", "needs_dense_rows", "device.linear_strides", "changes with the stride"},
        Broken{"broken_device", "joins_backwards", "device.linear_parts", "of two parts gives different bits"},
        Broken{"broken_device", "gates_otherwise", "device.linear_gate", "differs from linear and gated_activation"},
        Broken{"broken_device", "wrong_when_quantized", "device.quantised", "changes with the other rows"},
        Broken{"broken_device", "embeds_zero", "device.embed", "embed: row 1"},
        Broken{"broken_device", "not_in_place", "device.rms_norm", "when out is x"},
        Broken{"broken_device", "forgets_bias", "device.layer_norm", "layer_norm: row"},
        Broken{"broken_device", "one_gelu", "device.activations", "activation: row"},
        Broken{"broken_device", "writes_past_out", "device.add", "overwritten"},
        Broken{"broken_device", "scatters_more", "device.rows", "scatter_rows: row 1"},
        Broken{"broken_device", "spreads_nan", "device.linear_nan", "changes another row"},
        Broken{"broken_device", "spreads_nan_in_norms", "device.norm_nan", "changes another row"},
        Broken{"broken_device", "takes_any_product", "device.linear_shapes", "linear with shapes"},
        Broken{"broken_device", "swaps_tops", "device.head_reduce", "slice by slice"},
        Broken{"broken_device", "sums_otherwise", "device.head_reduce", "lse is"},
        Broken{"broken_device", "ignores_top_k", "device.sample", "draws the token"},
        Broken{"broken_device", "key_of_the_row", "device.sample", "draws the token"},
        Broken{"broken_device", "adds_any_shape", "device.row_shapes", "add with shapes"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Cpu, InAnInstance,
    testing::Values(Broken{"broken_cpu", "wrong_int8", "device.int8_bits", "cpu-int8/1: row 0"},
                    Broken{"broken_cpu", "wrong_int4", "device.int4_bits", "cpu-int8/1: row 0"},
                    Broken{"broken_cpu", "wrong_int8_block32", "device.int8_block32_bits", "cpu-int8-block32/1: row 0"},
                    Broken{"broken_cpu", "wrong_int4_block32", "device.int4_block32_bits", "cpu-int8-block32/1: row 0"},
                    Broken{"broken_cpu", "wrong_fp8", "device.fp8_bits", "cpu-fp8/1: row 0"},
                    Broken{"broken_cpu", "wrong_mxfp4", "device.mxfp4_bits", "mxfp4/1: row 0"},
                    Broken{"broken_cpu", "odd_nan", "device.odd_numbers", "add of odd numbers: row"},
                    Broken{"broken_cpu", "refuses_no_rows", "device.no_rows", "linear fails"},
                    Broken{"broken_cpu", "depends_on_thread", "device.threads", "linear on another thread: row 0"},
                    Broken{"broken_cpu", "clears_at_the_end", "device.instances", "another instance has ended: row 0"},
                    Broken{"broken_cpu", "leaks_weights", "device.memory_returned", "KiB of 40 freed weights"},
                    Broken{"broken_cpu", "forgets_distributions", "device.verify_drafts", "gets the token"},
                    Broken{"broken_cpu", "runs_twice", "device.parallel", "is run 2 times"},
                    Broken{"broken_cpu", "gathers_all_but_one", "device.ranks", "all_gather: row 0, column 0"}),
    name_of);

}  // namespace
}  // namespace mortise::conformance
