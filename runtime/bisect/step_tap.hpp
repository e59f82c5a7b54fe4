// runtime/bisect/step_tap.hpp: records the calls of a step to the model, the attention and the device's operations.
// Each call is passed on unchanged. Then its output is read back and hashed, row by row, into a RowTrace.
//
// The tap reads no address of the device. Rows come to the host through the device's own `copy`, so a GPU can be traced
// as well. Captured graphs would bypass the tap, so the parts that it provides do not support them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bisect/row_trace.hpp"
#include "engine/parts.hpp"

namespace mortise {

// Stands between the host and the parts of a pipeline. Outlives the engine that runs parts(). Used by the thread that
// runs steps. Invariant: every call is passed on to the original part.
class StepTap {
 public:
  // `parts` are active. `trace` outlives the tap.
  StepTap(const Parts& parts, RowTrace& trace);
  StepTap(const StepTap&) = delete;
  StepTap& operator=(const StepTap&) = delete;

  // The same parts with the tap in between. Steps do not see extensions of the device; parts that were created before
  // the tap still see them.
  Parts parts();

 private:
  friend struct TapCalls;
  // The batch's rows that a matrix in device memory holds.
  struct KnownRows {
    const std::byte* begin = nullptr;
    std::int64_t stride = 0;  // bytes
    std::vector<std::int32_t> rows;
  };
  enum class Phase { kForward, kHead, kElsewhere };

  // The step with the original parts, for calls to them. Valid until the next call.
  const mortise_step* own_step(const mortise_step* step);
  mortise_status read(mortise_stream* stream, const void* from, std::uint64_t bytes, mortise_error* error);
  TracedOp op_of(const std::string& name, const char* output, const mortise_tensor& tensor);
  // Records the traced rows of `tensor`, a matrix whose row i is the batch's row rows[i].
  mortise_status record(const TracedOp& op, mortise_stream* stream, const mortise_tensor& tensor,
                        const std::vector<std::int32_t>& rows, mortise_error* error);
  // Records an operation of the forward. Outputs that do not have one row per row of the batch are left out.
  mortise_status record_forward(const char* name, const char* output, mortise_stream* stream,
                                const mortise_tensor& tensor, mortise_error* error);
  // Records an operation after the forward.
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
  std::map<std::string, std::int32_t> counts_;  // operations of the stretch, by kind and shape
  KnownRows selected_, logits_;                 // rows that go through the head, and their logits
  std::vector<std::int32_t> all_rows_;          // 0, 1, .. of the batch
  std::vector<std::byte> buffer_;
};

}  // namespace mortise
