// runtime/bench_command/probes.hpp: measures the machine's limits in a few hundredths of a second, between the
// measurements that they are compared with: on a shared machine, other programs affect both alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "bench_command/cost.hpp"
#include "bench_command/peak.hpp"

namespace mortise::bench {

// The limits of a pipeline's work, measured at every call of sample(). Used by one thread; a probe may start others.
// Invariant: movement() and working_set_bytes() are the same for all samples.
class LimitProbes {
 public:
  virtual ~LimitProbes() = default;
  virtual Limits sample() = 0;
  // These return, for the report, the kind of movement ("read", "upload"), the number of bytes that are moved
  // repeatedly, and the unit that computes; nullopt: no peak is measured.
  virtual std::string movement() const = 0;
  virtual std::size_t working_set_bytes() const = 0;
  virtual std::optional<std::string> unit() const = 0;
  // Returns for how many ranks a sample holds: the limits are those of one, and of the links between them.
  virtual std::int32_t num_ranks() const { return 1; }
};

// Returns how often `body` must run to take about as long as a sample should.
std::size_t repeats_of_sample(const std::function<void()>& body);

// Runs body(thread) on `num_threads` threads at once, including the caller. Returns the seconds from the start of the
// first to the end of the last.
double run_on_threads(std::size_t num_threads, const std::function<void(std::size_t)>& body);

// Reads memory as fast as one thread can. The result depends on every byte.
// REQUIRES: p is aligned to 64 bytes, and bytes is a multiple of 512.
std::uint64_t read_bytes(const std::byte* p, std::size_t bytes);

// Reads `bytes` of memory repeatedly, in equal shares per thread: measures the bandwidth of the memory, or of the cache
// that holds this many bytes. Used by one thread; reading uses num_threads_ threads. Invariant: the memory is mapped
// and written, so that a read takes no page fault.
class ReadProbe {
 public:
  ReadProbe(std::size_t bytes, std::size_t num_threads);  // throws an Error if there is not enough memory
  ~ReadProbe();
  ReadProbe(const ReadProbe&) = delete;
  ReadProbe& operator=(const ReadProbe&) = delete;

  std::size_t bytes() const { return part_bytes_ * num_threads_; }
  double bytes_per_s();

 private:
  std::size_t num_threads_, part_bytes_, mapped_bytes_;
  std::byte* mapping_;
  std::byte* memory_;  // in the mapping, at the start of a huge page
  std::size_t passes_ = 1;
};

double unit_operations_per_s(Unit unit, std::size_t num_threads);

// The limits of this machine's processors, for the bytes that steps read, the number of threads and the unit. `share`:
// the part of them that a rank has, which works beside the others. Used by one thread. Invariant: all samples read the
// same memory.
class ProcessorProbes : public LimitProbes {
 public:
  // The bytes and threads are those of all ranks together.
  ProcessorProbes(std::size_t working_set_bytes, std::size_t num_threads, std::optional<Unit> unit, double share = 1);

  Limits sample() override;
  std::string movement() const override { return "read"; }
  std::size_t working_set_bytes() const override;
  std::optional<std::string> unit() const override;

 private:
  const double share_;
  ReadProbe read_;
  std::size_t num_threads_;
  std::optional<Unit> unit_;
};

}  // namespace mortise::bench
