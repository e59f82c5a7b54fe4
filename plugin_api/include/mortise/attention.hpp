// mortise/attention.hpp: C++ helpers for attention plugins. Not part of the ABI: compiled into the plugin, like
// plugin.hpp. C++20. Since 0.5. Functions without a class keep no state, so any thread may call them.
//   PagedKv              the KV cache that bind() gives, and checks of every step against it
//   AttentionComponent   builds the component of an attention from a C++ class:
//     constexpr mortise_component kMine =
//         mortise::AttentionComponent<Mine>::component("mine", "...", kOptionsSchema, "my-numerics/1", capabilities);
//     MORTISE_PLUGIN("example.mine", "Example", "1.0.0", "Apache-2.0", &kMine)
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "mortise/attention.h"
#include "mortise/plugin.hpp"

namespace mortise {

// An options schema for attentions whose only option is block_size. The host reads the option, because it owns the
// blocks; the plugin gets the value from bind().
inline constexpr const char* kBlockSizeSchema = R"({
  "$schema": "http://json-schema.org/draft-07/schema#",
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "block_size": {
      "title": "tokens of a KV block",
      "type": "integer",
      "enum": [16, 32, 64, 128],
      "default": 16
    }
  }
})";

// Throws UNIMPLEMENTED unless the query heads are a multiple of the KV heads and block_size is one of kBlockSizeSchema.
// A value of 0 means that it is not known yet; it is not checked.
inline void require_paged_shape(const char* where, const mortise_model_dims& dims, int32_t block_size) {
  if (dims.num_heads < 0 || dims.num_kv_heads < 0 ||
      (dims.num_kv_heads != 0 && dims.num_heads % dims.num_kv_heads != 0)) {
    throw Failure(MORTISE_UNIMPLEMENTED, where,
                  std::to_string(dims.num_heads) + " query heads cannot share " + std::to_string(dims.num_kv_heads) +
                      " kv heads evenly");
  }
  if (block_size != 0 && block_size != 16 && block_size != 32 && block_size != 64 && block_size != 128) {
    throw Failure(MORTISE_UNIMPLEMENTED, where,
                  "block_size is " + std::to_string(block_size) + "; expected 16, 32, 64 or 128");
  }
}

// Throws INVALID_ARGUMENT if an argument of kv_layout() is missing.
inline void require_layout_arguments(const mortise_model_dims& dims, int32_t kv_dtype, int32_t block_size) {
  if (dims.head_dim < 1 || dims.num_kv_heads < 1 || dims.num_layers < 1 || block_size < 1 || kv_dtype == 0) {
    invalid("kv_layout", "the model's dimensions, kv_dtype and block_size must all be given");
  }
}

// The data of q, k, v or out of a step, [rows, heads, head_dim].
struct AttentionHeads {
  void* data;
  int64_t row_stride, head_stride;  // elements
};

// The paged KV cache of one model, as bind() gives it, and checks of the arrays of each step: an attention that reads
// through wrong arrays gives one sequence the tokens of another. The checks throw INVALID_ARGUMENT, or
// FAILED_PRECONDITION for a call before bind or plan. The message names the function, the sequence or row, and the
// fault. For one thread at a time. Invariant: window_index() of each layer is an index into windows().
class PagedKv {
 public:
  // `layout` is what the plugin's kv_layout() gives for these arguments. `alignment` is the alignment of the KV memory
  // that its kernels need, in bytes.
  void bind(const mortise_attention_bind_args& args, const mortise_kv_layout& layout, std::size_t alignment);

  const mortise_model_dims& dims() const { return dims_; }
  int32_t block_size() const { return block_size_; }
  int32_t num_blocks() const { return num_blocks_; }
  std::size_t block_bytes() const { return block_bytes_; }
  std::byte* data() const { return data_; }  // null before bind

  // The distinct widths of the layers' sliding windows; 0: no window. An attention makes a plan for each.
  const std::vector<int32_t>& windows() const { return windows_; }
  // The index in windows() of a layer's window. REQUIRES: 0 <= layer < num_layers.
  std::size_t window_index(int32_t layer) const { return window_index_[static_cast<std::size_t>(layer)]; }

  void require_bound(const char* where) const {
    if (data_ == nullptr) throw Failure(MORTISE_FAILED_PRECONDITION, where, "call bind first");
  }
  // Checks block tables, slots and positions of all sequences, and the slots of padding rows.
  void check_batch(const mortise_batch& batch) const;
  // Checks the prefix groups; for attentions with MORTISE_CAP_CASCADE.
  void check_groups(const mortise_batch& batch) const;
  // Checks the arguments of copy_blocks().
  void check_copies(const int32_t* from, const int32_t* to, int32_t num_copies) const;
  // Checks that the tensor is [num_rows, num_heads, head_dim] of the model's dtype, and returns its data. `name` is the
  // tensor's name in messages: q, k, v or out.
  AttentionHeads heads(const mortise_tensor& tensor, const char* where, const char* name, int32_t num_heads,
                       int64_t num_rows) const;
  // Checks and returns append's rope. Without a rope, the result has rotary_dim 0.
  mortise_rope rope(const mortise_append_args& args) const;

  // A plugin's plan() calls set_planned(); its append() and run() call require_planned(), which throws if plan() was
  // not called for this step.
  void set_planned(const mortise_batch& batch) { planned_step_ = batch.step_id, planned_ = true; }
  void clear_planned() { planned_ = false; }
  bool is_planned() const { return planned_; }
  void require_planned(const mortise_step& step, const char* where, int32_t layer) const;

 private:
  void check_sequence(const mortise_batch& batch, int32_t seq) const;
  void check_group(const mortise_batch& batch, int32_t group, std::vector<int32_t>& group_of) const;

  mortise_model_dims dims_{};
  std::byte* data_ = nullptr;
  std::size_t block_bytes_ = 0;
  int32_t block_size_ = 0, num_blocks_ = 0;
  std::vector<int32_t> windows_;
  std::vector<std::size_t> window_index_;  // [num_layers]
  uint64_t planned_step_ = 0;
  bool planned_ = false;
};

inline void PagedKv::bind(const mortise_attention_bind_args& args, const mortise_kv_layout& layout,
                          std::size_t alignment) {
  if (args.dims == nullptr || args.kv == nullptr) invalid("bind", "dims and kv must be given");
  const mortise_model_dims dims = known(args.dims);
  if (dims.dtype == 0) invalid("bind", "the model's dtype must be given");
  if (dims.num_heads < 1) invalid("bind", "the model has no query heads");
  if (!(dims.attention_scale > 0) || !std::isfinite(dims.attention_scale)) {
    invalid("bind", "attention_scale " + std::to_string(dims.attention_scale) + " is not a positive number");
  }
  if (args.num_blocks < 1 || args.kv_bytes / layout.bytes_per_block < static_cast<uint64_t>(args.num_blocks)) {
    invalid("bind", "kv_bytes is " + std::to_string(args.kv_bytes) + ", too small for " +
                        std::to_string(args.num_blocks) + " blocks of " + std::to_string(layout.bytes_per_block) +
                        " bytes");
  }
  if (reinterpret_cast<std::uintptr_t>(args.kv) % alignment != 0) {
    invalid("bind", "kv is not aligned to " + std::to_string(alignment) + " bytes");
  }
  dims_ = dims;
  data_ = static_cast<std::byte*>(args.kv);
  block_bytes_ = static_cast<std::size_t>(layout.bytes_per_block);
  block_size_ = args.block_size;
  num_blocks_ = args.num_blocks;
  planned_ = false;
  windows_.clear();
  window_index_.clear();
  for (int32_t layer = 0; layer < dims.num_layers; ++layer) {
    const int32_t window = dims.sliding_windows == nullptr ? 0 : std::max(0, dims.sliding_windows[layer]);
    const auto same = std::find(windows_.begin(), windows_.end(), window);
    window_index_.push_back(static_cast<std::size_t>(same - windows_.begin()));
    if (same == windows_.end()) windows_.push_back(window);
  }
}

inline void PagedKv::check_sequence(const mortise_batch& batch, int32_t seq) const {
  const auto wrong = [&](const std::string& why) { invalid("plan", "sequence " + std::to_string(seq) + ": " + why); };
  const int32_t begin = batch.cu_seqlens_q[seq], end = batch.cu_seqlens_q[seq + 1], seq_len = batch.seq_lens[seq];
  if (begin > end || begin < 0 || end > batch.num_tokens) wrong("cu_seqlens_q does not ascend to num_tokens");
  if (seq_len == 0) return;
  if (seq_len < end - begin) wrong("seq_len is smaller than its number of rows");
  const int32_t needed = (seq_len - 1) / block_size_ + 1;
  if (needed > batch.max_blocks) wrong("block_table has too few entries for its seq_len");
  const int32_t* blocks = batch.block_table + static_cast<std::ptrdiff_t>(seq) * batch.max_blocks;
  for (int32_t i = 0; i < needed; ++i) {
    if (blocks[i] < 0 || blocks[i] >= num_blocks_) wrong("block " + std::to_string(blocks[i]) + " is not in the pool");
  }
  for (int32_t row = begin; row < end; ++row) {
    const int32_t position = seq_len - (end - row);
    if (batch.positions[row] != position) wrong("positions do not end at seq_len - 1");
    const int64_t slot = static_cast<int64_t>(blocks[position / block_size_]) * block_size_ + position % block_size_;
    if (batch.slot_mapping[row] != slot) wrong("slot_mapping does not match block_table");
  }
}

inline void PagedKv::check_batch(const mortise_batch& batch) const {
  if (batch.block_size != block_size_) {
    invalid("plan", "the batch has block_size " + std::to_string(batch.block_size) + ", but the cache has " +
                        std::to_string(block_size_));
  }
  if (batch.cu_seqlens_q[0] != 0 || batch.cu_seqlens_q[batch.num_seqs] != batch.num_tokens) {
    invalid("plan", "cu_seqlens_q does not go from 0 to num_tokens");
  }
  for (int32_t seq = 0; seq < batch.num_seqs; ++seq) check_sequence(batch, seq);
  // Padding rows have no position that could be checked.
  const int64_t slots = static_cast<int64_t>(num_blocks_) * block_size_;
  for (int32_t row = 0; row < batch.num_tokens; ++row) {
    if (batch.slot_mapping[row] >= slots)
      invalid("plan", "row " + std::to_string(row) + ": its slot is not in the pool");
  }
}

inline void PagedKv::check_group(const mortise_batch& batch, int32_t group, std::vector<int32_t>& group_of) const {
  const auto wrong = [&](const std::string& why) {
    invalid("plan", "prefix group " + std::to_string(group) + ": " + why);
  };
  const int32_t begin = batch.group_offsets[group], end = batch.group_offsets[group + 1];
  const int32_t parent = batch.group_parents[group], shared = batch.group_shared_tokens[group];
  if (begin < 0 || begin > end) wrong("group_offsets do not ascend");
  if (parent < -1 || parent >= group) wrong("its parent does not come before it");
  const int32_t before = parent < 0 ? 0 : batch.group_shared_tokens[parent];
  if (shared <= before || shared % block_size_ != 0)
    wrong("its shared tokens must be whole blocks, and more than its parent's");
  // The parent's check has compared the blocks of its shared tokens.
  const int32_t first_block = before / block_size_, end_block = shared / block_size_;
  const int32_t* first_table = nullptr;
  for (int32_t i = begin; i < end; ++i) {
    const int32_t seq = batch.group_seqs[i];
    const auto wrong_run = [&](const std::string& why) { wrong("run " + std::to_string(seq) + why); };
    if (seq < 0 || seq >= batch.num_seqs) wrong_run(" is not in the batch");
    // The groups of a run follow each other, each the parent of the next.
    int32_t& innermost = group_of[static_cast<std::size_t>(seq)];
    if (innermost != parent) wrong_run(" is not in the parent group, or is also in a sibling group");
    innermost = group;
    const int32_t num_rows = batch.cu_seqlens_q[seq + 1] - batch.cu_seqlens_q[seq];
    if (num_rows < 1 || batch.seq_lens[seq] - num_rows < shared - 1) {
      wrong_run(" has a row that does not see all shared tokens");
    }
    const int32_t* table = batch.block_table + static_cast<std::ptrdiff_t>(seq) * batch.max_blocks;
    if (first_table == nullptr) first_table = table;
    if (!std::equal(table + first_block, table + end_block, first_table + first_block)) {
      wrong_run(" does not share its blocks with run " + std::to_string(batch.group_seqs[begin]));
    }
  }
}

inline void PagedKv::check_groups(const mortise_batch& batch) const {
  if (batch.num_groups == 0) return;
  const bool complete = batch.group_offsets != nullptr && batch.group_seqs != nullptr &&
                        batch.group_shared_tokens != nullptr && batch.group_parents != nullptr;
  if (batch.num_groups < 0 || !complete) invalid("plan", "prefix groups: an array is missing");
  std::vector<int32_t> group_of(static_cast<std::size_t>(batch.num_seqs), -1);  // innermost group so far
  for (int32_t group = 0; group < batch.num_groups; ++group) check_group(batch, group, group_of);
}

inline void PagedKv::check_copies(const int32_t* from, const int32_t* to, int32_t num_copies) const {
  require_bound("copy_blocks");
  for (int32_t i = 0; i < num_copies; ++i) {
    if (from[i] < 0 || from[i] >= num_blocks_ || to[i] < 0 || to[i] >= num_blocks_) {
      invalid("copy_blocks",
              "block " + std::to_string(from[i]) + " or " + std::to_string(to[i]) + " is not in the pool");
    }
  }
}

inline AttentionHeads PagedKv::heads(const mortise_tensor& tensor, const char* where, const char* name,
                                     int32_t num_heads, int64_t num_rows) const {
  const auto wrong = [&](const std::string& why) { invalid(where, std::string(name) + " " + why); };
  if (tensor.dtype != dims_.dtype) {
    wrong("has dtype code " + std::to_string(tensor.dtype) + ", but the model has " + std::to_string(dims_.dtype));
  }
  if (tensor.ndim != 3 || tensor.shape[0] != num_rows || tensor.shape[1] != num_heads ||
      tensor.shape[2] != dims_.head_dim) {
    wrong("must be [" + std::to_string(num_rows) + ", " + std::to_string(num_heads) + ", " +
          std::to_string(dims_.head_dim) + "], but is [" + std::to_string(tensor.shape[0]) + ", " +
          std::to_string(tensor.shape[1]) + ", " + std::to_string(tensor.shape[2]) + "] with " +
          std::to_string(tensor.ndim) + " dimensions");
  }
  if (tensor.stride[2] != 1 || tensor.stride[0] < 0 || tensor.stride[1] < 0) {
    wrong("must be contiguous within a head");
  }
  const int64_t elements =
      num_rows == 0 ? 0 : (num_rows - 1) * tensor.stride[0] + (num_heads - 1) * tensor.stride[1] + dims_.head_dim;
  if (elements > 0 &&
      (tensor.data == nullptr || static_cast<uint64_t>(elements * dtype_bytes(tensor.dtype)) > tensor.bytes)) {
    wrong("does not fit its " + std::to_string(tensor.bytes) + " bytes");
  }
  return {tensor.data, tensor.stride[0], tensor.stride[1]};
}

inline mortise_rope PagedKv::rope(const mortise_append_args& args) const {
  if (args.rope == nullptr) return {};
  const mortise_rope rope = known(args.rope);
  if (rope.rotary_dim < 0 || rope.rotary_dim % 2 != 0 || rope.rotary_dim > dims_.head_dim) {
    invalid("append", "rotary_dim is " + std::to_string(rope.rotary_dim) + "; expected an even number up to head_dim");
  }
  return rope;
}

inline void PagedKv::require_planned(const mortise_step& step, const char* where, int32_t layer) const {
  if (!planned_ || step.batch->step_id != planned_step_) {
    throw Failure(MORTISE_FAILED_PRECONDITION, where, "plan was not called for this step");
  }
  if (layer < 0 || layer >= dims_.num_layers) invalid(where, "there is no layer " + std::to_string(layer));
}

// The C functions and the table of one attention class. The class Attention needs
//   Attention(const mortise_host*, const mortise_create_args&)
//   static void require_supported(const mortise_model_dims&, int32_t kv_dtype, int32_t block_size)
//                                 throws a Failure with the reason if it does not serve them; 0: not known yet
//   mortise_kv_layout kv_layout(const mortise_model_dims&, int32_t kv_dtype, int32_t block_size)
//   bind, activate, deactivate, plan, append, run, copy_blocks
//                                 as in attention.h and plugin.h, with references in place of pointers, and throwing
//                                 a Failure in place of returning a status
// and may have
//   static constexpr const char* kDevice
//                                 the name of the only device that it runs on, such as "cuda". Without kDevice the
//                                 constructor looks at args.device_table, and throws if it cannot run on that device
//   static const void* get_ext(const char* id)
// attention.h says on which thread each is called. An instance pointer is always an Attention that `create` made. Has
// no state: every thread tag of attention.h and plugin.h holds as it is.
template <typename Attention>
class AttentionComponent {
 public:
  // The texts must be static. `capabilities` is a mask of MORTISE_CAP_*.
  static constexpr mortise_component component(const char* name, const char* summary, const char* options_schema,
                                               const char* numerics_id, uint64_t capabilities) {
    return {sizeof(mortise_component),
            0,
            MORTISE_KIND_ATTENTION,
            0,
            capabilities,
            name,
            summary,
            options_schema,
            numerics_id,
            &kTable,
            supports,
            create,
            destroy,
            activate,
            deactivate,
            kHasExtensions ? get_ext : nullptr};
  }

 private:
  static constexpr bool kHasExtensions = requires(const char* id) { Attention::get_ext(id); };

  static Attention& self(void* instance) { return *static_cast<Attention*>(instance); }
  static Attention& self(mortise_attention* instance) { return *reinterpret_cast<Attention*>(instance); }

  static void require_device([[maybe_unused]] std::string_view name) {
    if constexpr (requires { Attention::kDevice; }) {
      if (name != Attention::kDevice) {
        throw Failure(
            MORTISE_UNIMPLEMENTED, "attention",
            std::string("this file is for the device ") + Attention::kDevice + ", not for " + std::string(name));
      }
    }
  }
  static mortise_status supports(const mortise_query* query, mortise_error* reason) {
    return guard(reason, "supports", [&] {
      const auto asked = known(query);
      if (asked.device != nullptr) require_device(asked.device);
      Attention::require_supported(asked.dims == nullptr ? mortise_model_dims{} : known(asked.dims), asked.kv_dtype,
                                   asked.block_size);
    });
  }
  static mortise_status create(const mortise_host* host, const mortise_create_args* args, void** instance,
                               mortise_error* error) {
    return guard(error, "create", [&] { *instance = new Attention(host, known(args)); });
  }
  static void destroy(void* instance) { delete &self(instance); }
  static mortise_status activate(void* instance, const mortise_activate_args* args, mortise_error* error) {
    return guard(error, "activate", [&] { self(instance).activate(known(args)); });
  }
  static void deactivate(void* instance) { self(instance).deactivate(); }
  static const void* get_ext(void*, const char* id) {
    if constexpr (kHasExtensions) return Attention::get_ext(id);
    return nullptr;
  }

  static mortise_status kv_layout(mortise_attention* attention, const mortise_model_dims* dims, int32_t kv_dtype,
                                  int32_t block_size, mortise_kv_layout* layout, mortise_error* error) {
    return guard(error, "kv_layout", [&] {
      mortise_kv_layout value = self(attention).kv_layout(known(dims), kv_dtype, block_size);
      value.struct_size = layout->struct_size;
      std::memcpy(layout, &value, std::min<std::size_t>(layout->struct_size, sizeof value));
    });
  }
  static mortise_status bind(mortise_attention* attention, const mortise_attention_bind_args* args,
                             mortise_error* error) {
    return guard(error, "bind", [&] { self(attention).bind(known(args)); });
  }
  static mortise_status plan(mortise_attention* attention, const mortise_step* step, mortise_error* error) {
    return guard(error, "plan", [&] { self(attention).plan(known(step)); });
  }
  static mortise_status append(mortise_attention* attention, const mortise_step* step, const mortise_append_args* args,
                               mortise_error* error) {
    return guard(error, "append", [&] { self(attention).append(known(step), known(args)); });
  }
  static mortise_status run(mortise_attention* attention, const mortise_step* step, int32_t layer,
                            const mortise_tensor* q, const mortise_tensor* out, mortise_error* error) {
    return guard(error, "run", [&] { self(attention).run(known(step), layer, known(q), known(out)); });
  }
  static mortise_status copy_blocks(mortise_attention* attention, mortise_stream* stream, const int32_t* from,
                                    const int32_t* to, int32_t num_blocks, mortise_error* error) {
    return guard(error, "copy_blocks", [&] { self(attention).copy_blocks(stream, from, to, num_blocks); });
  }

  static constexpr mortise_attention_table kTable = {
      sizeof(mortise_attention_table), 0, kv_layout, bind, plan, append, run, copy_blocks};
};

}  // namespace mortise
