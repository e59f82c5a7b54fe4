// runtime/abi_check/attention_calls.cpp: the checks of mortise/attention.h.
#include <cstring>
#include <set>

#include "abi_check/attention_state.hpp"
#include "abi_check/kinds.hpp"
#include "abi_check/memory.hpp"
#include "abi_check/step_rules.hpp"
#include "mortise/struct_sizes.h"

namespace mortise::abi_check {
namespace {

constexpr const char* kHeader = "mortise/attention.h";
constexpr Function kKvLayout = {"kv_layout", Tag::kControl, State::kCreated};
constexpr Function kBind = {"bind", Tag::kControl, State::kCreated};
constexpr Function kPlan = {"plan", Tag::kStep, State::kActive};
constexpr Function kAppend = {"append", Tag::kStep, State::kActive};
constexpr Function kRun = {"run", Tag::kStep, State::kActive};
constexpr Function kCopyBlocks = {"copy_blocks", Tag::kStep, State::kActive};

const mortise_attention_table& table_of(const Attention& self) {
  return self.table<mortise_attention_table>();
}

mortise_status kv_layout(mortise_attention* handle, const mortise_model_dims* dims, std::int32_t kv_dtype,
                         std::int32_t block_size, mortise_kv_layout* layout, mortise_error* error) {
  return checked<Attention>(handle, kKvLayout, error, [&](Call& call, Attention& self) {
    check_dims(call, dims);
    call.check_struct(layout, MORTISE_SIZE_0_5(mortise_kv_layout), "layout");
    const std::uint32_t size = layout->struct_size;
    const mortise_status status = call.make(error, [&](mortise_error* own) {
      return table_of(self).kv_layout(handle, dims, kv_dtype, block_size, layout, own);
    });
    if (status != MORTISE_OK) return status;
    call.part_must(layout->struct_size == size, "mortise/abi.h", "the struct_size that the caller set",
                   "kv_layout changes it to {}", layout->struct_size);
    call.part_must(std::memchr(layout->layout_id, '\0', sizeof layout->layout_id) != nullptr, kHeader, "NUL-terminated",
                   "the layout_id has no end");
    call.part_must(layout->layout_id[0] != '\0', kHeader, "instances with equal ids can read each other's blocks",
                   "the layout_id is empty");
    return status;
  });
}

mortise_status bind(mortise_attention* handle, const mortise_attention_bind_args* args, mortise_error* error) {
  return checked<Attention>(handle, kBind, error, [&](Call& call, Attention& self) {
    call.check_struct(args, MORTISE_SIZE_0_5(mortise_attention_bind_args), "args");
    call.caller_must(!self.is_bound, kHeader, "once, before activate", "bind is called twice");
    check_dims(call, args->dims);
    call.caller_must(args->num_blocks > 0 && args->block_size > 0 && args->kv != nullptr && args->kv_bytes > 0, kHeader,
                     "device memory of num_blocks * bytes_per_block", "{} blocks of {} tokens in {} bytes",
                     args->num_blocks, args->block_size, args->kv_bytes);
    Inputs inputs;
    inputs.add("args", args, 1);
    inputs.add("dims", args->dims, 1);
    const mortise_status status =
        call.make(error, [&](mortise_error* own) { return table_of(self).bind(handle, args, own); });
    inputs.check(call);
    self.is_bound = status == MORTISE_OK;
    self.dims = *args->dims;
    self.block_size = args->block_size;
    self.num_blocks = args->num_blocks;
    return status;
  });
}

mortise_status plan(mortise_attention* handle, const mortise_step* step, mortise_error* error) {
  return checked<Attention>(handle, kPlan, error, [&](Call& call, Attention& self) {
    check_step(call, step);
    const mortise_batch& batch = *step->batch;
    check_batch(call, batch,
                {self.sizes.max_num_seqs, self.sizes.max_batched_tokens, self.sizes.max_model_len, self.block_size,
                 self.num_blocks});
    self.is_planned = true;
    self.step_id = batch.step_id;
    self.num_rows = batch.num_tokens;
    self.appended.clear();
    self.has_run.clear();
    Inputs inputs;
    inputs.add("step", step, 1);
    inputs.add("batch", step->batch, 1);
    inputs.add("token_ids", batch.token_ids, batch.num_tokens);
    inputs.add("positions", batch.positions, batch.num_tokens);
    inputs.add("slot_mapping", batch.slot_mapping, batch.num_tokens);
    inputs.add("cu_seqlens_q", batch.cu_seqlens_q, batch.num_seqs + 1);
    inputs.add("seq_lens", batch.seq_lens, batch.num_seqs);
    inputs.add("seq_ids", batch.seq_ids, batch.num_seqs);
    inputs.add("block_table", batch.block_table, std::int64_t{batch.num_seqs} * batch.max_blocks);
    inputs.add("logit_rows", batch.logit_rows, batch.num_logit_rows);
    const mortise_status status =
        call.make(error, [&](mortise_error* own) { return table_of(self).plan(handle, step, own); });
    inputs.check(call);
    return status;
  });
}

// Checks the rules that append and run share: the step is the one that was planned, and the layer is one of the
// model's.
void check_layer(const Call& call, const Attention& self, const mortise_step* step, std::int32_t layer) {
  check_step(call, step);
  call.caller_must(self.is_planned && self.step_id == step->batch->step_id && self.num_rows == step->batch->num_tokens,
                   kHeader, "Called once per step, before the forward pass or its replay",
                   "{} comes without a plan of this step", call.function().name);
  call.caller_must(layer >= 0 && layer < self.dims.num_layers, kHeader, "The model calls it for each layer",
                   "layer {} of {}", layer, self.dims.num_layers);
}

mortise_status append(mortise_attention* handle, const mortise_step* step, const mortise_append_args* args,
                      mortise_error* error) {
  return checked<Attention>(handle, kAppend, error, [&](Call& call, Attention& self) {
    call.check_struct(args, MORTISE_SIZE_0_5(mortise_append_args), "args");
    check_layer(call, self, step, args->layer);
    const auto device = Device::find(step->device);
    const std::int64_t q[] = {self.num_rows, self.dims.num_heads, self.dims.head_dim};
    const std::int64_t kv[] = {self.num_rows, self.dims.num_kv_heads, self.dims.head_dim};
    check_tensor(call, device.get(), "q", args->q, q, self.dims.dtype);
    check_tensor(call, device.get(), "k", args->k, kv, self.dims.dtype);
    check_tensor(call, device.get(), "v", args->v, kv, self.dims.dtype);
    if (args->rope != nullptr) {
      call.check_struct(args->rope, MORTISE_SIZE_0_5(mortise_rope), "rope");
      call.caller_must(args->rope->rotary_dim > 0 && args->rope->rotary_dim <= self.dims.head_dim, kHeader,
                       "<= head_dim; the rest of the head is unchanged", "rotary_dim is {}", args->rope->rotary_dim);
    }
    Inputs inputs;
    inputs.add("args", args, 1);
    inputs.add_numbers("v", device.get(), *args->v);
    const mortise_status status =
        call.make(error, [&](mortise_error* own) { return table_of(self).append(handle, step, args, own); });
    inputs.check(call);
    if (status == MORTISE_OK) self.appended.insert(args->layer);
    return status;
  });
}

mortise_status run(mortise_attention* handle, const mortise_step* step, std::int32_t layer, const mortise_tensor* q,
                   const mortise_tensor* out, mortise_error* error) {
  return checked<Attention>(handle, kRun, error, [&](Call& call, Attention& self) {
    check_layer(call, self, step, layer);
    call.caller_must(self.appended.contains(layer), kHeader, "The model calls it for each layer before `run`",
                     "run of layer {} comes without append", layer);
    const auto device = Device::find(step->device);
    const std::int64_t heads[] = {self.num_rows, self.dims.num_heads, self.dims.head_dim};
    check_tensor(call, device.get(), "q", q, heads, self.dims.dtype);
    check_tensor(call, device.get(), "out", out, heads, self.dims.dtype);
    Inputs inputs;
    inputs.add("q", q, 1);
    inputs.add("out", out, 1);
    if (q->data != out->data) inputs.add_numbers("the numbers of q", device.get(), *q);
    const mortise_status status =
        call.make(error, [&](mortise_error* own) { return table_of(self).run(handle, step, layer, q, out, own); });
    inputs.check(call);
    if (status == MORTISE_OK) self.has_run.insert(layer);
    return status;
  });
}

mortise_status copy_blocks(mortise_attention* handle, mortise_stream* stream, const std::int32_t* from,
                           const std::int32_t* to, std::int32_t num_blocks, mortise_error* error) {
  return checked<Attention>(handle, kCopyBlocks, error, [&](Call& call, Attention& self) {
    call.check_array(from, num_blocks, kHeader, "from");
    call.check_array(to, num_blocks, kHeader, "to");
    std::set<std::int32_t> sources(from, from + num_blocks), targets;
    for (std::int32_t i = 0; i < num_blocks; ++i) {
      const auto is_block = [&](std::int32_t block) { return block >= 0 && block < self.num_blocks; };
      call.caller_must(is_block(from[i]) && is_block(to[i]), kHeader, "Copies block from[i] to block to[i]",
                       "block {} to block {} of {}", from[i], to[i], self.num_blocks);
      call.caller_must(!sources.contains(to[i]) && targets.insert(to[i]).second, kHeader, "have no block in common",
                       "block {} is written twice, or read", to[i]);
    }
    Inputs inputs;
    inputs.add("from", from, num_blocks);
    inputs.add("to", to, num_blocks);
    const mortise_status status = call.make(error, [&](mortise_error* own) {
      return table_of(self).copy_blocks(handle, stream, from, to, num_blocks, own);
    });
    inputs.check(call);
    return status;
  });
}

}  // namespace

std::shared_ptr<Instance> make_attention(const Component& real) {
  return std::make_shared<Attention>(real);
}

void check_table(mortise_attention_table& table) {
  replace(table.kv_layout, &kv_layout);
  replace(table.bind, &bind);
  replace(table.plan, &plan);
  replace(table.append, &append);
  replace(table.run, &run);
  replace(table.copy_blocks, &copy_blocks);
}

}  // namespace mortise::abi_check
