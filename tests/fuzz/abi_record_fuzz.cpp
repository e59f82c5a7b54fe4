// Records of --record-abi, replayed on parts that read every array that they get to its end. The parts are in this
// file, so that no plugin is loaded.
#include <sstream>

#include "abi_record/call_replay.hpp"
#include "error.hpp"
#include "fuzz_input.hpp"
#include "mortise/attention.h"
#include "mortise/proposer.h"
#include "mortise/scheduler.h"
#include "stub_tables.hpp"

namespace {

constexpr mortise_status kOk = MORTISE_OK;  // of the type that functions return

// Reads `count` values, as a part may do that trusts its host.
template <typename T>
void read(const T* values, std::int64_t count) {
  static volatile unsigned char sink;
  const auto* const bytes = reinterpret_cast<const unsigned char*>(values);
  for (std::int64_t i = 0; values != nullptr && i < count * static_cast<std::int64_t>(sizeof(T)); ++i) {
    sink = static_cast<unsigned char>(sink + bytes[i]);
  }
}

void read_dims(const mortise_model_dims& dims) {
  read(dims.sliding_windows, dims.num_layers);
}

mortise_status events(mortise_scheduler*, const mortise_schedule_events* e, mortise_error*) {
  const std::int64_t n = e->num_events;
  read(e->kinds, n), read(e->seq_ids, n), read(e->num_tokens, n), read(e->max_new_tokens, n), read(e->priorities, n);
  for (std::int64_t i = 0; i < n; ++i) read(e->tokens[i], e->num_tokens == nullptr ? 0 : e->num_tokens[i]);
  read(e->groups, n);
  return kOk;
}

mortise_status plan(mortise_scheduler*, const mortise_schedule_view* v, mortise_schedule_plan* p, mortise_error*) {
  const std::int64_t n = v->num_seqs;
  read(v->seq_ids, n), read(v->states, n), read(v->num_tokens, n), read(v->num_computed, n), read(v->num_cached, n);
  read(v->num_cached_free_blocks, n), read(v->blocks_held, n), read(v->blocks_freed_if_preempted, n);
  read(v->lookahead, n), read(v->priorities, n), read(v->arrivals, n), read(v->groups, n);
  read(v->cached_free_with, n), read(v->cached_free_shared, n);
  p->num_scheduled = p->num_preempted = p->num_pins = v->num_seqs;
  for (std::int32_t i = 0; i < v->num_seqs; ++i) {
    p->seqs[i] = p->num_new_tokens[i] = p->preempted[i] = p->pins[i] = p->pin_tokens[i] = i;
    v->blocks_freed(v->host_data, &i, 1);
  }
  return kOk;
}

mortise_status bind_proposer(mortise_proposer*, const mortise_proposer_bind_args* args, mortise_error*) {
  read_dims(*args->target);
  return kOk;
}

mortise_status observe(mortise_proposer*, const mortise_observation* seen, mortise_error*) {
  const std::int64_t n = seen->num_seqs;
  read(seen->seq_ids, n), read(seen->num_accepted, n), read(seen->first_positions, n);
  read(seen->ended_ids, seen->num_ended);
  if (n > 0) read(seen->token_offsets, n + 1), read(seen->tokens, seen->token_offsets[n]);
  return kOk;
}

mortise_status propose(mortise_proposer*, const mortise_step*, const mortise_proposal_args* args, mortise_error*) {
  const std::int64_t n = args->num_seqs;
  read(args->seq_ids, n), read(args->max_drafts, n), read(args->keys, n), read(args->temperatures, n);
  read(args->positions, n), read(args->top_ks, n), read(args->top_ps, n), read(args->min_ps, n);
  for (std::int32_t i = 0; i < n; ++i) {
    args->num_drafts[i] = args->draft_stride;
    for (std::int32_t j = 0; j < args->draft_stride; ++j) args->tokens[i * args->draft_stride + j] = j;
  }
  return kOk;
}

mortise_status kv_layout(mortise_attention*, const mortise_model_dims* dims, std::int32_t, std::int32_t,
                         mortise_kv_layout* layout, mortise_error*) {
  read_dims(*dims);
  layout->layout_id[0] = 'x';
  layout->bytes_per_block = 1;
  return kOk;
}

mortise_status bind_attention(mortise_attention*, const mortise_attention_bind_args* args, mortise_error*) {
  read_dims(*args->dims);
  return kOk;
}

mortise_status plan_step(mortise_attention*, const mortise_step* step, mortise_error*) {
  const mortise_batch& b = *step->batch;
  const std::int64_t n = b.num_seqs, rows = b.num_tokens;
  read(b.seq_ids, n), read(b.token_ids, rows), read(b.positions, rows), read(b.cu_seqlens_q, n + 1);
  read(b.seq_lens, n), read(b.block_table, n * b.max_blocks), read(b.slot_mapping, rows);
  read(b.logit_rows, b.num_logit_rows), read(b.ended_ids, b.num_ended);
  if (b.num_groups <= 0) return kOk;
  read(b.group_offsets, b.num_groups + std::int64_t{1}), read(b.group_shared_tokens, b.num_groups);
  read(b.group_parents, b.num_groups), read(b.group_seqs, b.group_offsets[b.num_groups]);
  return kOk;
}

void read_tensor(const mortise_tensor& tensor) {
  read(static_cast<const std::byte*>(tensor.data), static_cast<std::int64_t>(tensor.bytes));
}

mortise_status append(mortise_attention*, const mortise_step* step, const mortise_append_args* args, mortise_error*) {
  for (const mortise_tensor* tensor : {args->q, args->k, args->v}) read_tensor(*tensor);
  for (std::int32_t row = 0; args->rope != nullptr && row < step->batch->num_tokens; ++row) {
    const std::int64_t half = args->rope->rotary_dim / 2;
    read(args->rope->cos + step->batch->positions[row] * half, half);
    read(args->rope->sin + step->batch->positions[row] * half, half);
  }
  return kOk;
}

mortise_status run(mortise_attention*, const mortise_step*, std::int32_t, const mortise_tensor* q,
                   const mortise_tensor* out, mortise_error*) {
  read_tensor(*q);
  std::memset(out->data, 0, out->bytes);
  return kOk;
}

mortise_status copy_blocks(mortise_attention*, mortise_stream*, const std::int32_t* from, const std::int32_t* to,
                           std::int32_t num_blocks, mortise_error*) {
  read(from, num_blocks), read(to, num_blocks);
  return kOk;
}

constexpr mortise_scheduler_table kScheduler = {sizeof kScheduler, 0, events, plan};
constexpr mortise_proposer_table kProposer = {sizeof kProposer, 0,       bind_proposer,
                                              observe,          propose, [](mortise_proposer*) { return 4; }};
constexpr mortise_attention_table kAttention = {sizeof kAttention, 0,      kv_layout, bind_attention,
                                                plan_step,         append, run,       copy_blocks};

mortise_device_table device_table() {
  mortise_device_table table = stub::device_table();
  table.describe = [](mortise_device*, mortise_device_info* info) { return info->host_memory = 1, kOk; };
  table.allocate = [](mortise_device*, std::uint64_t bytes, void** memory, mortise_error*) -> mortise_status {
    *memory = bytes > (1 << 20) ? nullptr : std::calloc(1, bytes + 1);
    return *memory == nullptr ? MORTISE_RESOURCE_EXHAUSTED : MORTISE_OK;
  };
  table.free = [](mortise_device*, void* memory) { std::free(memory); };
  table.prepare_weight = [](mortise_device*, const mortise_weight_source* source, mortise_weight** weight,
                            mortise_error*) {
    read_tensor(*source->parts[0]);
    *weight = reinterpret_cast<mortise_weight*>(new int);
    return kOk;
  };
  table.free_weight = [](mortise_device*, mortise_weight* weight) { delete reinterpret_cast<int*>(weight); };
  return table;
}

mortise::PluginFile make_file() {
  static const mortise_device_table device = device_table();
  static const mortise_component abi[] = {
      stub::component(MORTISE_KIND_SCHEDULER, "fuzz", R"({"type": "object"})", &kScheduler),
      stub::component(MORTISE_KIND_PROPOSER, "fuzz", R"({"type": "object"})", &kProposer),
      stub::component(MORTISE_KIND_ATTENTION, "fuzz", R"({"type": "object"})", &kAttention),
      stub::component(MORTISE_KIND_DEVICE, "fuzz", R"({"type": "object"})", &device)};
  static const mortise_component* const components[] = {&abi[0], &abi[1], &abi[2], &abi[3]};
  static const mortise_module module = {sizeof module, 0,   MORTISE_ABI_MINOR, 4,         "fuzz",
                                        "fuzz",        "1", "Apache-2.0",      components};
  mortise::PluginFile file;
  file.components = mortise::check_module(&module, "fuzz.so");
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using mortise::fuzz::require;
  static const mortise::PluginFile file = make_file();
  std::istringstream record(std::string(reinterpret_cast<const char*>(data), size));
  try {
    const mortise::CallReplay replay = mortise::replay_calls(record, "record", file);
    require(!replay.difference || !replay.difference->text.empty());
  } catch (const mortise::Error& error) {
    require(*error.what() != '\0');
  }
  return 0;
}
