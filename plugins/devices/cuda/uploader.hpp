// uploader.hpp: two page-locked buffers in turn: one is filled while the other is on its way. Locking 32 MiB takes
// milliseconds, so a device makes them at its first weight and keeps them for the others.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <initializer_list>

namespace mortise::cuda {

class Uploader {
 public:
  static constexpr std::size_t kStageBytes = std::size_t{16} << 20;

  explicit Uploader(cudaStream_t stream) : stream_(stream) {}
  ~Uploader();  // waits for what is on its way
  Uploader(const Uploader&) = delete;
  Uploader& operator=(const Uploader&) = delete;

  // Room for kStageBytes that nothing reads any more. Throws Failure, as the others.
  std::byte* begin();
  // Sends the first bytes of what begin() gave.
  void send(std::byte* to, std::size_t bytes);
  // Sends pieces of it, each to a place of its own.
  struct Piece {
    std::byte* to;
    const void* from;
    std::size_t bytes;
  };
  void send_pieces(std::initializer_list<Piece> pieces);
  void wait();  // until all that was sent is there

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
