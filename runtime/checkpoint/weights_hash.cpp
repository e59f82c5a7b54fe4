#include "checkpoint/weights_hash.hpp"

#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <numeric>
#include <system_error>
#include <utility>

#include "error.hpp"
#include "hasher.hpp"

namespace mortise {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{4} << 20;  // half a millisecond of work
constexpr unsigned kMaxThreads = 4;                        // more threads only wait for memory

// Maps all pages of a piece with one call, which is faster than single page faults. Older kernels refuse the call.
void populate(std::span<const std::byte> piece) {
#ifdef MADV_POPULATE_READ
  static const auto kPageMask = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE)) - 1;
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(piece.data());
  const std::uintptr_t page = begin & ~kPageMask;
  ::madvise(reinterpret_cast<void*>(page), piece.size() + (begin - page), MADV_POPULATE_READ);
#endif
}

// Lowers the priority of the calling thread, because loading comes first. (On Linux each thread has its own priority.)
void yield_to_others() {
  constexpr int kNice = 10;
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);
}

}  // namespace

void add_description(Hasher& hasher, const std::string& name, const TensorView& view) {
  hasher.add(name);
  hasher.add(view.dtype_name);
  hasher.add(view.shape.size());
  for (const std::int64_t extent : view.shape) hasher.add(static_cast<std::uint64_t>(extent));
  hasher.add(view.bytes.size());
}

WeightsHash::~WeightsHash() {
  stop_ = true;
  for (std::thread& thread : threads_) thread.join();
}

void WeightsHash::start(std::optional<HashSidecar> sidecar) {
  const std::lock_guard lock(mutex_);
  started_ = true;
  if (sidecar) value_ = sidecar->read();
  if (value_) {
    spdlog::debug("{}: has the hash of the weights, so they are not read again", sidecar->path().native());
    return;
  }
  sidecar_ = std::move(sidecar);
  start_threads();
}

std::string WeightsHash::value() {
  const std::lock_guard lock(mutex_);
  if (value_) return *value_;
  if (!started_) start_threads();
  started_ = true;
  hash_pieces();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  value_ = combine();
  if (sidecar_) keep(*value_);
  return *value_;
}

void WeightsHash::make_pieces() {
  for (const auto& [name, view] : tensors_) {
    for (std::size_t at = 0; at < view.bytes.size(); at += kPieceBytes) {
      pieces_.push_back(view.bytes.subspan(at, std::min(kPieceBytes, view.bytes.size() - at)));
    }
  }
  hashes_.resize(pieces_.size());
  // Disks are read fastest in the order of the file.
  order_.resize(pieces_.size());
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::sort(order_.begin(), order_.end(),
            [&](std::size_t a, std::size_t b) { return std::less<>()(pieces_[a].data(), pieces_[b].data()); });
}

void WeightsHash::start_threads() {
  make_pieces();
  // Half of the processors; the other half loads.
  const unsigned num_threads = std::clamp(std::thread::hardware_concurrency() / 2, 1u, kMaxThreads);
  try {
    while (threads_.size() < num_threads) {
      threads_.emplace_back([this] {
        yield_to_others();
        hash_pieces();
      });
    }
  } catch (const std::system_error&) {  // no thread could be started: value() does the work
  }
}

void WeightsHash::hash_pieces() {
  while (!stop_) {
    const std::size_t i = next_++;
    if (i >= order_.size()) return;
    const std::span<const std::byte> piece = pieces_[order_[i]];
    populate(piece);
    hashes_[order_[i]] = XXH3_128bits(piece.data(), piece.size());
  }
}

std::string WeightsHash::combine() const {
  Hasher hasher;
  std::size_t piece = 0;
  for (const auto& [name, view] : tensors_) {
    add_description(hasher, name, view);
    const std::size_t num_pieces = (view.bytes.size() + kPieceBytes - 1) / kPieceBytes;
    for (std::size_t i = 0; i < num_pieces; ++i, ++piece) {
      hasher.add(hashes_[piece].low64);
      hasher.add(hashes_[piece].high64);
    }
  }
  return hasher.hex();
}

void WeightsHash::keep(const std::string& value) const {
  try {
    sidecar_->write(value);
    spdlog::debug("{}: keeps the hash of {} tensors", sidecar_->path().native(), tensors_.size());
  } catch (const Error& error) {
    spdlog::info("{}; the next start hashes the weights again", error.what());
  }
}

}  // namespace mortise
