// runtime/bisect/step_tap.hpp: stands between the host, a model and the parts that the model calls: the device's
// operations, the attention, the model itself. Each call is passed on as it is; then what it wrote is read back and
// hashed, row by row, into a RowTrace.
//
// Nothing here reads an address of the device: rows come to the host through the device's own `copy`, so a GPU's can be
// traced as well. Captured graphs would pass the tap by, so the parts that it hands out have none.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bisect/row_trace.hpp"
#include "engine/parts.hpp"

namespace mortise {

// Outlives the engine that runs parts(). Used by the thread that runs steps.
class StepTap {
 public:
  // `parts` are active; `trace` outlives the tap.
  StepTap(const Parts& parts, RowTrace& trace);
  StepTap(const StepTap&) = delete;
  StepTap& operator=(const StepTap&) = delete;

  // The same parts, seen through the tap. Extensions of the device are not offered to what a step calls; parts that
  // were made before have them still.
  Parts parts();

 private:
  friend struct TapCalls;
  // Which rows of the batch lie in a matrix of the device's memory.
  struct KnownRows {
    const std::byte* begin = nullptr;
    std::int64_t stride = 0;  // bytes
    std::vector<std::int32_t> rows;
  };
  enum class Phase { kForward, kHead, kElsewhere };

  // The step with the parts themselves in it, for calls into them; valid until the next call.
  const mortise_step* own_step(const mortise_step* step);
  mortise_status read(mortise_stream* stream, const void* from, std::uint64_t bytes, mortise_error* error);
  TracedOp op_of(const std::string& name, const char* output, const mortise_tensor& tensor);
  // Reads the rows of `tensor` that are traced, of a matrix whose row i is the batch's row rows[i].
  mortise_status record(const TracedOp& op, mortise_stream* stream, const mortise_tensor& tensor,
                        const std::vector<std::int32_t>& rows, mortise_error* error);
  // Of an operation of the forward; other outputs have no row for each of the batch.
  mortise_status record_forward(const char* name, const char* output, mortise_stream* stream,
                                const mortise_tensor& tensor, mortise_error* error);
  // Behind the forward.
  mortise_status record_rows(const std::string& name, const char* output, mortise_stream* stream, const void* data,
                             std::int32_t dtype, std::int64_t columns, const std::vector<std::int32_t>& rows,
                             mortise_error* error);
  std::vector<std::int32_t> rows_of(const KnownRows& known, const mortise_tensor& tensor) const;
  mortise_status note_selected(mortise_stream* stream, const mortise_tensor& out, const std::int32_t* rows,
                               mortise_error* error);

  const Parts parts_;
  RowTrace& trace_;
  mortise_device_table device_table_{};
  mortise_attention_table attention_table_{};
  mortise_model_table model_table_{};
  mortise_step own_step_{};

  Phase phase_ = Phase::kElsewhere;
  std::int32_t stretch_ = 0;
  std::map<std::string, std::int32_t> counts_;  // operations of the stretch, by what they look like
  KnownRows selected_, logits_;                 // rows that go through the head, and what came of them
  std::vector<std::int32_t> all_rows_;          // 0, 1, .. of the batch
  std::vector<std::byte> buffer_;
};

}  // namespace mortise
