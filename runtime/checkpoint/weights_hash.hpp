// runtime/checkpoint/weights_hash.hpp: a hash of every byte of a checkpoint's weights, computed while they are loaded.
// Each tensor is divided into pieces of 4 MiB, which threads hash in any order. The hashes of the pieces, with each
// tensor's name, dtype and shape, are then hashed in the order of names. So the value depends neither on the number of
// threads nor on the files.
#pragma once

#include <xxhash.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "checkpoint/hash_sidecar.hpp"
#include "checkpoint/safetensors.hpp"
#include "hasher.hpp"

namespace mortise {

// Adds name, dtype, shape and size of a tensor.
void add_description(Hasher& hasher, const std::string& name, const TensorView& view);

// Invariant: each piece is hashed once; value_ is set once and never changes. value() is thread-safe; start() comes
// before it.
class WeightsHash {
 public:
  // `memory` keeps the memory of the tensors. Reads nothing yet.
  WeightsHash(TensorMap tensors, std::shared_ptr<const void> memory)
      : tensors_(std::move(tensors)), memory_(std::move(memory)) {}
  // Ends the hashing threads, which takes at most as long as one piece.
  ~WeightsHash();
  WeightsHash(const WeightsHash&) = delete;
  WeightsHash& operator=(const WeightsHash&) = delete;

  // Takes the value from the sidecar, or else starts threads that compute it. They yield to threads that load.
  // REQUIRES: called at most once, before value().
  void start(std::optional<HashSidecar> sidecar);

  // Returns the hash as 32 hexadecimal digits. Waits for the threads and helps them, then writes the sidecar if there
  // is one. Thread-safe.
  std::string value();

 private:
  void make_pieces();
  void start_threads();
  void hash_pieces();
  std::string combine() const;
  void keep(const std::string& value) const;

  const TensorMap tensors_;
  const std::shared_ptr<const void> memory_;
  std::vector<std::span<const std::byte>> pieces_;  // in the order of names
  std::vector<XXH128_hash_t> hashes_;               // of pieces_
  std::vector<std::size_t> order_;                  // indices of pieces_ in the order of their addresses
  std::atomic<std::size_t> next_ = 0;               // index into order_ of the next piece to hash
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> threads_;
  std::optional<HashSidecar> sidecar_;
  std::mutex mutex_;  // guards the members below
  bool started_ = false;
  std::optional<std::string> value_;
};

}  // namespace mortise
