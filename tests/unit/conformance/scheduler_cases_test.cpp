// Each deliberately broken scheduler is caught by the case that should catch it. The cases of every kind of plugin
// (life, options, behaviour) are tried on schedulers, which are cheapest.
// Covers: runtime/conformance/{behaviour,behaviour_cases,case_run,checked_host,guarded_memory,life_cases}
// Covers: runtime/conformance/{option_cases,part,scheduler_driver,simulated_engine}
#include "broken_plugins.hpp"

namespace mortise::conformance {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Scheduler, InAnInstance,
    testing::Values(
        Broken{"broken_scheduler", "throws", "scheduler.mix", "an exception crossed the C ABI"},
        Broken{"broken_scheduler", "exits", "scheduler.mix", "ends the process with exit code 0, in plan"},
        Broken{"broken_scheduler", "exits_at_once", "scheduler.mix", "ends the process with exit code 0, in plan"},
        Broken{"broken_scheduler", "aborts", "scheduler.mix", "crashes with ABRT"},
        Broken{"broken_scheduler", "hangs", "scheduler.mix", "does not end within 2 s, in plan"},
        Broken{"broken_scheduler", "eats_memory", "scheduler.mix", "MiB of memory, in plan"},
        Broken{"broken_scheduler", "child_eats_memory", "scheduler.mix", "MiB of memory, in plan"},
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
        Broken{"broken_scheduler", "counts_each_alone", "scheduler.scarce_shared", "more blocks than are free"},
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

}  // namespace
}  // namespace mortise::conformance
