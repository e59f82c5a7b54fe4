#include "devices/cuda/recorder.hpp"

#include "kernels/cuda/linear_stream.hpp"

namespace mortise::cuda {

void Recorder::begin(cudaStream_t stream) {
  if (!enabled_ || (open_.load(std::memory_order_acquire) && !is_mine())) return;
  waiting_.clear();
  owner_ = std::this_thread::get_id();
  stream_ = stream;
  error_ = cudaSuccess;
  open_.store(true, std::memory_order_release);
}

cudaError_t Recorder::end() {
  if (!is_mine()) return cudaSuccess;
  launch_all();
  open_.store(false, std::memory_order_release);
  return error_;
}

void Recorder::launch_all() {
  for (std::size_t i = 0; i < waiting_.size();) {
    const std::optional<Found> found = tail_at(i);
    const cudaError_t error = found ? launch_layer_tail(found->tail, stream_) : launch(waiting_[i]);
    if (error_ == cudaSuccess) error_ = error;
    i += found ? found->count : 1;
  }
  waiting_.clear();
}

cudaError_t Recorder::launch(const Operation& operation) const {
  if (const auto* product = std::get_if<LinearArgs>(&operation)) return launch_linear_stream(*product, stream_);
  if (const auto* norm = std::get_if<NormArgs>(&operation)) return launch_norm(*norm, stream_);
  const auto& gated = std::get<Gated>(operation);
  return launch_gated_stream(gated.product, gated.activation, stream_);
}

std::optional<Recorder::Found> Recorder::tail_at(std::size_t begin) const {
  constexpr std::size_t kWithoutNext = 5;
  if (waiting_.size() < begin + kWithoutNext) return std::nullopt;
  const Operation* const at = waiting_.data() + begin;
  const auto* const o = std::get_if<LinearArgs>(&at[0]);
  const auto* const after_attention = std::get_if<NormArgs>(&at[1]);
  const auto* const gated = std::get_if<Gated>(&at[2]);
  const auto* const down = std::get_if<LinearArgs>(&at[3]);
  const auto* const after_mlp = std::get_if<NormArgs>(&at[4]);
  if (o == nullptr || after_attention == nullptr || gated == nullptr || down == nullptr || after_mlp == nullptr) {
    return std::nullopt;
  }
  LayerTail tail = {*o, *after_attention, gated->product, gated->activation, *down, *after_mlp, {}};
  if (waiting_.size() > begin + kWithoutNext) {
    if (const auto* const next = std::get_if<LinearArgs>(&at[kWithoutNext])) {
      tail.next = *next;
      if (serves_layer_tail(tail)) return Found{tail, kWithoutNext + 1};
      tail.next = {};
    }
  }
  if (!serves_layer_tail(tail)) return std::nullopt;
  return Found{tail, kWithoutNext};
}

}  // namespace mortise::cuda
