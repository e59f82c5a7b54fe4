#include "devices/cuda/collective.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "devices/checks/matrix.hpp"
#include "devices/cuda/cuda_device.hpp"
#include "devices/cuda/errors.hpp"
#include "devices/cuda/matrix.hpp"
#include "devices/cuda/temporary.hpp"

// The communicator of one rank. `abort` may be called by any thread, all else by the thread of its rank.
struct mortise_communicator {
  mortise_device* device = nullptr;
  std::shared_ptr<mortise::cuda::GatherWatch> watch;
  mortise::cuda::RankGatherArgs args{};  // without the rows
};

namespace mortise::cuda {
namespace {

constexpr char kWhere[] = "all_gather";
constexpr char kCreate[] = "create";
// Ranks do the same work at the same time, so one that is so late has hung.
constexpr std::uint64_t kPatienceSeconds = 10;

// Lets the current GPU read and write the memory of `other`.
void enable_peer(int ordinal, int other) {
  if (ordinal == other) return;
  int can = 0;
  check_cuda(cudaDeviceCanAccessPeer(&can, ordinal, other), kCreate);
  if (can == 0) {
    throw Failure(MORTISE_FAILED_PRECONDITION, kCreate,
                  "GPU " + std::to_string(ordinal) + " cannot read the memory of GPU " + std::to_string(other) +
                      " (`nvidia-smi topo -p2p r` shows which can); choose others in `devices`");
  }
  const cudaError_t status = cudaDeviceEnablePeerAccess(other, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled) {
    cudaGetLastError();
    return;
  }
  check_cuda(status, kCreate);
}

// GPUs of different classes would give a row bits of both.
void require_same_class(const mortise_device& first, const mortise_device& other) {
  if (std::string_view(first.gpu.bf16) == other.gpu.bf16) return;
  throw Failure(MORTISE_FAILED_PRECONDITION, kCreate,
                first.name + " computes in class " + first.gpu.bf16 + " and " + other.name + " in " + other.gpu.bf16 +
                    "; name GPUs of one class in `devices`");
}

Temporary make_mailbox(mortise_device& device) {
  const cudaStream_t stream = native(&device, nullptr);
  Temporary mailbox(sizeof(RankMailbox), "the signals of the ranks", kCreate, "lower kv_cache.memory");
  check_cuda(cudaMemsetAsync(mailbox.get(), 0, sizeof(RankMailbox), stream), kCreate);
  check_cuda(cudaStreamSynchronize(stream), kCreate);
  return mailbox;
}

int32_t num_ranks(mortise_device* device) {
  return std::max<int32_t>(1, static_cast<int32_t>(device->ordinals.size()));
}

mortise_status create(mortise_device* const* devices, int32_t world, mortise_communicator** communicators,
                      mortise_error* error) {
  return guard(error, kCreate, [&] {
    if (world > kMaxRanks) {
      invalid(kCreate,
              std::to_string(world) + " ranks are too many; this device has up to " + std::to_string(kMaxRanks));
    }
    for (int32_t rank = 1; rank < world; ++rank) require_same_class(*devices[0], *devices[rank]);
    const auto watch = std::make_shared<GatherWatch>();
    std::vector<std::unique_ptr<mortise_communicator>> made;
    std::vector<Temporary> mailboxes;  // frees them if a later step fails
    RankGatherArgs args{};
    args.world = world;
    args.state = watch->state();
    args.patience_ns = kPatienceSeconds * 1'000'000'000;
    for (int32_t rank = 0; rank < world; ++rank) {
      native(devices[rank], nullptr);
      for (int32_t other = 0; other < world; ++other) enable_peer(devices[rank]->ordinal, devices[other]->ordinal);
    }
    for (int32_t rank = 0; rank < world; ++rank) {
      mailboxes.push_back(make_mailbox(*devices[rank]));
      args.mailboxes[rank] = static_cast<RankMailbox*>(mailboxes.back().get());
    }
    for (int32_t rank = 0; rank < world; ++rank) {
      made.push_back(std::make_unique<mortise_communicator>(mortise_communicator{devices[rank], watch, args}));
      made.back()->args.rank = rank;
    }
    for (int32_t rank = 0; rank < world; ++rank) {
      mailboxes[static_cast<std::size_t>(rank)].release();
      devices[rank]->watches.add(watch);
      communicators[rank] = made[static_cast<std::size_t>(rank)].release();
    }
  });
}

void destroy(mortise_communicator* communicator) {
  if (communicator == nullptr) return;
  mortise_device& device = *communicator->device;
  device.watches.remove(communicator->watch);
  // Kernels of the other ranks may still look into the mailbox: they end with this rank's, or by themselves.
  native(&device, nullptr);
  cudaStreamSynchronize(device.stream);
  cudaFree(communicator->args.mailboxes[communicator->args.rank]);
  delete communicator;
}

mortise_status all_gather(mortise_communicator* communicator, mortise_stream* stream, const mortise_tensor* x,
                          const int64_t* columns, mortise_error* error) {
  return guard(error, kWhere, [&] {
    check_matrix(x, kWhere, "x");
    check_columns(*x, columns, communicator->args.world, kWhere);
    const Matrix rows = matrix_of(*x);
    if (rows.rows == 0 || rows.columns == 0) return;
    if (reinterpret_cast<std::uintptr_t>(rows.data) % 16 != 0)
      invalid(kWhere, "x must begin at a multiple of 16 bytes");
    RankGatherArgs args = communicator->args;
    args.x = rows.data;
    args.rows = rows.rows;
    args.stride = rows.stride * rows.element_bytes();
    for (std::int32_t rank = 0; rank <= args.world; ++rank) args.begin[rank] = columns[rank] * rows.element_bytes();
    check_cuda(launch_rank_gather(args, native(communicator->device, stream)), kWhere);
  });
}

void abort(mortise_communicator* communicator) {
  communicator->watch->abort();
}

}  // namespace

GatherWatch::GatherWatch() {
  void* memory = nullptr;
  check_cuda(cudaHostAlloc(&memory, sizeof(RankState), cudaHostAllocPortable | cudaHostAllocMapped), kCreate);
  state_ = new (memory) RankState{};
}

GatherWatch::~GatherWatch() {
  cudaFreeHost(state_);
}

void GatherWatch::check() const {
  if (const std::int32_t late = state_->late_rank; late != 0) {
    throw Failure(MORTISE_UNAVAILABLE, kWhere,
                  "rank " + std::to_string(late - 1) + " did not come within " + std::to_string(kPatienceSeconds) +
                      " seconds; its GPU hangs, or its part of the step failed");
  }
  if (state_->aborted != 0) {
    throw Failure(MORTISE_CANCELLED, kWhere, "another rank has failed, so this one does not go on");
  }
}

void GatherWatches::add(std::shared_ptr<GatherWatch> watch) {
  const std::lock_guard lock(mutex_);
  watches_.push_back(std::move(watch));
}

void GatherWatches::remove(const std::shared_ptr<GatherWatch>& watch) {
  const std::lock_guard lock(mutex_);
  std::erase(watches_, watch);
}

bool GatherWatches::empty() const {
  const std::lock_guard lock(mutex_);
  return watches_.empty();
}

void GatherWatches::check() const {
  const std::lock_guard lock(mutex_);
  for (const auto& watch : watches_) watch->check();
}

const mortise_collective_table kCollective = {
    .struct_size = sizeof(mortise_collective_table),
    .flags = 0,
    .num_ranks = num_ranks,
    .create = create,
    .destroy = destroy,
    .all_gather = all_gather,
    .abort = abort,
};

}  // namespace mortise::cuda
