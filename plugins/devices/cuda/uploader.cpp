#include "devices/cuda/uploader.hpp"

#include "devices/cuda/errors.hpp"

namespace mortise::cuda {
namespace {

constexpr char kWhere[] = "prepare_weight";

}  // namespace

Uploader::~Uploader() {
  cudaStreamSynchronize(stream_);
  for (Stage& stage : stages_) {
    if (stage.sent != nullptr) cudaEventDestroy(stage.sent);
    cudaFreeHost(stage.memory);
  }
}

std::byte* Uploader::begin() {
  Stage& stage = stages_[next_];
  if (stage.memory == nullptr) {
    check_cuda(cudaHostAlloc(&stage.memory, kStageBytes, cudaHostAllocDefault), kWhere,
               gib_text(kStageBytes) + " of page-locked memory");
  }
  if (stage.sent == nullptr) check_cuda(cudaEventCreateWithFlags(&stage.sent, cudaEventDisableTiming), kWhere);
  check_cuda(cudaEventSynchronize(stage.sent), kWhere);
  return static_cast<std::byte*>(stage.memory);
}

void Uploader::send(std::byte* to, std::size_t bytes) {
  send_pieces({{to, stages_[next_].memory, bytes}});
}

void Uploader::send_pieces(std::initializer_list<Piece> pieces) {
  for (const Piece& piece : pieces) {
    check_cuda(cudaMemcpyAsync(piece.to, piece.from, piece.bytes, cudaMemcpyHostToDevice, stream_), kWhere);
  }
  check_cuda(cudaEventRecord(stages_[next_].sent, stream_), kWhere);
  next_ = 1 - next_;
}

void Uploader::wait() {
  check_cuda(cudaStreamSynchronize(stream_), kWhere);
}

}  // namespace mortise::cuda
