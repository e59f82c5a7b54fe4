// plugins/devices/cuda/uploader.hpp: two page-locked buffers in turn: one is filled while the other is copied to the
// device. Locking 32 MiB takes milliseconds, so a device allocates them for its first weight and keeps them.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <initializer_list>

namespace mortise::cuda {

// The two buffers and their stream. Invariant: begin() never returns a buffer that a copy still reads. Used by the
// loading thread.
class Uploader {
 public:
  static constexpr std::size_t kStageBytes = std::size_t{16} << 20;

  explicit Uploader(cudaStream_t stream) : stream_(stream) {}
  ~Uploader();  // waits for copies in flight
  Uploader(const Uploader&) = delete;
  Uploader& operator=(const Uploader&) = delete;

  // Returns a buffer of kStageBytes that no copy reads any more. Throws Failure, as the other functions do.
  std::byte* begin();
  // Copies the first bytes of the buffer from begin() to the device.
  void send(std::byte* to, std::size_t bytes);
  // Copies pieces of the buffer, each to its own address.
  struct Piece {
    std::byte* to;
    const void* from;
    std::size_t bytes;
  };
  void send_pieces(std::initializer_list<Piece> pieces);
  void wait();  // waits until all copies have ended

 private:
  struct Stage {
    void* memory = nullptr;
    cudaEvent_t sent = nullptr;
  };
  cudaStream_t stream_;
  std::array<Stage, 2> stages_;
  std::size_t next_ = 0;
};

}  // namespace mortise::cuda
