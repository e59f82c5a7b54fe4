#include "bench_command/link_probe.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "mortise/plugin.hpp"

namespace mortise::bench {
std::vector<DevicePart> devices_of(const Parts& parts) {
  std::vector<DevicePart> devices;
  for (const ShardParts& shard : parts.shards()) devices.push_back(shard.device);
  return devices;
}

LinkProbe::LinkProbe(const Parts& parts, const mortise_model_dims& dims, std::int64_t step_rows)
    : parts_(parts.shards()),
      group_(devices_of(parts)),
      dtype_(dims.dtype),
      columns_(dims.hidden_size),
      one_{1},
      large_{std::max<std::int64_t>(1, kBytes / (columns_ * dtype_bytes(dtype_)))} {
  step_.num_rows = std::min(step_rows, large_.num_rows);
  for (std::int64_t rank = 0; rank <= group_.world(); ++rank) bounds_.push_back(columns_ * rank / group_.world());
  for (const ShardParts& shard : parts_) {
    rows_.push_back(std::make_unique<DeviceBuffer>(shard.device));
    void* const memory = rows_.back()->reserve(kBytes);
    // Pages of a processor that nobody has written are all the same page, which would be in its cache.
    if (shares_host_memory(shard.device)) std::memset(memory, 1, kBytes);
  }
  for (Size* size : {&one_, &step_, &large_}) choose_repeats(*size);
}

void LinkProbe::choose_repeats(Size& size) {
  size.repeats = repeats_of_sample([&] { seconds({size.num_rows}); });
}

// Measures the bandwidth in two ways: rows of one step may stay in caches, and many rows need fewer meetings. The
// better one is closer to the limit.
LinkLimits LinkProbe::sample() {
  return {.latency_s = seconds(one_), .bytes_per_s = std::max(bytes_per_s(step_), bytes_per_s(large_))};
}

double LinkProbe::bytes_per_s(const Size& size) {
  const auto bytes = static_cast<double>(size.num_rows * columns_ * dtype_bytes(dtype_));
  return bytes * (group_.world() - 1) / group_.world() / seconds(size);
}

double LinkProbe::seconds(const Size& size) {
  std::chrono::duration<double> taken{};
  group_.run([&](std::int32_t rank) {
    const DevicePart& device = parts_[static_cast<std::size_t>(rank)].device;
    exchange(rank, 1);  // all ranks begin together
    synchronize(device);
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < size.repeats; ++i) exchange(rank, size.num_rows);
    synchronize(device);
    if (rank == 0) taken = std::chrono::steady_clock::now() - start;
  });
  return taken.count() / static_cast<double>(size.repeats);
}

void LinkProbe::exchange(std::int32_t rank, std::int64_t num_rows) const {
  const auto i = static_cast<std::size_t>(rank);
  const mortise_tensor x = matrix(rows_[i]->reserve(0), dtype_, num_rows, columns_);
  parts_[i].device.perform("all_gather", [&](mortise_error* error) {
    return group_.table()->all_gather(group_.communicator(rank), nullptr, &x, bounds_.data(), error);
  });
}

}  // namespace mortise::bench
