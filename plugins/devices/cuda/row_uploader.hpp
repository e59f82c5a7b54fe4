// plugins/devices/cuda/row_uploader.hpp: fills device memory with rows that several host threads produce. A single
// thread copies a checkpoint from the page cache at 7 GB/s on a machine whose bus takes 38. Each thread has two
// page-locked pieces and fills one while the other is copied; they are kept for the next weight.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace mortise::cuda {

// The page-locked pieces of all threads. Invariant: a piece is not filled while a copy may read it. One upload() at a
// time; it uses several threads itself.
class RowUploader {
 public:
  static constexpr std::size_t kPieceBytes = std::size_t{2} << 20;

  explicit RowUploader(cudaStream_t stream) : stream_(stream) {}
  ~RowUploader();
  RowUploader(const RowUploader&) = delete;
  RowUploader& operator=(const RowUploader&) = delete;

  // Writes rows [first, last) to `out` without gaps. Several threads call it at the same time for different rows. Must
  // not throw.
  using Fill = std::function<void(std::int64_t first, std::int64_t last, std::byte* out)>;
  // Fills `rows` rows of `row_bytes` bytes at `to` and waits until they are copied. Throws Failure.
  // REQUIRES: row_bytes <= kPieceBytes.
  void upload(std::byte* to, std::int64_t rows, std::size_t row_bytes, const Fill& fill);

 private:
  static constexpr std::size_t kMaxThreads = 8;  // on 16 processors, 4 threads took 1.6 times as long
  struct Lane {                                  // one per thread
    std::byte* memory = nullptr;                 // two pieces
    std::array<cudaEvent_t, 2> sent{};
  };
  class Run;

  const cudaStream_t stream_;
  std::array<Lane, kMaxThreads> lanes_;
};

}  // namespace mortise::cuda
