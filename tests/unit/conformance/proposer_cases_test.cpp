// Each deliberately broken proposer is caught by the case that should catch it.
// Covers: runtime/conformance/proposer_driver
#include "broken_plugins.hpp"

namespace mortise::conformance {
namespace {

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

}  // namespace
}  // namespace mortise::conformance
