// plugins/kernels/cpu/amx/beside.hpp: work that the core does while the AMX unit multiplies. After each depth tile it
// does a little of two jobs: it finishes the sums of earlier AMX tiles, and it prefetches the data that is needed next.
// Also the number of panels that share the second-level cache.
#pragma once

#include "kernels/cpu/linear/linear.hpp"
#include "kernels/cpu/vec/vec.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

// Divides both jobs into steps; one step() follows each depth tile. `Work` has rows(i0, i1), which does rows [i0, i1)
// of the job. Invariant: rows before row_ are done. Used by one thread.
template <class Work>
class Beside {
 public:
  // Starts a job of `rows` rows. REQUIRES: the job before is finished.
  void set_work(const Work& work, std::size_t rows) { work_ = work, row_ = 0, end_row_ = rows; }
  // Prefetches the cache lines [line, end) of a block of rows. A row has `lines` lines, rows are `stride` bytes apart,
  // and row 0 is at `first`.
  void set_fetch(const char* first, std::size_t stride, std::size_t lines, std::size_t line, std::size_t end) {
    lines_ = lines, to_next_row_ = stride - lines * kLineBytes;
    to_fetch_ = end - line;
    at_ = to_fetch_ == 0 ? first : first + line / lines * stride + line % lines * kLineBytes;
    left_in_row_ = to_fetch_ == 0 ? 0 : lines - line % lines;
  }
  void set_no_fetch() { to_fetch_ = 0; }

  // Divides the work into `work_steps` steps and the prefetches into `fetch_steps` steps.
  void begin(std::size_t work_steps, std::size_t fetch_steps) {
    rows_a_step_ = work_steps == 0 ? 0 : (end_row_ + work_steps - 1) / work_steps;
    lines_a_step_ = fetch_steps == 0 ? 0 : (to_fetch_ + fetch_steps - 1) / fetch_steps;
  }
  MORTISE_INLINE void step() {
    const std::size_t end = row_ + rows_a_step_;
    work_until(end < end_row_ ? end : end_row_);
    std::size_t count = lines_a_step_ < to_fetch_ ? lines_a_step_ : to_fetch_;
    for (to_fetch_ -= count; count > 0; --count) {
      __builtin_prefetch(at_, 0, 2);
      at_ += kLineBytes;
      if (--left_in_row_ == 0) at_ += to_next_row_, left_in_row_ = lines_;
    }
  }
  void finish() { work_until(end_row_); }

 private:
  static constexpr std::size_t kLineBytes = 64;

  MORTISE_INLINE void work_until(std::size_t end) {
    if (row_ < end) work_.rows(row_, end);
    row_ = end;
  }

  Work work_{};
  std::size_t row_ = 0, end_row_ = 0, rows_a_step_ = 0;
  const char* at_ = nullptr;
  std::size_t to_next_row_ = 0, lines_ = 0, left_in_row_ = 0, to_fetch_ = 0, lines_a_step_ = 0;
};

// The number of panels in a chunk. The weights of a chunk stay in the second-level cache while all rows pass. Chunks
// are about equal and even, because panels are multiplied in pairs.
inline std::size_t chunk_panels(std::size_t panels, std::size_t panel_bytes) {
  constexpr std::size_t kMinPanels = 4;
  std::size_t most = panel_bytes == 0 ? panels : kLinearChunkBytes / panel_bytes;
  if (most < kMinPanels) most = kMinPanels;
  const std::size_t chunks = (panels + most - 1) / most;
  return chunks <= 1 ? panels : ((panels + chunks - 1) / chunks + 1) & ~std::size_t{1};
}

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
