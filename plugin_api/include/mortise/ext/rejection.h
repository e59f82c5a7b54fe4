/* mortise/ext/rejection.h: rejection sampling of drafts on the device, so that no logits go to the host. If a device
 * does not offer it, the host copies the logits of each row that a draft follows, and computes the same tokens. From
 * the device's get_ext(MORTISE_EXT_REJECTION). Since 0.6 */
#ifndef MORTISE_EXT_REJECTION_H
#define MORTISE_EXT_REJECTION_H

#include "mortise/device.h"

#define MORTISE_EXT_REJECTION "mortise.device.rejection/1"

/* Verifies at most one draft per row: docs/numerics.md, "Rejection sampling". `rows` describes the rows as for
 * mortise_device_table.sample. Its processed_logprobs is not used, and nothing but tokens[r] is written: the draft if
 * it is accepted, else the recovered token, or -1 if no token is left that could be drawn. A row without a draft, and
 * a row with temperature 0, keeps its token. */
typedef struct mortise_verify_drafts_args {
  uint32_t struct_size;
  uint32_t flags;
  const mortise_sample_args* rows;
  const int32_t* drafts; /* [R] a token of the vocabulary; -1: the row has no draft */
  /* f32 [N, vocab_size], rows may be strided: distributions that drafts were drawn from. They need not be normalised.
   * The host has checked that each number is finite and not negative, and that the draft's own is positive. NULL: every
   * draft was certain. */
  const mortise_tensor* distributions;
  const int32_t* distribution_rows; /* [R] each draft's row of `distributions`; -1: it was certain. NULL: all were */
} mortise_verify_drafts_args;

typedef struct mortise_rejection_table {
  uint32_t struct_size;
  uint32_t flags;
  /* Verifies drafts by rejection sampling: see mortise_verify_drafts_args. [step] since 0.6 */
  mortise_status (*verify_drafts)(mortise_device* device, mortise_stream* stream,
                                  const mortise_verify_drafts_args* args, mortise_error* error);
} mortise_rejection_table;

#endif
