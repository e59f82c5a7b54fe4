/* examples/shortest_job/shortest_job.c: the policy, and what the host sees of the plugin.
 *
 * Shortest remaining job first, with ageing. A sequence's job is what it has still to run: the rest of its prompt, and
 * all the tokens that it may generate. Among sequences of one priority, the one with the least key goes first:
 *
 *   key = ageing * min(job, C) + clock        C = 256 * token_budget / ageing
 *
 * The clock is the sum of the lengths (prompt and tokens to generate) of all sequences that arrived before. So a
 * sequence falls behind a shorter one only while less than `ageing` times the difference of their jobs has arrived
 * between them.
 *
 * The bound. Let sequence s of length L wait. Of the sequences that arrived later, those that are admitted before s
 * run, all together and to their ends, fewer than
 *
 *   (ageing - 1) * min(L, C)  rows.
 *
 * Proof: let j be the last of them to arrive. When it is admitted, key(j) < key(s), that is
 * clock(j) - clock(s) < ageing * (min(job(s), C) - min(job(j), C)). The left side is L and the lengths of all that
 * arrived between s and j: at least L and the jobs of the others. On the right job(s) <= L, and job(j) < C, or it were
 * not positive. So the jobs of all of them, job(j) included, are less than
 * ageing * min(L, C) - L - (ageing - 1) * job(j). Each of them is admitted before s once (step_plan.h, Admission).
 * By the choice of C the bound is below MORTISE_MAX_PASSED_STEPS * token_budget: the host never sees a starving
 * sequence. With ageing = 1 nobody passes: first come, first served. */
#include <stdlib.h>
#include <string.h>

#include "jobs.h"
#include "mortise/ext/sequences.h"
#include "mortise/manifest.h"
#include "mortise/plugin.h"
#include "step_plan.h"

typedef struct shortest_job {
  const mortise_host* host;
  int64_t ageing;
  job_table jobs;
  /* Memory of plan(), for views of up to num_places sequences. */
  seq_place* places;
  int32_t* scratch;
  int32_t num_places;
} shortest_job;

static mortise_status fail(mortise_error* error, mortise_status code, const char* where, const char* message) {
  if (error != NULL && error->struct_size >= sizeof *error) {
    error->code = code;
    strncpy(error->where, where, sizeof error->where - 1);
    error->where[sizeof error->where - 1] = '\0';
    strncpy(error->message, message, sizeof error->message - 1);
    error->message[sizeof error->message - 1] = '\0';
  }
  return code;
}

/* --- the policy */

static int64_t key_of(const shortest_job* self, const mortise_schedule_view* view, int32_t i, const job* known) {
  const int32_t first = view->states[i] == MORTISE_SEQ_RUNNING ? view->num_computed[i] : view->num_cached[i];
  /* Without a job, a sequence is as long as it is known, and has just arrived. */
  const int64_t length = known == NULL ? view->num_tokens[i] : known->length;
  const int64_t clock = known == NULL ? self->jobs.clock : known->clock;
  const int64_t most = (int64_t)MORTISE_MAX_PASSED_STEPS * view->token_budget / self->ageing;
  const int64_t left = length - first;
  return self->ageing * (left < most ? left : most) + clock;
}

static mortise_status events(mortise_scheduler* scheduler, const mortise_schedule_events* given, mortise_error* error) {
  (void)error;
  mortise_schedule_events known = {0};
  memcpy(&known, given, given->struct_size < sizeof known ? given->struct_size : sizeof known);
  jobs_take_events(&((shortest_job*)scheduler)->jobs, &known);
  return MORTISE_OK;
}

static void free_places(shortest_job* self) {
  self->host->free(self->host, self->places);
  self->host->free(self->host, self->scratch);
  self->places = NULL;
  self->scratch = NULL;
  self->num_places = 0;
}

static bool has_places(shortest_job* self, int32_t num_seqs) {
  if (num_seqs <= self->num_places) return true;
  free_places(self);
  const int32_t count = num_seqs < 64 ? 64 : num_seqs + num_seqs / 2;
  self->places = self->host->allocate(self->host, (uint64_t)count * sizeof(seq_place), _Alignof(seq_place));
  self->scratch = self->host->allocate(self->host, plan_scratch_size(count) * sizeof(int32_t), _Alignof(int32_t));
  if (self->places == NULL || self->scratch == NULL) {
    free_places(self);
    return false;
  }
  self->num_places = count;
  return true;
}

static mortise_status plan(mortise_scheduler* scheduler, const mortise_schedule_view* given, mortise_schedule_plan* out,
                           mortise_error* error) {
  shortest_job* const self = (shortest_job*)scheduler;
  mortise_schedule_view view = {0};
  memcpy(&view, given, given->struct_size < sizeof view ? given->struct_size : sizeof view);
  if (!has_places(self, view.num_seqs)) {
    return fail(error, MORTISE_RESOURCE_EXHAUSTED, "plan", "no memory for the plan; free some");
  }
  int32_t hint = 0;
  for (int32_t i = 0; i < view.num_seqs; ++i) {
    job* const known = jobs_find(&self->jobs, view.seq_ids[i], &hint);
    const bool running = view.states[i] == MORTISE_SEQ_RUNNING;
    if (known != NULL && running) known->started = true;
    self->places[i] = (seq_place){.index = i,
                                  .priority = view.priorities[i],
                                  .key = key_of(self, &view, i, known),
                                  .preempted_before = !running && known != NULL && known->started};
  }
  order_places(self->places, view.num_seqs);
  make_plan(&view, self->places, self->scratch, out);
  return MORTISE_OK;
}

/* --- the component */

static mortise_status supports(const mortise_query* query, mortise_error* reason) {
  (void)query;
  (void)reason;
  return MORTISE_OK;
}

static mortise_status create(const mortise_host* host, const mortise_create_args* args, void** instance,
                             mortise_error* error) {
  *instance = NULL;
  if (!MORTISE_HAS(args, option_reader)) {
    return fail(error, MORTISE_FAILED_PRECONDITION, "create",
                "the host provides no option_reader; use a host of ABI 0.6");
  }
  shortest_job* const self = host->allocate(host, sizeof *self, _Alignof(shortest_job));
  *instance = self;
  if (self == NULL) return fail(error, MORTISE_RESOURCE_EXHAUSTED, "create", "no memory for the scheduler; free some");
  *self = (shortest_job){.host = host, .jobs = {.host = host}};
  const mortise_option_reader* const options = args->option_reader;
  return options->get_int(options->context, "ageing", &self->ageing); /* the host has filled in the default */
}

static void destroy(void* instance) {
  shortest_job* const self = instance;
  jobs_free(&self->jobs);
  free_places(self);
  self->host->free(self->host, self);
}

static uint64_t num_sequences(void* instance) {
  return (uint64_t)((const shortest_job*)instance)->jobs.num_jobs;
}

static const void* get_ext(void* instance, const char* id) {
  static const mortise_sequences_table sequences = {sizeof sequences, 0, num_sequences};
  (void)instance;
  return strcmp(id, MORTISE_EXT_SEQUENCES) == 0 ? &sequences : NULL;
}

/* The host reads max_num_seqs and max_batched_tokens for its own budgets, and a view has them. */
static const char options_schema[] =
    "{\"$schema\": \"http://json-schema.org/draft-07/schema#\", \"type\": \"object\", \"additionalProperties\": false,"
    " \"properties\": {"
    "  \"ageing\": {\"title\": \"by how much more of later work than its own job a sequence may be passed; 1: by "
    "none\","
    "    \"type\": \"integer\", \"minimum\": 1, \"maximum\": 1024, \"default\": 8},"
    "  \"max_num_seqs\": {\"title\": \"maximum number of sequences that run at a time\", \"type\": \"integer\", "
    "\"minimum\": 1,"
    "    \"maximum\": 65536, \"default\": 64},"
    "  \"max_batched_tokens\": {\"title\": \"maximum number of rows in one step; longer prompts are computed in "
    "chunks\","
    "    \"type\": \"integer\", \"minimum\": 1, \"maximum\": 1048576, \"default\": 2048}}}";

static const mortise_scheduler_table table = {.struct_size = sizeof table, .events = events, .plan = plan};

static const mortise_component component = {
    .struct_size = sizeof component,
    .kind = MORTISE_KIND_SCHEDULER,
    .capabilities = MORTISE_CAP_EXACT,
    .name = "shortest_job",
    .summary = "shortest remaining job first, with ageing and a bound on what may pass a sequence",
    .options_schema = options_schema,
    .table = &table,
    .supports = supports,
    .create = create,
    .destroy = destroy,
    .get_ext = get_ext,
};

static const mortise_component* const kComponents[] = {&component};
static const mortise_module kModule = {
    .struct_size = sizeof kModule,
    .abi_minor = MORTISE_ABI_MINOR,
    .num_components = 1,
    .id = "example.shortest_job",
    .vendor = "Mortise",
    .version = "0.1.0",
    .license = "Apache-2.0",
    .components = kComponents,
};
MORTISE_MANIFEST(kModule); /* `mortise plugin info` reads it without running this file */

const mortise_module* mortise_plugin_entry_v0(const mortise_entry_args* args) {
  (void)args;
  return &kModule;
}
