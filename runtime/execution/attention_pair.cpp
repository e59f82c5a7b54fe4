#include "execution/attention_pair.hpp"

#include <utility>

#include "mortise/plugin.hpp"

namespace mortise {
namespace {

// Returns the bytes from the first element to the end of the last one. A tensor's rows may have gaps between them that
// belong to other tensors.
std::uint64_t extent(const mortise_tensor& tensor) {
  std::int64_t last = 0;
  for (std::int32_t i = 0; i < tensor.ndim; ++i) last += (tensor.shape[i] - 1) * tensor.stride[i];
  return static_cast<std::uint64_t>((last + 1) * dtype_bytes(tensor.dtype));
}

// Views [T, heads, head_dim] as T rows of heads * head_dim consecutive elements.
HostRows rows_of(std::span<const std::byte> bytes, const mortise_tensor& tensor) {
  const std::int64_t size = dtype_bytes(tensor.dtype);
  return {bytes.data(), tensor.shape[1] * tensor.shape[2] * size, tensor.stride[0] * size, tensor.dtype};
}

AttentionPair& pair_of(mortise_attention* self) {
  return *reinterpret_cast<AttentionPair*>(self);
}

}  // namespace

AttentionPair::AttentionPair(const ShardParts& serving, AttentionPart candidate)
    : device_(serving.device),
      serving_(serving.attention),
      candidate_(std::move(candidate)),
      q_memory_(device_),
      k_memory_(device_),
      out_memory_(device_),
      serving_rows_(device_),
      candidate_rows_(device_) {}

const mortise_attention_table& AttentionPair::table() {
  static const mortise_attention_table value = [] {
    mortise_attention_table table{};
    table.struct_size = sizeof table;
    table.append = [](mortise_attention* self, const mortise_step*, const mortise_append_args* args,
                      mortise_error* error) { return pair_of(self).append(*args, error); };
    table.run = [](mortise_attention* self, const mortise_step*, std::int32_t layer, const mortise_tensor* q,
                   const mortise_tensor* out,
                   mortise_error* error) { return pair_of(self).run(layer, *q, *out, error); };
    return table;
  }();
  return value;
}

void AttentionPair::begin(mortise_step& step) {
  appended_layer_ = -1;
  if (difference_) return;
  candidate_step_ = serving_step_ = step;
  candidate_step_.attention = candidate_.self;
  candidate_step_.attention_table = candidate_.api;
  beside("plan", -1, [&] { candidate_.call<&mortise_attention_table::plan>("plan", &candidate_step_); });
  step.attention = reinterpret_cast<mortise_attention*>(this);
  step.attention_table = &table();
}

void AttentionPair::copy_blocks(std::span<const BlockId> from, std::span<const BlockId> to) {
  if (from.empty()) return;
  beside("copy_blocks", -1, [&] {
    candidate_.call<&mortise_attention_table::copy_blocks>("copy_blocks", nullptr, from.data(), to.data(),
                                                           static_cast<std::int32_t>(from.size()));
  });
}

// Copies a tensor into `memory` with the same strides, including the bytes in its gaps.
mortise_tensor AttentionPair::copy_of(const mortise_tensor& tensor, DeviceBuffer& memory) {
  mortise_tensor copy = tensor;
  copy.bytes = extent(tensor);
  copy.data = memory.reserve(copy.bytes);
  device_.call<&mortise_device_table::copy>("copy", serving_step_.stream, copy.data, tensor.data, copy.bytes);
  return copy;
}

// Runs `work` for the candidate. Its exceptions must not pass through the model that calls the attention: an error ends
// only the comparison.
template <typename Work>
void AttentionPair::beside(const char* function, std::int32_t layer, const Work& work) {
  if (difference_) return;
  try {
    work();
  } catch (const std::exception& exception) {
    failed(function, exception.what(), layer);
  }
}

// append changes q and k in place, so the candidate gets copies made before the serving call.
mortise_status AttentionPair::append(const mortise_append_args& args, mortise_error* error) {
  mortise_append_args own = args;
  mortise_tensor k{};
  beside("append", args.layer, [&] {
    q_ = copy_of(*args.q, q_memory_);
    k = copy_of(*args.k, k_memory_);
    own.q = &q_;
    own.k = &k;
  });
  const mortise_status status = serving_.api->append(serving_.self, &serving_step_, &args, error);
  if (status != MORTISE_OK) return status;
  beside("append", args.layer, [&] {
    candidate_.call<&mortise_attention_table::append>("append", &candidate_step_,
                                                      static_cast<const mortise_append_args*>(&own));
    appended_layer_ = args.layer;
  });
  return status;
}

mortise_status AttentionPair::run(std::int32_t layer, const mortise_tensor& q, const mortise_tensor& out,
                                  mortise_error* error) {
  const mortise_status status = serving_.api->run(serving_.self, &serving_step_, layer, &q, &out, error);
  if (status == MORTISE_OK) beside("run", layer, [&] { run_candidate(layer, q, out); });
  return status;
}

void AttentionPair::run_candidate(std::int32_t layer, const mortise_tensor& q, const mortise_tensor& out) {
  mortise_tensor own = out;
  own.bytes = extent(out);
  own.data = out_memory_.reserve(own.bytes);
  const mortise_tensor* const own_q = layer == appended_layer_ ? &q_ : &q;
  candidate_.call<&mortise_attention_table::run>("run", &candidate_step_, layer, own_q,
                                                 static_cast<const mortise_tensor*>(&own));
  candidate_rows_.start(static_cast<const std::byte*>(own.data), own.bytes);
  serving_rows_.start(static_cast<const std::byte*>(out.data), own.bytes);
  synchronize(device_);
  const HostRows a = rows_of(serving_rows_.data<std::byte>(), out), b = rows_of(candidate_rows_.data<std::byte>(), own);
  const mortise_batch& batch = *serving_step_.batch;
  num_rows_ += static_cast<std::uint64_t>(batch.num_real_tokens);
  const std::optional<ElementAt> at = first_difference(a, b, batch.num_real_tokens);
  if (!at) return;
  difference_ = difference_at(a, b, *at, "attention output");
  difference_->layer = layer;
  place_row(batch, at->row, *difference_);
}

void AttentionPair::failed(const char* function, const char* why, std::int32_t layer) {
  difference_.emplace();
  difference_->what = function;
  difference_->layer = layer;
  difference_->failure = why;
}

}  // namespace mortise
