// tests/e2e/plugins/rogue.cpp: a scheduler and a proposer that do in one of their functions what no plugin may do.
// Until then the scheduler runs first come, first served, and the proposer drafts token 5.
#include "rogue.hpp"

#include <algorithm>

#include "mortise/proposer.h"
#include "mortise/scheduler.h"

namespace {

rogue::Misdeed& of(void* instance) {
  return *static_cast<rogue::Misdeed*>(instance);
}

mortise_status supports(const mortise_query*, mortise_error*) {
  return MORTISE_OK;
}
mortise_status create(const mortise_host*, const mortise_create_args* args, void** instance, mortise_error* error) {
  auto* misdeed = new rogue::Misdeed(mortise::Options(mortise::known(args)));
  *instance = misdeed;
  return misdeed->commit("create", error);
}
void destroy(void* instance) {
  of(instance).commit("destroy", nullptr);
  delete &of(instance);
}
mortise_status activate(void* instance, const mortise_activate_args*, mortise_error* error) {
  return of(instance).commit("activate", error);
}
void deactivate(void* instance) {
  of(instance).commit("deactivate", nullptr);
}

mortise_status events(mortise_scheduler* self, const mortise_schedule_events*, mortise_error* error) {
  return of(self).commit("events", error);
}

// Of those that run, and then of those that wait, as many as places, rows and blocks allow; nobody is preempted, so the
// pool must have room for all.
mortise_status plan(mortise_scheduler* self, const mortise_schedule_view* view, mortise_schedule_plan* out,
                    mortise_error* error) {
  int32_t rows = view->token_budget, blocks = view->num_free_blocks, places = view->seq_budget;
  places -= static_cast<int32_t>(std::count(view->states, view->states + view->num_seqs, MORTISE_SEQ_RUNNING));
  for (const int32_t state : {MORTISE_SEQ_RUNNING, MORTISE_SEQ_WAITING}) {
    for (int32_t i = 0; i < view->num_seqs; ++i) {
      const bool waits = state == MORTISE_SEQ_WAITING;
      if (view->states[i] != state || (waits && places == 0)) continue;
      const int32_t begin = waits ? 0 : view->num_computed[i];  // as if nothing were cached: that takes no less
      const int32_t tokens = view->num_tokens[i] - begin;
      const int32_t new_blocks =
          (view->num_tokens[i] + view->lookahead[i]) / view->block_size + 1 - view->blocks_held[i];
      if (tokens + view->lookahead[i] > rows || new_blocks > blocks) continue;
      out->seqs[out->num_scheduled] = i;
      out->num_new_tokens[out->num_scheduled++] = view->num_tokens[i] - (waits ? view->num_cached[i] : begin);
      rows -= tokens + view->lookahead[i];
      blocks -= new_blocks;
      places -= waits ? 1 : 0;
    }
  }
  const mortise_status status = of(self).commit("plan", error);
  if (of(self).spoils()) out->seqs[0] = view->num_seqs;
  return status;
}

// The plan is good; the pointers to it lead nowhere.
mortise_status plan_with_wild_pointers(mortise_scheduler* self, const mortise_schedule_view* view,
                                       mortise_schedule_plan* out, mortise_error* error) {
  const mortise_status status = plan(self, view, out, error);
  out->seqs = out->num_new_tokens = out->preempted = out->pins = out->pin_tokens = out->max_drafts =
      reinterpret_cast<int32_t*>(8);
  return status;
}

mortise_status bind(mortise_proposer* self, const mortise_proposer_bind_args*, mortise_error* error) {
  return of(self).commit("bind", error);
}
mortise_status observe(mortise_proposer* self, const mortise_observation*, mortise_error* error) {
  return of(self).commit("observe", error);
}
mortise_status propose(mortise_proposer* self, const mortise_step*, const mortise_proposal_args* args,
                       mortise_error* error) {
  for (int32_t i = 0; i < args->num_seqs; ++i) {
    args->num_drafts[i] = args->max_drafts[i];
    std::fill_n(args->tokens + i * args->draft_stride, args->max_drafts[i], 5);
  }
  const mortise_status status = of(self).commit("propose", error);
  if (of(self).spoils()) args->tokens[0] = -1;
  return status;
}

constexpr mortise_scheduler_table kScheduler = {sizeof(mortise_scheduler_table), 0, events, plan};
constexpr mortise_scheduler_table kWild = {sizeof(mortise_scheduler_table), 0, events, plan_with_wild_pointers};
constexpr mortise_proposer_table kProposer = {sizeof(mortise_proposer_table), 0, bind, observe, propose, nullptr};

constexpr const char* kNoMaximum = R"({"type": "object", "properties": {
  "in": {"title": "see rogue", "type": "string", "default": ""}, "does": {"title": "see rogue", "type": "string", "default": ""},
  "calls": {"title": "see rogue", "type": "string", "default": ""}, "gate": {"title": "see rogue", "type": "string", "default": ""},
  "after": {"title": "see rogue", "type": "integer", "default": 0}, "times": {"title": "see rogue", "type": "integer", "default": 0}}})";

mortise_status supports_nothing(const mortise_query*, mortise_error*) {
  throw std::runtime_error("supports went wrong");
}

constexpr mortise_component component(int32_t kind, const char* name, const void* table,
                                      const char* schema = rogue::kSchema, decltype(&supports) asked = supports) {
  return {sizeof(mortise_component),
          0,
          kind,
          0,
          0,
          name,
          "does what no plugin may do",
          schema,
          nullptr,
          table,
          asked,
          create,
          destroy,
          activate,
          deactivate,
          nullptr};
}

constexpr mortise_component kRogueScheduler = component(MORTISE_KIND_SCHEDULER, "rogue", &kScheduler);
constexpr mortise_component kWildScheduler = component(MORTISE_KIND_SCHEDULER, "wild", &kWild);
constexpr mortise_component kRogueProposer = component(MORTISE_KIND_PROPOSER, "rogue_proposer", &kProposer);
constexpr mortise_component kMute = component(MORTISE_KIND_PROPOSER, "mute", &kProposer, kNoMaximum);
constexpr mortise_component kUnsupported =
    component(MORTISE_KIND_PROPOSER, "unsupported", &kProposer, rogue::kSchema, supports_nothing);

}  // namespace

MORTISE_PLUGIN("test.rogue", "Tests", "1.0.0", "Apache-2.0", &kRogueScheduler, &kWildScheduler, &kRogueProposer, &kMute,
               &kUnsupported)
