#include "loader/active_part.hpp"

#include "loader/component.hpp"

namespace mortise {
namespace {

std::string failure_text(const std::string& part, const char* function, mortise_status status,
                         const mortise_error& error) {
  const std::string where = plugin_text(error.where, sizeof error.where);
  std::string message = plugin_text(error.message, sizeof error.message);
  if (message.empty()) message = "gave no reason";
  const bool repeats = where.empty() || where == function;
  return fmt::format("{}: {}: {}{}{} ({})", part, function, repeats ? "" : where, repeats ? "" : ": ", message,
                     status_name(status));
}

ErrorCode code_of(mortise_status status) {
  switch (status) {
    case MORTISE_RESOURCE_EXHAUSTED:
      return ErrorCode::kOverloaded;
    case MORTISE_UNAVAILABLE:
      return ErrorCode::kUnavailable;
    default:
      return ErrorCode::kInternal;
  }
}

}  // namespace

mortise_error empty_error() {
  mortise_error error{};
  error.struct_size = sizeof error;
  return error;
}

std::string status_name(mortise_status status) {
  switch (status) {
    case MORTISE_OK:
      return "OK";
    case MORTISE_CANCELLED:
      return "CANCELLED";
    case MORTISE_UNKNOWN:
      return "UNKNOWN";
    case MORTISE_INVALID_ARGUMENT:
      return "INVALID_ARGUMENT";
    case MORTISE_NOT_FOUND:
      return "NOT_FOUND";
    case MORTISE_RESOURCE_EXHAUSTED:
      return "RESOURCE_EXHAUSTED";
    case MORTISE_FAILED_PRECONDITION:
      return "FAILED_PRECONDITION";
    case MORTISE_OUT_OF_RANGE:
      return "OUT_OF_RANGE";
    case MORTISE_UNIMPLEMENTED:
      return "UNIMPLEMENTED";
    case MORTISE_INTERNAL:
      return "INTERNAL";
    case MORTISE_UNAVAILABLE:
      return "UNAVAILABLE";
    case MORTISE_DATA_LOSS:
      return "DATA_LOSS";
    default:
      return fmt::format("status {}", status);
  }
}

PartError::PartError(const std::string& part, const char* function, mortise_status status, const mortise_error& error)
    : Error(failure_text(part, function, status, error), code_of(status)), status_(status) {}

std::string PartHealth::reason() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

void PartHealth::fail(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (reason_.empty()) reason_ = reason;
  failed_.store(true, std::memory_order_release);
}

}  // namespace mortise
