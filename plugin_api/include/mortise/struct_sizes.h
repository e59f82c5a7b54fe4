/* mortise/struct_sizes.h: the size in bytes that each struct and table had in each minor of the ABI. A number never
 * changes once its minor is released. A struct that is not listed under a minor has the size of the minor before.
 *
 * A reader that cannot do without a field asks whether the struct is as large as at the minor that added the field:
 *   if (args->struct_size < MORTISE_SIZE_0_6(mortise_create_args)) ...the caller has no option_reader...
 * Never compare with sizeof: that is the size in the headers which you happen to compile with. 64-bit targets. */
#ifndef MORTISE_STRUCT_SIZES_H
#define MORTISE_STRUCT_SIZES_H

#define MORTISE_SIZE_0_5(type) MORTISE_SIZE_0_5_##type
#define MORTISE_SIZE_0_6(type) MORTISE_SIZE_0_6_##type

/* 0.5, the oldest minor that a host of 0.6 accepts */
enum {
  MORTISE_SIZE_0_5_mortise_error = 512,
  MORTISE_SIZE_0_5_mortise_string_view = 16,
  MORTISE_SIZE_0_5_mortise_tensor = 96,
  MORTISE_SIZE_0_5_mortise_batch = 224,
  MORTISE_SIZE_0_5_mortise_model_dims = 64,
  MORTISE_SIZE_0_5_mortise_host = 72,
  MORTISE_SIZE_0_5_mortise_query = 48,
  MORTISE_SIZE_0_5_mortise_create_args = 64,
  MORTISE_SIZE_0_5_mortise_activate_args = 32,
  MORTISE_SIZE_0_5_mortise_component = 112,
  MORTISE_SIZE_0_5_mortise_module = 56,
  MORTISE_SIZE_0_5_mortise_device_info = 152,
  MORTISE_SIZE_0_5_mortise_quantized_matrix = 56,
  MORTISE_SIZE_0_5_mortise_weight_source = 64,
  MORTISE_SIZE_0_5_mortise_linear_args = 56,
  MORTISE_SIZE_0_5_mortise_norm_args = 56,
  MORTISE_SIZE_0_5_mortise_head_reduce_args = 96,
  MORTISE_SIZE_0_5_mortise_logit_edit = 16,
  MORTISE_SIZE_0_5_mortise_sample_args = 120,
  MORTISE_SIZE_0_5_mortise_device_table = 280,
  MORTISE_SIZE_0_5_mortise_step = 88,
  MORTISE_SIZE_0_5_mortise_weight_reader = 32,
  MORTISE_SIZE_0_5_mortise_model_table = 40,
  MORTISE_SIZE_0_5_mortise_kv_layout = 80,
  MORTISE_SIZE_0_5_mortise_attention_bind_args = 48,
  MORTISE_SIZE_0_5_mortise_rope = 32,
  MORTISE_SIZE_0_5_mortise_append_args = 72,
  MORTISE_SIZE_0_5_mortise_attention_table = 56,
  MORTISE_SIZE_0_5_mortise_proposer_bind_args = 24,
  MORTISE_SIZE_0_5_mortise_observation = 80,
  MORTISE_SIZE_0_5_mortise_proposal_args = 112,
  MORTISE_SIZE_0_5_mortise_proposer_table = 40,
  MORTISE_SIZE_0_5_mortise_schedule_view = 152,
  MORTISE_SIZE_0_5_mortise_schedule_plan = 72,
  MORTISE_SIZE_0_5_mortise_schedule_events = 72,
  MORTISE_SIZE_0_5_mortise_scheduler_table = 24,
  MORTISE_SIZE_0_5_mortise_checkpoint_table = 40,
  MORTISE_SIZE_0_5_mortise_kv_reads_table = 16,
  MORTISE_SIZE_0_5_mortise_sequences_table = 16,
  MORTISE_SIZE_0_5_mortise_tuning_table = 16,
  MORTISE_SIZE_0_5_mortise_weight_cache_args = 56,
  MORTISE_SIZE_0_5_mortise_weight_cache_table = 32,
  MORTISE_SIZE_0_5_mortise_parallel_table = 32,
  MORTISE_SIZE_0_5_mortise_graph_table = 40,
  MORTISE_SIZE_0_5_mortise_runner_open_args = 48,
  MORTISE_SIZE_0_5_mortise_runner_tokens = 48,
  MORTISE_SIZE_0_5_mortise_runner_step = 80,
  MORTISE_SIZE_0_5_mortise_runner_forks = 40,
  MORTISE_SIZE_0_5_mortise_runner_table = 64
};

/* 0.6 */
enum {
  MORTISE_SIZE_0_6_mortise_create_args = 72,
  MORTISE_SIZE_0_6_mortise_option_reader = 56,
  MORTISE_SIZE_0_6_mortise_entry_args = 32,
  MORTISE_SIZE_0_6_mortise_schedule_view = 168,
  MORTISE_SIZE_0_6_mortise_model_dims = 72,
  MORTISE_SIZE_0_6_mortise_quantized_matrix = 64,
  MORTISE_SIZE_0_6_mortise_collective_table = 48,
  MORTISE_SIZE_0_6_mortise_verify_drafts_args = 40,
  MORTISE_SIZE_0_6_mortise_rejection_table = 16
};

#endif
