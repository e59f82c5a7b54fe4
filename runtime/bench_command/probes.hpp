// runtime/bench_command/probes.hpp: measures the machine's limits, a few hundredths of a second at a time, so that they
// can be taken between the measurements that they are compared with: neighbours on a shared machine move both alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "bench_command/cost.hpp"
#include "bench_command/peak.hpp"

namespace mortise::bench {

// What the work of a pipeline runs into, measured whenever it is asked for.
class LimitProbes {
 public:
  virtual ~LimitProbes() = default;
  virtual Limits sample() = 0;
  // What was measured, for the report: how the bytes move ("read", "upload"), how many of them again and again, and
  // what computed; nullopt: no peak is measured.
  virtual std::string movement() const = 0;
  virtual std::size_t working_set_bytes() const = 0;
  virtual std::optional<std::string> unit() const = 0;
};

// How often `body` is to run so that it takes about as long as one sample should.
std::size_t repeats_of_sample(const std::function<void()>& body);

// Runs body(thread) on so many threads at once, the caller among them; the time in seconds from the start of the first
// to the end of the last.
double run_on_threads(std::size_t num_threads, const std::function<void(std::size_t)>& body);

// Reads memory as fast as one thread can; what it returns depends on all of it. REQUIRES: p is aligned to 64 bytes,
// bytes is a multiple of 512.
std::uint64_t read_bytes(const std::byte* p, std::size_t bytes);

// Reads `bytes` of memory again and again, an equal part a thread: the bandwidth of the memory, or of the cache that so
// many bytes fit.
class ReadProbe {
 public:
  ReadProbe(std::size_t bytes, std::size_t num_threads);  // throws an Error when there is not that much memory
  ~ReadProbe();
  ReadProbe(const ReadProbe&) = delete;
  ReadProbe& operator=(const ReadProbe&) = delete;

  std::size_t bytes() const { return part_bytes_ * num_threads_; }
  double bytes_per_s();

 private:
  std::size_t num_threads_, part_bytes_, mapped_bytes_;
  std::byte* mapping_;
  std::byte* memory_;  // in the mapping, at a multiple of a huge page
  std::size_t passes_ = 1;
};

double unit_operations_per_s(Unit unit, std::size_t num_threads);

// Those of this machine's processors: how much steps read, on how many threads, in which unit.
class ProcessorProbes : public LimitProbes {
 public:
  ProcessorProbes(std::size_t working_set_bytes, std::size_t num_threads, std::optional<Unit> unit);

  Limits sample() override;
  std::string movement() const override { return "read"; }
  std::size_t working_set_bytes() const override { return read_.bytes(); }
  std::optional<std::string> unit() const override;

 private:
  ReadProbe read_;
  std::size_t num_threads_;
  std::optional<Unit> unit_;
};

}  // namespace mortise::bench
