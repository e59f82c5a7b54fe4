#include "devices/cuda/row_uploader.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "devices/cuda/errors.hpp"

namespace mortise::cuda {
namespace {

constexpr char kWhere[] = "prepare_weight";
constexpr std::int64_t kPiecesOfThread = 2;  // with fewer, starting a thread takes longer than it saves

}  // namespace

// One upload. Threads take the pieces in order, so that a file is read from beginning to end.
class RowUploader::Run {
 public:
  Run(RowUploader& uploader, std::byte* to, std::int64_t rows, std::size_t row_bytes, const Fill& fill)
      : uploader_(uploader),
        to_(to),
        rows_(rows),
        row_bytes_(row_bytes),
        rows_of_piece_(static_cast<std::int64_t>(kPieceBytes / row_bytes)),
        fill_(fill) {
    check_cuda(cudaGetDevice(&device_), kWhere);
  }

  void work_on_all() {
    const std::int64_t pieces = (rows_ + rows_of_piece_ - 1) / rows_of_piece_;
    const std::int64_t processors = std::max(1u, std::thread::hardware_concurrency());
    const std::int64_t threads =
        std::clamp<std::int64_t>(pieces / kPiecesOfThread, 1, std::min<std::int64_t>(kMaxThreads, processors));
    {
      std::vector<std::jthread> others;
      for (std::int64_t i = 1; i < threads; ++i) {
        others.emplace_back([this, i] { work(uploader_.lanes_[static_cast<std::size_t>(i)]); });
      }
      work(uploader_.lanes_[0]);
    }
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }

 private:
  void work(Lane& lane) {
    try {
      check_cuda(cudaSetDevice(device_), kWhere);  // a new thread has device 0
      prepare(lane);
      for (std::size_t turn = 0; send_next_piece(lane, turn); turn = 1 - turn) {
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
      next_row_ = rows_;
    }
  }

  static void prepare(Lane& lane) {
    if (lane.memory == nullptr) {
      void* memory = nullptr;
      check_cuda(cudaHostAlloc(&memory, 2 * kPieceBytes, cudaHostAllocDefault), kWhere,
                 gib_text(2 * kPieceBytes) + " of page-locked memory");
      lane.memory = static_cast<std::byte*>(memory);
    }
    for (cudaEvent_t& event : lane.sent) {
      if (event == nullptr) check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), kWhere);
    }
  }

  bool send_next_piece(const Lane& lane, std::size_t turn) {
    const std::int64_t first = next_row_.fetch_add(rows_of_piece_);
    if (first >= rows_) return false;
    const std::int64_t last = std::min(rows_, first + rows_of_piece_);
    std::byte* const piece = lane.memory + turn * kPieceBytes;
    check_cuda(cudaEventSynchronize(lane.sent[turn]), kWhere);
    fill_(first, last, piece);
    check_cuda(
        cudaMemcpyAsync(to_ + static_cast<std::size_t>(first) * row_bytes_, piece,
                        static_cast<std::size_t>(last - first) * row_bytes_, cudaMemcpyHostToDevice, uploader_.stream_),
        kWhere);
    check_cuda(cudaEventRecord(lane.sent[turn], uploader_.stream_), kWhere);
    return true;
  }

  RowUploader& uploader_;
  std::byte* const to_;
  const std::int64_t rows_;
  const std::size_t row_bytes_;
  const std::int64_t rows_of_piece_;
  const Fill& fill_;
  int device_ = 0;
  std::atomic<std::int64_t> next_row_ = 0;
  std::mutex mutex_;
  std::exception_ptr failure_;  // the first failure of any thread; guarded by mutex_ until all have ended
};

RowUploader::~RowUploader() {
  cudaStreamSynchronize(stream_);
  for (const Lane& lane : lanes_) {
    for (cudaEvent_t event : lane.sent) {
      if (event != nullptr) cudaEventDestroy(event);
    }
    cudaFreeHost(lane.memory);
  }
}

void RowUploader::upload(std::byte* to, std::int64_t rows, std::size_t row_bytes, const Fill& fill) {
  Run(*this, to, rows, row_bytes, fill).work_on_all();
  check_cuda(cudaStreamSynchronize(stream_), kWhere);
}

}  // namespace mortise::cuda
