/* examples/shortest_job/jobs.h: what the scheduler remembers of each live sequence, from events. Not thread-safe. */
#ifndef SHORTEST_JOB_JOBS_H
#define SHORTEST_JOB_JOBS_H

#include <stdbool.h>

#include "mortise/scheduler.h"

typedef struct job {
  uint64_t seq_id;
  int64_t length; /* tokens that the sequence has at its end: its prompt and all that it may generate */
  int64_t clock;  /* the sum of the lengths of all sequences that arrived before it */
  bool started;   /* it has held blocks: if it waits, it was preempted */
} job;

/* The jobs in order of arrival, as the host's views are. Invariant: num_jobs <= capacity. */
typedef struct job_table {
  const mortise_host* host; /* of the instance; memory comes from it */
  job* jobs;
  int32_t num_jobs, capacity;
  int64_t clock;    /* of the next job */
  int32_t num_lost; /* sequences without a job: there was no memory for it */
} job_table;

/* Takes the ADDED and ENDED events. Cannot fail: a sequence that finds no memory goes without a job. */
void jobs_take_events(job_table* table, const mortise_schedule_events* events);

/* Returns the job of a sequence, or NULL. `hint` is a position in the table to look at first, and is moved past the
 * job: with sequences in order of arrival each call takes constant time. */
job* jobs_find(const job_table* table, uint64_t seq_id, int32_t* hint);

void jobs_free(job_table* table);

#endif
