#include "jobs.h"

#include <string.h>

/* Makes room for one more job. False: there is no memory. */
static bool has_room(job_table* table) {
  if (table->num_jobs < table->capacity) return true;
  const int32_t capacity = table->capacity < 64 ? 64 : 2 * table->capacity;
  job* jobs = table->host->allocate(table->host, (uint64_t)capacity * sizeof *jobs, _Alignof(job));
  if (jobs == NULL) return false;
  if (table->num_jobs > 0) memcpy(jobs, table->jobs, (size_t)table->num_jobs * sizeof *jobs);
  table->host->free(table->host, table->jobs);
  table->jobs = jobs;
  table->capacity = capacity;
  return true;
}

static void add(job_table* table, uint64_t seq_id, int64_t length) {
  if (has_room(table)) {
    table->jobs[table->num_jobs++] = (job){seq_id, length, table->clock, false};
  } else {
    ++table->num_lost;
  }
  table->clock += length;
}

static void end(job_table* table, uint64_t seq_id) {
  int32_t at = 0;
  const job* ended = jobs_find(table, seq_id, &at);
  if (ended == NULL) return;
  /* `at` is after the job. */
  memmove(&table->jobs[at - 1], &table->jobs[at], (size_t)(table->num_jobs - at) * sizeof(job));
  --table->num_jobs;
}

void jobs_take_events(job_table* table, const mortise_schedule_events* events) {
  for (int32_t i = 0; i < events->num_events; ++i) {
    if (events->kinds[i] == MORTISE_EVENT_ADDED) {
      add(table, events->seq_ids[i], (int64_t)events->num_tokens[i] + events->max_new_tokens[i]);
    } else if (events->kinds[i] == MORTISE_EVENT_ENDED) {
      end(table, events->seq_ids[i]);
    }
  }
}

job* jobs_find(const job_table* table, uint64_t seq_id, int32_t* hint) {
  for (int32_t n = 0, at = *hint; n < table->num_jobs; ++n, ++at) {
    if (at >= table->num_jobs) at = 0;
    if (table->jobs[at].seq_id != seq_id) continue;
    *hint = at + 1;
    return &table->jobs[at];
  }
  return NULL;
}

void jobs_free(job_table* table) {
  table->host->free(table->host, table->jobs);
  table->jobs = NULL;
  table->num_jobs = table->capacity = 0;
}
