// Covers: runtime/conformance/{attention_cases,attention_draws,attention_output_cases,attention_reference}
// Covers: runtime/conformance/{attention_scene,attention_shape,own_attention}
// Covers: runtime/conformance/{behaviour,behaviour_cases,case,case_run,checked_host}
// Covers: runtime/conformance/{denormals_off,device_bench,device_buffer,device_cases,device_matrix,device_watch}
// Covers: runtime/conformance/{device_linear_cases,device_logit_cases,device_row_cases}
// Covers: runtime/conformance/{file_cases,guarded_memory,life_cases,module_cases,option_cases,part}
// Covers: runtime/conformance/{proposer_cases,proposer_driver,scheduler_cases,scheduler_driver}
// Covers: runtime/conformance/{device_state_cases,quantized_product}
// Covers: runtime/conformance/{model_cases,model_load_cases,model_scene,scene_sequences}
// Covers: runtime/conformance/{simulated_engine,subject,suite}
//
// Each deliberately broken plugin is caught by the case that should catch it, and plugins that are not broken pass.
#include "conformance/suite.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <ostream>
#include <set>

namespace mortise::conformance {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

const fs::path kFolder = BROKEN_PLUGIN_DIR;

std::string text_of(const std::vector<Finding>& findings, Outcome outcome) {
  std::string text;
  for (const Finding& finding : findings) {
    if (finding.result.outcome != outcome) continue;
    text += fmt::format("{}: {} {}\n", finding.reproduce_line(), finding.result.text, finding.result.output);
  }
  return text;
}

std::vector<Finding> run(const std::string& file, const nlohmann::json& options, std::vector<std::string> cases,
                         std::chrono::seconds time = std::chrono::seconds(60)) {
  CheckOptions check;
  check.file = kFolder / (file + ".so");
  check.options = options;
  Selection selection;
  selection.cases = std::move(cases);
  return run_suite(check, selection, {time, std::uint64_t{1} << 30}, [](const Finding&) {});
}

// One kind of defect, the case that finds it, and a part of its text.
struct Broken {
  const char* file;
  const char* defect;
  const char* rule;
  const char* text;
};

void PrintTo(const Broken& broken, std::ostream* out) {
  *out << broken.file << " " << broken.defect;
}

std::string name_of(const testing::TestParamInfo<Broken>& info) {
  return std::string(info.param.file) + "_" + info.param.defect;
}

class InAnInstance : public testing::TestWithParam<Broken> {
 protected:
  static void SetUpTestSuite() { ::setenv("MORTISE_PLUGIN_PATH", MORTISE_BINARY_DIR, 1); }  // a device for attentions
};

TEST_P(InAnInstance, IsFoundByItsCase) {
  const Broken& broken = GetParam();
  const bool hangs = std::string_view(broken.defect) == "hangs";
  nlohmann::json options = {{"defect", broken.defect}};
  if (std::string_view(broken.file) == "broken_model") options["path"] = TINY_CHECKPOINT;
  const auto findings = run(broken.file, options, {broken.rule}, std::chrono::seconds(hangs ? 2 : 60));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].result.outcome, Outcome::kFailed);
  EXPECT_THAT(findings[0].result.text, HasSubstr(broken.text));
  // The same case passes where nothing is broken.
  const auto sound = run(broken.file, {{"defect", "none"}}, {broken.rule});
  EXPECT_EQ(text_of(sound, Outcome::kFailed), "");
}

INSTANTIATE_TEST_SUITE_P(
    Scheduler, InAnInstance,
    testing::Values(
        Broken{"broken_scheduler", "throws", "scheduler.mix", "an exception crossed the C ABI"},
        Broken{"broken_scheduler", "exits", "scheduler.mix", "ends the process with exit code 0, in plan"},
        Broken{"broken_scheduler", "exits_at_once", "scheduler.mix", "ends the process with exit code 0, in plan"},
        Broken{"broken_scheduler", "aborts", "scheduler.mix", "crashes with ABRT"},
        Broken{"broken_scheduler", "hangs", "scheduler.mix", "does not end within 2 s, in plan"},
        Broken{"broken_scheduler", "eats_memory", "scheduler.mix", "MiB of memory, in plan"},
        Broken{"broken_scheduler", "changes_rounding", "life.float_environment", "rounding mode"},
        Broken{"broken_scheduler", "fails_silently", "scheduler.mix", "gives no message"},
        Broken{"broken_scheduler", "writes_null_error", "options.no_error", "crashes with SEGV"},
        Broken{"broken_scheduler", "leaks_host_memory", "life.unused", "100 bytes of the host's memory"},
        Broken{"broken_scheduler", "frees_what_it_does_not_own", "life.unused", "free is called with memory"},
        Broken{"broken_scheduler", "asks_for_odd_alignment", "life.unused", "alignment 24"},
        Broken{"broken_scheduler", "needs_memory", "life.no_memory", "crashes with SEGV"},
        Broken{"broken_scheduler", "starts_thread", "life.threads", "threads"},
        Broken{"broken_scheduler", "leaves_file_open", "life.threads", "files are still open after destroy"},
        Broken{"broken_scheduler", "grows", "life.memory", "KiB of memory behind"},
        Broken{"broken_scheduler", "writes_to_host", "life.unused", "crashes with SEGV"},
        Broken{"broken_scheduler", "refuses_silently", "options.defaults", "gives no message"},
        Broken{"broken_scheduler", "returns_null", "options.defaults", "leaves the instance NULL"},
        Broken{"broken_scheduler", "crashes_on_text", "options.texts", "crashes with ABRT"},
        Broken{"broken_scheduler", "limit_is_internal", "options.limits", "must not cause INTERNAL"},
        Broken{"broken_scheduler", "ends_must_be_known", "scheduler.unknown", "crashes with ABRT"},
        Broken{"broken_scheduler", "leaks_state", "life.sequences", "all sequences have ended, but state of"},
        Broken{"broken_scheduler", "keeps_view", "scheduler.mix", "crashes with SEGV"},
        Broken{"broken_scheduler", "unknown_is_internal", "scheduler.unknown", "an unknown sequence (INTERNAL)"},
        Broken{"broken_scheduler", "changes_view", "scheduler.one_request", "crashes with SEGV"},
        Broken{"broken_scheduler", "reads_past_view", "scheduler.one_request", "crashes with SEGV"},
        Broken{"broken_scheduler", "slow", "scheduler.many_wait", "take"},
        Broken{"broken_scheduler", "shortest_first", "scheduler.long_request", "sequence"},
        Broken{"broken_scheduler", "latest_first", "scheduler.large_request", "sequence"},
        Broken{"broken_scheduler", "ignores_rows", "scheduler.small_budgets", "token_budget"},
        Broken{"broken_scheduler", "ignores_places", "scheduler.small_budgets", "seq_budget"},
        Broken{"broken_scheduler", "alternates", "scheduler.mix", "two plans of the same view differ"},
        Broken{"broken_scheduler", "depends_on_thread", "behaviour.threads", "differ"},
        Broken{"broken_scheduler", "shares_statics", "behaviour.independent", "after another instance has worked"},
        Broken{"broken_scheduler", "counts_each_alone", "scheduler.scarce_shared", "blocks more than are free"},
        Broken{"broken_scheduler", "cuts_drafts", "scheduler.whole_drafts", "MORTISE_VIEW_WHOLE_DRAFTS asks for all"},
        Broken{"broken_scheduler", "grants_too_much", "scheduler.drafts", "but lookahead is"},
        Broken{"broken_scheduler", "never_preempts", "scheduler.scarce_blocks", "num_scheduled is 0"},
        Broken{"broken_scheduler", "whole_prompts_only", "scheduler.one_request", "num_scheduled is 0"},
        Broken{"broken_scheduler", "writes_past_output", "scheduler.one_request", "crashes with SEGV"},
        Broken{"broken_scheduler", "wrong_index", "scheduler.one_request", "seqs[0] is 1 in a view of 1 sequences"},
        Broken{"broken_scheduler", "twice", "scheduler.mix", "which is given twice"},
        Broken{"broken_scheduler", "runs_too_far", "scheduler.one_request", "tokens to run"},
        Broken{"broken_scheduler", "preempts_and_runs", "scheduler.mix", "pree"},
        Broken{"broken_scheduler", "asks_nonsense", "scheduler.one_request", "blocks_freed is asked about index"},
        Broken{"broken_scheduler", "pins_too_much", "scheduler.one_request", "pin_tokens[0] is"},
        Broken{"broken_scheduler", "changes_pointers", "scheduler.one_request", "changes a pointer of the plan"},
        Broken{"broken_scheduler", "counts_wildly", "scheduler.one_request", "num_scheduled is -5"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Attention, InAnInstance,
    testing::Values(
        Broken{"broken_attention", "throws", "attention.one_token", "an exception crossed the C ABI"},
        Broken{"broken_attention", "one_id", "attention.layout", "have one id, 'one for all'"},
        Broken{"broken_attention", "takes_any_memory", "attention.bad_bind", "bind accepts memory that is smaller"},
        Broken{"broken_attention", "one_bit", "attention.one_token", "is not that of attention-span256/1"},
        Broken{"broken_attention", "writes_past_out", "attention.one_token", "behind the end of out is overwritten"},
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
                    Broken{"broken_cpu", "wrong_fp8", "device.fp8_bits", "cpu-fp8/1: row 0"},
                    Broken{"broken_cpu", "odd_nan", "device.odd_numbers", "add of odd numbers: row"},
                    Broken{"broken_cpu", "refuses_no_rows", "device.no_rows", "linear fails"},
                    Broken{"broken_cpu", "depends_on_thread", "device.threads", "linear on another thread: row 0"},
                    Broken{"broken_cpu", "clears_at_the_end", "device.instances", "another instance has ended: row 0"},
                    Broken{"broken_cpu", "leaks_weights", "device.memory_returned", "KiB of 40 freed weights"},
                    Broken{"broken_cpu", "runs_twice", "device.parallel", "is run 2 times"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Proposer, InAnInstance,
    testing::Values(
        Broken{"broken_proposer", "throws", "proposer.many", "an exception crossed the C ABI"},
        Broken{"broken_proposer", "leaks_state", "proposer.ends", "sequences have state, but only one is alive"},
        Broken{"broken_proposer", "ends_must_be_known", "proposer.unknown_ends", "INTERNAL"},
        Broken{"broken_proposer", "appends_histories", "proposer.replaced_history", "the old history still influences"},
        Broken{"broken_proposer", "crashes_on_gaps", "proposer.gap", "crashes with ABRT"},
        Broken{"broken_proposer", "needs_two_tokens", "proposer.one_token", "crashes with ABRT"},
        Broken{"broken_proposer", "keeps_tokens", "behaviour.drawn", "crashes with SEGV"},
        Broken{"broken_proposer", "drafts_for_anybody", "proposer.unknown", "never observed gets 1 drafts"},
        Broken{"broken_proposer", "one_too_many", "proposer.limits", "drafts for a sequence that may have"},
        Broken{"broken_proposer", "ignores_zero", "proposer.none_wanted", "a sequence that may have 0"},
        Broken{"broken_proposer", "depends_on_batch", "proposer.batch", "different drafts alone than in a batch"},
        Broken{"broken_proposer", "depends_on_order", "proposer.batch", "than in a batch"},
        Broken{"broken_proposer", "alternates", "proposer.repeated", "different drafts the second time"},
        Broken{"broken_proposer", "never_drafts", "proposer.drafts", "no draft at all"},
        Broken{"broken_proposer", "token_out_of_range", "proposer.limits", "the token 512 of a vocabulary of 512"},
        Broken{"broken_proposer", "negative_token", "proposer.limits", "the token -1"},
        Broken{"broken_proposer", "remembers_drafts", "proposer.rejected", "rejected change later drafts"},
        Broken{"broken_proposer", "writes_past_output", "proposer.limits", "crashes with SEGV"},
        Broken{"broken_proposer", "cycle", "proposer.trees", "which is not an earlier draft"},
        Broken{"broken_proposer", "forbids_its_draft", "proposer.distributions", "probability 0"},
        Broken{"broken_proposer", "nan_probability", "proposer.distributions", "negative or not finite"},
        Broken{"broken_proposer", "no_drafts_at_all", "proposer.one_token", "max_drafts returns 0"}),
    name_of);

class InTheFile : public testing::TestWithParam<Broken> {};

TEST_P(InTheFile, IsFoundByItsCase) {
  const auto findings = run(std::string("broken_") + GetParam().defect, nlohmann::json::object(), {GetParam().rule});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].result.outcome, Outcome::kFailed);
  EXPECT_THAT(findings[0].result.text, HasSubstr(GetParam().text));
}

INSTANTIATE_TEST_SUITE_P(
    File, InTheFile,
    testing::Values(Broken{"", "talks_at_loading", "load.quiet", "writes to standard output"},
                    Broken{"", "changes_environment", "load.quiet", "loading changes the environment"},
                    Broken{"", "thread_at_loading", "load.quiet", "loading changes the number of threads"},
                    Broken{"", "crashes_at_loading", "file.loads", "crashes with ABRT"},
                    Broken{"", "entry_changes", "entry.hosts", "another address at its second call"},
                    Broken{"", "refuses_newer_hosts", "entry.hosts", "the entry refuses a host of minor"},
                    Broken{"", "knows_every_extension", "extensions.unknown", "is not NULL"},
                    Broken{"", "supports_changes", "supports.pure", "different answers to the same query"},
                    Broken{"", "supports_is_silent", "supports.reason", "without a message"},
                    Broken{"", "ignores_struct_size", "life.older_host", "crashes with SEGV"},
                    Broken{"", "wrong_capability", "metadata.capabilities", "cascade"},
                    Broken{"", "two_line_summary", "metadata.texts", "not one line"},
                    Broken{"", "has_numerics", "metadata.numerics", "for this kind it must be NULL"},
                    Broken{"", "open_schema", "options.schema", "additionalProperties"}),
    [](const auto& info) { return std::string(info.param.defect); });

TEST(Suite, PluginsThatAreNotBrokenPass) {
  for (const char* file : {"broken_scheduler", "broken_proposer"}) {
    const auto findings = run(file, nlohmann::json::object(), {});
    EXPECT_EQ(text_of(findings, Outcome::kFailed), "") << file;
    EXPECT_GT(findings.size(), 40u);
  }
}

TEST(Suite, AtLeastThirtyCasesAreOfEachKind) {
  for (const PartKind kind : {PartKind::kScheduler, PartKind::kProposer}) {
    EXPECT_GE(std::ranges::count_if(all_cases(), [&](const Case& rule) { return (rule.kinds & of_kind(kind)) != 0; }),
              30);
  }
}

TEST(Suite, NamesAreUnique) {
  std::set<std::string> names;
  for (const Case& rule : all_cases()) EXPECT_TRUE(names.insert(rule.name).second) << rule.name;
}

TEST(Suite, ALineOfAReportRunsTheSameCaseWithTheSameSeed) {
  CheckOptions check;
  Selection selection;
  apply_reproduce_line("my_policy/scheduler.mix/77", check, selection);
  EXPECT_EQ(selection.component, "my_policy");
  EXPECT_EQ(selection.cases, std::vector<std::string>{"scheduler.mix"});
  EXPECT_EQ(check.seed, 77u);
  for (const char* line : {"", "a/b", "a/b/", "a/b/x", "a/b/1x"}) {
    EXPECT_THROW(apply_reproduce_line(line, check, selection), Error) << line;
  }
}

TEST(Suite, UnknownCasesComponentsAndFilesAreNamed) {
  EXPECT_THROW(run("broken_scheduler", nlohmann::json::object(), {"scheduler.no_such_case"}), Error);
  EXPECT_EQ(run("no_such_file", nlohmann::json::object(), {"file.loads"})[0].result.outcome, Outcome::kFailed);
}

TEST(Suite, TheReportHasEveryCase) {
  const auto findings = run("broken_proposer", {{"defect", "cycle"}}, {"proposer."});
  CheckOptions check;
  check.file = "x.so";
  const nlohmann::json json = report(check, findings);
  EXPECT_EQ(json["passed"], false);
  EXPECT_EQ(json["cases"].size(), findings.size());
  EXPECT_EQ(json["cases"][0]["kind"], "proposer");
}

}  // namespace
}  // namespace mortise::conformance
