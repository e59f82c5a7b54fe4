/* tests/unit/plugin_api/layout.c: the layout of the ABI, written down. A line that fails to compile is a change that
 * breaks plugins which are built already: only the tail of a struct may change, with a new minor. A field that is added
 * gets a line here, and the struct its new size in mortise/struct_sizes.h. 64-bit targets; the file has no code. */
#include "mortise/abi.h"
#include "mortise/tensor.h"
#include "mortise/batch.h"
#include "mortise/host.h"
#include "mortise/plugin.h"
#include "mortise/device.h"
#include "mortise/model.h"
#include "mortise/attention.h"
#include "mortise/proposer.h"
#include "mortise/scheduler.h"
#include "mortise/struct_sizes.h"
#include "mortise/ext/parallel.h"
#include "mortise/ext/graph.h"
#include "mortise/ext/collective.h"
#include "mortise/ext/checkpoint.h"
#include "mortise/ext/kv_reads.h"
#include "mortise/ext/rejection.h"
#include "mortise/ext/runner.h"
#include "mortise/ext/sequences.h"
#include "mortise/ext/tuning.h"
#include "mortise/ext/weight_cache.h"

/* The struct has had this size since minor 0.`minor`. */
#define SIZE(type, minor) MORTISE_STATIC_ASSERT(sizeof(type) == MORTISE_SIZE_0_##minor(type), "size of " #type)
#define AT(type, field, bytes) MORTISE_STATIC_ASSERT(offsetof(type, field) == (bytes), #type "." #field)

MORTISE_STATIC_ASSERT(MORTISE_ABI_MAJOR == 0 && MORTISE_ABI_MINOR == 6, "this file is the layout of 0.6");

/* abi.h */
SIZE(mortise_error, 5);
AT(mortise_error, struct_size, 0);
AT(mortise_error, code, 4);
AT(mortise_error, where, 8);
AT(mortise_error, message, 72);
SIZE(mortise_string_view, 5);
AT(mortise_string_view, data, 0);
AT(mortise_string_view, size, 8);

/* tensor.h */
SIZE(mortise_tensor, 5);
AT(mortise_tensor, struct_size, 0);
AT(mortise_tensor, flags, 4);
AT(mortise_tensor, data, 8);
AT(mortise_tensor, dtype, 16);
AT(mortise_tensor, ndim, 20);
AT(mortise_tensor, shape, 24);
AT(mortise_tensor, stride, 56);
AT(mortise_tensor, bytes, 88);

/* batch.h */
SIZE(mortise_batch, 5);
AT(mortise_batch, struct_size, 0);
AT(mortise_batch, flags, 4);
AT(mortise_batch, step_id, 8);
AT(mortise_batch, num_seqs, 16);
AT(mortise_batch, num_tokens, 20);
AT(mortise_batch, num_logit_rows, 24);
AT(mortise_batch, num_real_seqs, 28);
AT(mortise_batch, num_real_tokens, 32);
AT(mortise_batch, block_size, 36);
AT(mortise_batch, max_blocks, 40);
AT(mortise_batch, max_query_len, 44);
AT(mortise_batch, max_seq_len, 48);
AT(mortise_batch, seq_ids, 56);
AT(mortise_batch, token_ids, 64);
AT(mortise_batch, positions, 72);
AT(mortise_batch, cu_seqlens_q, 80);
AT(mortise_batch, seq_lens, 88);
AT(mortise_batch, block_table, 96);
AT(mortise_batch, slot_mapping, 104);
AT(mortise_batch, logit_rows, 112);
AT(mortise_batch, device_token_ids, 120);
AT(mortise_batch, device_positions, 128);
AT(mortise_batch, device_cu_seqlens_q, 136);
AT(mortise_batch, device_seq_lens, 144);
AT(mortise_batch, device_block_table, 152);
AT(mortise_batch, device_slot_mapping, 160);
AT(mortise_batch, device_logit_rows, 168);
AT(mortise_batch, num_groups, 176);
AT(mortise_batch, num_ended, 180);
AT(mortise_batch, group_offsets, 184);
AT(mortise_batch, group_seqs, 192);
AT(mortise_batch, group_shared_tokens, 200);
AT(mortise_batch, ended_ids, 208);
AT(mortise_batch, group_parents, 216);
SIZE(mortise_model_dims, 6);
AT(mortise_model_dims, struct_size, 0);
AT(mortise_model_dims, flags, 4);
AT(mortise_model_dims, num_layers, 8);
AT(mortise_model_dims, hidden_size, 12);
AT(mortise_model_dims, num_heads, 16);
AT(mortise_model_dims, num_kv_heads, 20);
AT(mortise_model_dims, head_dim, 24);
AT(mortise_model_dims, vocab_size, 28);
AT(mortise_model_dims, max_model_len, 32);
AT(mortise_model_dims, dtype, 36);
AT(mortise_model_dims, attention_scale, 40);
AT(mortise_model_dims, sliding_windows, 48);
AT(mortise_model_dims, weight_bits, 56);
AT(mortise_model_dims, weight_group_size, 60);
AT(mortise_model_dims, weight_type, MORTISE_SIZE_0_5(mortise_model_dims));
AT(mortise_model_dims, reserved, 68);

/* host.h */
SIZE(mortise_host, 5);
AT(mortise_host, struct_size, 0);
AT(mortise_host, flags, 4);
AT(mortise_host, abi_minor, 8);
AT(mortise_host, reserved, 12);
AT(mortise_host, name, 16);
AT(mortise_host, version, 24);
AT(mortise_host, log, 32);
AT(mortise_host, allocate, 40);
AT(mortise_host, free, 48);
AT(mortise_host, now_ns, 56);
AT(mortise_host, get_ext, 64);

/* plugin.h */
SIZE(mortise_query, 5);
AT(mortise_query, struct_size, 0);
AT(mortise_query, flags, 4);
AT(mortise_query, device, 8);
AT(mortise_query, dims, 16);
AT(mortise_query, model_config, 24);
AT(mortise_query, kv_dtype, 40);
AT(mortise_query, block_size, 44);
SIZE(mortise_create_args, 6);
AT(mortise_create_args, struct_size, 0);
AT(mortise_create_args, flags, 4);
AT(mortise_create_args, options, 8);
AT(mortise_create_args, device, 24);
AT(mortise_create_args, device_table, 32);
AT(mortise_create_args, model_config, 40);
AT(mortise_create_args, rank, 56);
AT(mortise_create_args, world, 60);
AT(mortise_create_args, option_reader, MORTISE_SIZE_0_5(mortise_create_args));
SIZE(mortise_option_reader, 6);
AT(mortise_option_reader, struct_size, 0);
AT(mortise_option_reader, flags, 4);
AT(mortise_option_reader, context, 8);
AT(mortise_option_reader, get_int, 16);
AT(mortise_option_reader, get_float, 24);
AT(mortise_option_reader, get_bool, 32);
AT(mortise_option_reader, get_text, 40);
AT(mortise_option_reader, get_json, 48);
SIZE(mortise_activate_args, 5);
AT(mortise_activate_args, struct_size, 0);
AT(mortise_activate_args, flags, 4);
AT(mortise_activate_args, max_num_seqs, 8);
AT(mortise_activate_args, max_batched_tokens, 12);
AT(mortise_activate_args, max_logit_rows, 16);
AT(mortise_activate_args, max_model_len, 20);
AT(mortise_activate_args, block_size, 24);
AT(mortise_activate_args, num_blocks, 28);
SIZE(mortise_component, 5);
AT(mortise_component, struct_size, 0);
AT(mortise_component, flags, 4);
AT(mortise_component, kind, 8);
AT(mortise_component, reserved, 12);
AT(mortise_component, capabilities, 16);
AT(mortise_component, name, 24);
AT(mortise_component, summary, 32);
AT(mortise_component, options_schema, 40);
AT(mortise_component, numerics_id, 48);
AT(mortise_component, table, 56);
AT(mortise_component, supports, 64);
AT(mortise_component, create, 72);
AT(mortise_component, destroy, 80);
AT(mortise_component, activate, 88);
AT(mortise_component, deactivate, 96);
AT(mortise_component, get_ext, 104);
SIZE(mortise_module, 5);
AT(mortise_module, struct_size, 0);
AT(mortise_module, flags, 4);
AT(mortise_module, abi_minor, 8);
AT(mortise_module, num_components, 12);
AT(mortise_module, id, 16);
AT(mortise_module, vendor, 24);
AT(mortise_module, version, 32);
AT(mortise_module, license, 40);
AT(mortise_module, components, 48);
SIZE(mortise_entry_args, 6);
AT(mortise_entry_args, struct_size, 0);
AT(mortise_entry_args, flags, 4);
AT(mortise_entry_args, abi_minor, 8);
AT(mortise_entry_args, oldest_abi_minor, 12);
AT(mortise_entry_args, host_name, 16);
AT(mortise_entry_args, host_version, 24);

/* device.h */
SIZE(mortise_device_info, 5);
AT(mortise_device_info, struct_size, 0);
AT(mortise_device_info, flags, 4);
AT(mortise_device_info, name, 8);
AT(mortise_device_info, isa, 72);
AT(mortise_device_info, num_threads, 136);
AT(mortise_device_info, host_memory, 140);
AT(mortise_device_info, memory_bytes, 144);
SIZE(mortise_quantized_matrix, 6);
AT(mortise_quantized_matrix, struct_size, 0);
AT(mortise_quantized_matrix, flags, 4);
AT(mortise_quantized_matrix, n, 8);
AT(mortise_quantized_matrix, k, 16);
AT(mortise_quantized_matrix, bits, 24);
AT(mortise_quantized_matrix, group_size, 28);
AT(mortise_quantized_matrix, order, 32);
AT(mortise_quantized_matrix, context, 40);
AT(mortise_quantized_matrix, read, 48);
AT(mortise_quantized_matrix, value_type, MORTISE_SIZE_0_5(mortise_quantized_matrix));
AT(mortise_quantized_matrix, zero, 60);
SIZE(mortise_weight_source, 5);
AT(mortise_weight_source, struct_size, 0);
AT(mortise_weight_source, flags, 4);
AT(mortise_weight_source, use, 8);
AT(mortise_weight_source, num_parts, 12);
AT(mortise_weight_source, parts, 16);
AT(mortise_weight_source, dtype, 24);
AT(mortise_weight_source, bits, 28);
AT(mortise_weight_source, group_size, 32);
AT(mortise_weight_source, value_type, 36);
AT(mortise_weight_source, quantized, 40);
AT(mortise_weight_source, name, 48);
SIZE(mortise_linear_args, 5);
AT(mortise_linear_args, struct_size, 0);
AT(mortise_linear_args, flags, 4);
AT(mortise_linear_args, x, 8);
AT(mortise_linear_args, weight, 16);
AT(mortise_linear_args, bias, 24);
AT(mortise_linear_args, out, 32);
AT(mortise_linear_args, column_begin, 40);
AT(mortise_linear_args, column_end, 44);
AT(mortise_linear_args, gate_activation, 48);
AT(mortise_linear_args, reserved, 52);
SIZE(mortise_norm_args, 5);
AT(mortise_norm_args, struct_size, 0);
AT(mortise_norm_args, flags, 4);
AT(mortise_norm_args, x, 8);
AT(mortise_norm_args, residual, 16);
AT(mortise_norm_args, weight, 24);
AT(mortise_norm_args, bias, 32);
AT(mortise_norm_args, out, 40);
AT(mortise_norm_args, eps, 48);
AT(mortise_norm_args, reserved, 52);
SIZE(mortise_head_reduce_args, 5);
AT(mortise_head_reduce_args, struct_size, 0);
AT(mortise_head_reduce_args, flags, 4);
AT(mortise_head_reduce_args, logits, 8);
AT(mortise_head_reduce_args, vocab_begin, 16);
AT(mortise_head_reduce_args, first, 20);
AT(mortise_head_reduce_args, max, 24);
AT(mortise_head_reduce_args, sum, 32);
AT(mortise_head_reduce_args, targets, 40);
AT(mortise_head_reduce_args, target_logits, 48);
AT(mortise_head_reduce_args, ranks, 56);
AT(mortise_head_reduce_args, top_n, 64);
AT(mortise_head_reduce_args, reserved, 68);
AT(mortise_head_reduce_args, top_ids, 72);
AT(mortise_head_reduce_args, top_logits, 80);
AT(mortise_head_reduce_args, lse, 88);
SIZE(mortise_logit_edit, 5);
AT(mortise_logit_edit, token, 0);
AT(mortise_logit_edit, bias, 4);
AT(mortise_logit_edit, repetition, 8);
AT(mortise_logit_edit, subtract, 12);
SIZE(mortise_sample_args, 5);
AT(mortise_sample_args, struct_size, 0);
AT(mortise_sample_args, flags, 4);
AT(mortise_sample_args, logits, 8);
AT(mortise_sample_args, temperatures, 16);
AT(mortise_sample_args, top_ks, 24);
AT(mortise_sample_args, top_ps, 32);
AT(mortise_sample_args, min_ps, 40);
AT(mortise_sample_args, keys, 48);
AT(mortise_sample_args, positions, 56);
AT(mortise_sample_args, edits, 64);
AT(mortise_sample_args, edit_begins, 72);
AT(mortise_sample_args, edit_counts, 80);
AT(mortise_sample_args, allowed_index, 88);
AT(mortise_sample_args, allowed_masks, 96);
AT(mortise_sample_args, tokens, 104);
AT(mortise_sample_args, processed_logprobs, 112);
SIZE(mortise_device_table, 5);
AT(mortise_device_table, struct_size, 0);
AT(mortise_device_table, flags, 4);
AT(mortise_device_table, describe, 8);
AT(mortise_device_table, numerics_id, 16);
AT(mortise_device_table, memory_info, 24);
AT(mortise_device_table, allocate, 32);
AT(mortise_device_table, free, 40);
AT(mortise_device_table, copy, 48);
AT(mortise_device_table, fill, 56);
AT(mortise_device_table, stream_create, 64);
AT(mortise_device_table, stream_destroy, 72);
AT(mortise_device_table, stream_synchronize, 80);
AT(mortise_device_table, stream_native, 88);
AT(mortise_device_table, event_create, 96);
AT(mortise_device_table, event_destroy, 104);
AT(mortise_device_table, event_record, 112);
AT(mortise_device_table, event_wait, 120);
AT(mortise_device_table, event_synchronize, 128);
AT(mortise_device_table, prepare_weight, 136);
AT(mortise_device_table, free_weight, 144);
AT(mortise_device_table, linear, 152);
AT(mortise_device_table, embed, 160);
AT(mortise_device_table, rms_norm, 168);
AT(mortise_device_table, layer_norm, 176);
AT(mortise_device_table, gated_activation, 184);
AT(mortise_device_table, activation, 192);
AT(mortise_device_table, add, 200);
AT(mortise_device_table, gather_rows, 208);
AT(mortise_device_table, head_reduce, 216);
AT(mortise_device_table, sample, 224);
AT(mortise_device_table, vocab_slice, 232);
AT(mortise_device_table, get_ext, 240);
AT(mortise_device_table, host_allocate, 248);
AT(mortise_device_table, host_free, 256);
AT(mortise_device_table, vector_weight, 264);
AT(mortise_device_table, scatter_rows, 272);

/* model.h */
SIZE(mortise_step, 5);
AT(mortise_step, struct_size, 0);
AT(mortise_step, flags, 4);
AT(mortise_step, generation, 8);
AT(mortise_step, batch, 16);
AT(mortise_step, device, 24);
AT(mortise_step, device_table, 32);
AT(mortise_step, stream, 40);
AT(mortise_step, attention, 48);
AT(mortise_step, attention_table, 56);
AT(mortise_step, rank, 64);
AT(mortise_step, world, 68);
AT(mortise_step, communicator, 72);
AT(mortise_step, collective, 80);
SIZE(mortise_weight_reader, 5);
AT(mortise_weight_reader, struct_size, 0);
AT(mortise_weight_reader, flags, 4);
AT(mortise_weight_reader, context, 8);
AT(mortise_weight_reader, get, 16);
AT(mortise_weight_reader, get_quantized, 24);
SIZE(mortise_model_table, 5);
AT(mortise_model_table, struct_size, 0);
AT(mortise_model_table, flags, 4);
AT(mortise_model_table, dims, 8);
AT(mortise_model_table, load, 16);
AT(mortise_model_table, forward, 24);
AT(mortise_model_table, head, 32);

/* attention.h */
SIZE(mortise_kv_layout, 5);
AT(mortise_kv_layout, struct_size, 0);
AT(mortise_kv_layout, flags, 4);
AT(mortise_kv_layout, layout_id, 8);
AT(mortise_kv_layout, bytes_per_block, 72);
SIZE(mortise_attention_bind_args, 5);
AT(mortise_attention_bind_args, struct_size, 0);
AT(mortise_attention_bind_args, flags, 4);
AT(mortise_attention_bind_args, dims, 8);
AT(mortise_attention_bind_args, kv_dtype, 16);
AT(mortise_attention_bind_args, block_size, 20);
AT(mortise_attention_bind_args, num_blocks, 24);
AT(mortise_attention_bind_args, reserved, 28);
AT(mortise_attention_bind_args, kv, 32);
AT(mortise_attention_bind_args, kv_bytes, 40);
SIZE(mortise_rope, 5);
AT(mortise_rope, struct_size, 0);
AT(mortise_rope, flags, 4);
AT(mortise_rope, cos, 8);
AT(mortise_rope, sin, 16);
AT(mortise_rope, rotary_dim, 24);
AT(mortise_rope, interleaved, 28);
SIZE(mortise_append_args, 5);
AT(mortise_append_args, struct_size, 0);
AT(mortise_append_args, flags, 4);
AT(mortise_append_args, layer, 8);
AT(mortise_append_args, reserved, 12);
AT(mortise_append_args, q, 16);
AT(mortise_append_args, k, 24);
AT(mortise_append_args, v, 32);
AT(mortise_append_args, rope, 40);
AT(mortise_append_args, q_norm, 48);
AT(mortise_append_args, k_norm, 56);
AT(mortise_append_args, norm_eps, 64);
AT(mortise_append_args, reserved2, 68);
SIZE(mortise_attention_table, 5);
AT(mortise_attention_table, struct_size, 0);
AT(mortise_attention_table, flags, 4);
AT(mortise_attention_table, kv_layout, 8);
AT(mortise_attention_table, bind, 16);
AT(mortise_attention_table, plan, 24);
AT(mortise_attention_table, append, 32);
AT(mortise_attention_table, run, 40);
AT(mortise_attention_table, copy_blocks, 48);

/* proposer.h */
SIZE(mortise_proposer_bind_args, 5);
AT(mortise_proposer_bind_args, struct_size, 0);
AT(mortise_proposer_bind_args, flags, 4);
AT(mortise_proposer_bind_args, target, 8);
AT(mortise_proposer_bind_args, vocab_hash, 16);
SIZE(mortise_observation, 5);
AT(mortise_observation, struct_size, 0);
AT(mortise_observation, flags, 4);
AT(mortise_observation, num_seqs, 8);
AT(mortise_observation, num_ended, 12);
AT(mortise_observation, seq_ids, 16);
AT(mortise_observation, token_offsets, 24);
AT(mortise_observation, tokens, 32);
AT(mortise_observation, num_accepted, 40);
AT(mortise_observation, hidden, 48);
AT(mortise_observation, ended_ids, 56);
AT(mortise_observation, first_positions, 64);
AT(mortise_observation, hidden_rows, 72);
SIZE(mortise_proposal_args, 5);
AT(mortise_proposal_args, struct_size, 0);
AT(mortise_proposal_args, flags, 4);
AT(mortise_proposal_args, num_seqs, 8);
AT(mortise_proposal_args, draft_stride, 12);
AT(mortise_proposal_args, seq_ids, 16);
AT(mortise_proposal_args, max_drafts, 24);
AT(mortise_proposal_args, keys, 32);
AT(mortise_proposal_args, temperatures, 40);
AT(mortise_proposal_args, positions, 48);
AT(mortise_proposal_args, tokens, 56);
AT(mortise_proposal_args, num_drafts, 64);
AT(mortise_proposal_args, parents, 72);
AT(mortise_proposal_args, distributions, 80);
AT(mortise_proposal_args, top_ks, 88);
AT(mortise_proposal_args, top_ps, 96);
AT(mortise_proposal_args, min_ps, 104);
SIZE(mortise_proposer_table, 5);
AT(mortise_proposer_table, struct_size, 0);
AT(mortise_proposer_table, flags, 4);
AT(mortise_proposer_table, bind, 8);
AT(mortise_proposer_table, observe, 16);
AT(mortise_proposer_table, propose, 24);
AT(mortise_proposer_table, max_drafts, 32);

/* scheduler.h */
SIZE(mortise_schedule_view, 6);
AT(mortise_schedule_view, struct_size, 0);
AT(mortise_schedule_view, flags, 4);
AT(mortise_schedule_view, step_id, 8);
AT(mortise_schedule_view, num_seqs, 16);
AT(mortise_schedule_view, block_size, 20);
AT(mortise_schedule_view, token_budget, 24);
AT(mortise_schedule_view, seq_budget, 28);
AT(mortise_schedule_view, num_free_blocks, 32);
AT(mortise_schedule_view, num_blocks, 36);
AT(mortise_schedule_view, seq_ids, 40);
AT(mortise_schedule_view, states, 48);
AT(mortise_schedule_view, num_tokens, 56);
AT(mortise_schedule_view, num_computed, 64);
AT(mortise_schedule_view, num_cached, 72);
AT(mortise_schedule_view, num_cached_free_blocks, 80);
AT(mortise_schedule_view, blocks_held, 88);
AT(mortise_schedule_view, blocks_freed_if_preempted, 96);
AT(mortise_schedule_view, lookahead, 104);
AT(mortise_schedule_view, priorities, 112);
AT(mortise_schedule_view, arrivals, 120);
AT(mortise_schedule_view, groups, 128);
AT(mortise_schedule_view, cached_free_with, 136);
AT(mortise_schedule_view, cached_free_shared, 144);
AT(mortise_schedule_view, blocks_freed, MORTISE_SIZE_0_5(mortise_schedule_view));
AT(mortise_schedule_view, host_data, 160);
SIZE(mortise_schedule_plan, 5);
AT(mortise_schedule_plan, struct_size, 0);
AT(mortise_schedule_plan, flags, 4);
AT(mortise_schedule_plan, num_scheduled, 8);
AT(mortise_schedule_plan, num_preempted, 12);
AT(mortise_schedule_plan, num_pins, 16);
AT(mortise_schedule_plan, reserved, 20);
AT(mortise_schedule_plan, seqs, 24);
AT(mortise_schedule_plan, num_new_tokens, 32);
AT(mortise_schedule_plan, preempted, 40);
AT(mortise_schedule_plan, pins, 48);
AT(mortise_schedule_plan, pin_tokens, 56);
AT(mortise_schedule_plan, max_drafts, 64);
SIZE(mortise_schedule_events, 5);
AT(mortise_schedule_events, struct_size, 0);
AT(mortise_schedule_events, flags, 4);
AT(mortise_schedule_events, num_events, 8);
AT(mortise_schedule_events, reserved, 12);
AT(mortise_schedule_events, kinds, 16);
AT(mortise_schedule_events, seq_ids, 24);
AT(mortise_schedule_events, num_tokens, 32);
AT(mortise_schedule_events, tokens, 40);
AT(mortise_schedule_events, max_new_tokens, 48);
AT(mortise_schedule_events, priorities, 56);
AT(mortise_schedule_events, groups, 64);
SIZE(mortise_scheduler_table, 5);
AT(mortise_scheduler_table, struct_size, 0);
AT(mortise_scheduler_table, flags, 4);
AT(mortise_scheduler_table, events, 8);
AT(mortise_scheduler_table, plan, 16);

/* ext/checkpoint.h */
SIZE(mortise_checkpoint_table, 5);
AT(mortise_checkpoint_table, struct_size, 0);
AT(mortise_checkpoint_table, flags, 4);
AT(mortise_checkpoint_table, open, 8);
AT(mortise_checkpoint_table, close, 16);
AT(mortise_checkpoint_table, config, 24);
AT(mortise_checkpoint_table, reader, 32);

/* ext/kv_reads.h */
SIZE(mortise_kv_reads_table, 5);
AT(mortise_kv_reads_table, struct_size, 0);
AT(mortise_kv_reads_table, flags, 4);
AT(mortise_kv_reads_table, kv_bytes, 8);

/* ext/rejection.h */
SIZE(mortise_verify_drafts_args, 6);
AT(mortise_verify_drafts_args, struct_size, 0);
AT(mortise_verify_drafts_args, flags, 4);
AT(mortise_verify_drafts_args, rows, 8);
AT(mortise_verify_drafts_args, drafts, 16);
AT(mortise_verify_drafts_args, distributions, 24);
AT(mortise_verify_drafts_args, distribution_rows, 32);
SIZE(mortise_rejection_table, 6);
AT(mortise_rejection_table, struct_size, 0);
AT(mortise_rejection_table, flags, 4);
AT(mortise_rejection_table, verify_drafts, 8);

/* ext/sequences.h */
SIZE(mortise_sequences_table, 5);
AT(mortise_sequences_table, struct_size, 0);
AT(mortise_sequences_table, flags, 4);
AT(mortise_sequences_table, num_sequences, 8);

/* ext/tuning.h */
SIZE(mortise_tuning_table, 5);
AT(mortise_tuning_table, struct_size, 0);
AT(mortise_tuning_table, flags, 4);
AT(mortise_tuning_table, keep_beside, 8);

/* ext/weight_cache.h */
SIZE(mortise_weight_cache_args, 5);
AT(mortise_weight_cache_args, struct_size, 0);
AT(mortise_weight_cache_args, flags, 4);
AT(mortise_weight_cache_args, folder, 8);
AT(mortise_weight_cache_args, format, 24);
AT(mortise_weight_cache_args, identity, 40);
SIZE(mortise_weight_cache_table, 5);
AT(mortise_weight_cache_table, struct_size, 0);
AT(mortise_weight_cache_table, flags, 4);
AT(mortise_weight_cache_table, enabled, 8);
AT(mortise_weight_cache_table, open, 16);
AT(mortise_weight_cache_table, close, 24);

/* ext/parallel.h */
SIZE(mortise_parallel_table, 5);
AT(mortise_parallel_table, struct_size, 0);
AT(mortise_parallel_table, flags, 4);
AT(mortise_parallel_table, num_threads, 8);
AT(mortise_parallel_table, run, 16);
AT(mortise_parallel_table, isa, 24);

/* ext/graph.h */
SIZE(mortise_graph_table, 5);
AT(mortise_graph_table, struct_size, 0);
AT(mortise_graph_table, flags, 4);
AT(mortise_graph_table, begin, 8);
AT(mortise_graph_table, end, 16);
AT(mortise_graph_table, replay, 24);
AT(mortise_graph_table, destroy, 32);

/* ext/collective.h */
SIZE(mortise_collective_table, 6);
AT(mortise_collective_table, struct_size, 0);
AT(mortise_collective_table, flags, 4);
AT(mortise_collective_table, num_ranks, 8);
AT(mortise_collective_table, create, 16);
AT(mortise_collective_table, destroy, 24);
AT(mortise_collective_table, all_gather, 32);
AT(mortise_collective_table, abort, 40);

/* ext/runner.h */
SIZE(mortise_runner_open_args, 5);
AT(mortise_runner_open_args, struct_size, 0);
AT(mortise_runner_open_args, flags, 4);
AT(mortise_runner_open_args, path, 8);
AT(mortise_runner_open_args, options, 24);
AT(mortise_runner_open_args, max_forks, 40);
AT(mortise_runner_open_args, reserved, 44);
SIZE(mortise_runner_tokens, 5);
AT(mortise_runner_tokens, struct_size, 0);
AT(mortise_runner_tokens, flags, 4);
AT(mortise_runner_tokens, num_seqs, 8);
AT(mortise_runner_tokens, reserved, 12);
AT(mortise_runner_tokens, seq_ids, 16);
AT(mortise_runner_tokens, begins, 24);
AT(mortise_runner_tokens, offsets, 32);
AT(mortise_runner_tokens, tokens, 40);
SIZE(mortise_runner_step, 5);
AT(mortise_runner_step, struct_size, 0);
AT(mortise_runner_step, flags, 4);
AT(mortise_runner_step, num_seqs, 8);
AT(mortise_runner_step, num_choices, 12);
AT(mortise_runner_step, seq_ids, 16);
AT(mortise_runner_step, keys, 24);
AT(mortise_runner_step, temperatures, 32);
AT(mortise_runner_step, top_ks, 40);
AT(mortise_runner_step, top_ps, 48);
AT(mortise_runner_step, min_ps, 56);
AT(mortise_runner_step, sampled, 64);
AT(mortise_runner_step, logits, 72);
SIZE(mortise_runner_forks, 5);
AT(mortise_runner_forks, struct_size, 0);
AT(mortise_runner_forks, flags, 4);
AT(mortise_runner_forks, num_forks, 8);
AT(mortise_runner_forks, reserved, 12);
AT(mortise_runner_forks, from_ids, 16);
AT(mortise_runner_forks, to_ids, 24);
AT(mortise_runner_forks, tokens, 32);
SIZE(mortise_runner_table, 5);
AT(mortise_runner_table, struct_size, 0);
AT(mortise_runner_table, flags, 4);
AT(mortise_runner_table, open, 8);
AT(mortise_runner_table, close, 16);
AT(mortise_runner_table, dims, 24);
AT(mortise_runner_table, update, 32);
AT(mortise_runner_table, step, 40);
AT(mortise_runner_table, end, 48);
AT(mortise_runner_table, fork, 56);

/* Numbers that are written into files and structs. */
MORTISE_STATIC_ASSERT(MORTISE_OK == 0, "MORTISE_OK");
MORTISE_STATIC_ASSERT(MORTISE_CANCELLED == 1, "MORTISE_CANCELLED");
MORTISE_STATIC_ASSERT(MORTISE_UNKNOWN == 2, "MORTISE_UNKNOWN");
MORTISE_STATIC_ASSERT(MORTISE_INVALID_ARGUMENT == 3, "MORTISE_INVALID_ARGUMENT");
MORTISE_STATIC_ASSERT(MORTISE_NOT_FOUND == 5, "MORTISE_NOT_FOUND");
MORTISE_STATIC_ASSERT(MORTISE_RESOURCE_EXHAUSTED == 8, "MORTISE_RESOURCE_EXHAUSTED");
MORTISE_STATIC_ASSERT(MORTISE_FAILED_PRECONDITION == 9, "MORTISE_FAILED_PRECONDITION");
MORTISE_STATIC_ASSERT(MORTISE_OUT_OF_RANGE == 11, "MORTISE_OUT_OF_RANGE");
MORTISE_STATIC_ASSERT(MORTISE_UNIMPLEMENTED == 12, "MORTISE_UNIMPLEMENTED");
MORTISE_STATIC_ASSERT(MORTISE_INTERNAL == 13, "MORTISE_INTERNAL");
MORTISE_STATIC_ASSERT(MORTISE_UNAVAILABLE == 14, "MORTISE_UNAVAILABLE");
MORTISE_STATIC_ASSERT(MORTISE_DATA_LOSS == 15, "MORTISE_DATA_LOSS");
MORTISE_STATIC_ASSERT(MORTISE_KIND_DEVICE == 1, "MORTISE_KIND_DEVICE");
MORTISE_STATIC_ASSERT(MORTISE_KIND_MODEL == 2, "MORTISE_KIND_MODEL");
MORTISE_STATIC_ASSERT(MORTISE_KIND_ATTENTION == 3, "MORTISE_KIND_ATTENTION");
MORTISE_STATIC_ASSERT(MORTISE_KIND_PROPOSER == 4, "MORTISE_KIND_PROPOSER");
MORTISE_STATIC_ASSERT(MORTISE_KIND_SCHEDULER == 5, "MORTISE_KIND_SCHEDULER");
MORTISE_STATIC_ASSERT(MORTISE_I8 == 8, "MORTISE_I8");
MORTISE_STATIC_ASSERT(MORTISE_I32 == 32, "MORTISE_I32");
MORTISE_STATIC_ASSERT(MORTISE_I64 == 64, "MORTISE_I64");
MORTISE_STATIC_ASSERT(MORTISE_U8 == 264, "MORTISE_U8");
MORTISE_STATIC_ASSERT(MORTISE_U32 == 288, "MORTISE_U32");
MORTISE_STATIC_ASSERT(MORTISE_F16 == 528, "MORTISE_F16");
MORTISE_STATIC_ASSERT(MORTISE_F32 == 544, "MORTISE_F32");
MORTISE_STATIC_ASSERT(MORTISE_BF16 == 1040, "MORTISE_BF16");
MORTISE_STATIC_ASSERT(MORTISE_LOG_DEBUG == 0, "MORTISE_LOG_DEBUG");
MORTISE_STATIC_ASSERT(MORTISE_LOG_ERROR == 3, "MORTISE_LOG_ERROR");
MORTISE_STATIC_ASSERT(MORTISE_WEIGHT_LINEAR == 1, "MORTISE_WEIGHT_LINEAR");
MORTISE_STATIC_ASSERT(MORTISE_WEIGHT_EMBEDDING == 2, "MORTISE_WEIGHT_EMBEDDING");
MORTISE_STATIC_ASSERT(MORTISE_WEIGHT_VECTOR == 4, "MORTISE_WEIGHT_VECTOR");
MORTISE_STATIC_ASSERT(MORTISE_ACT_SILU == 1, "MORTISE_ACT_SILU");
MORTISE_STATIC_ASSERT(MORTISE_ACT_GELU == 2, "MORTISE_ACT_GELU");
MORTISE_STATIC_ASSERT(MORTISE_ACT_GELU_TANH == 3, "MORTISE_ACT_GELU_TANH");
MORTISE_STATIC_ASSERT(MORTISE_ACT_RELU == 4, "MORTISE_ACT_RELU");
MORTISE_STATIC_ASSERT(MORTISE_SEQ_WAITING == 0, "MORTISE_SEQ_WAITING");
MORTISE_STATIC_ASSERT(MORTISE_SEQ_RUNNING == 1, "MORTISE_SEQ_RUNNING");
MORTISE_STATIC_ASSERT(MORTISE_EVENT_ADDED == 1, "MORTISE_EVENT_ADDED");
MORTISE_STATIC_ASSERT(MORTISE_EVENT_ENDED == 2, "MORTISE_EVENT_ENDED");
MORTISE_STATIC_ASSERT(MORTISE_EVENT_PREFIX_RESIDENT == 3, "MORTISE_EVENT_PREFIX_RESIDENT");
MORTISE_STATIC_ASSERT(MORTISE_EVENT_PREFIX_EVICTED == 4, "MORTISE_EVENT_PREFIX_EVICTED");
