#include "loader/active_part.hpp"

#include <spdlog/spdlog.h>

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
    : Error(failure_text(part, function, status, error), code_of(status)),
      part_(part),
      function_(function),
      status_(status) {}

std::string PartHealth::reason() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

bool PartHealth::fail(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (failed()) return false;
  reason_ = reason;
  failed_.store(true, std::memory_order_release);
  return true;
}

const char* PartHealth::lasting_name(const std::string& name) {
  const char* known = lasting_name_.load(std::memory_order_acquire);
  if (known != nullptr) return known;
  lasting_name_.store(lasting_text(name), std::memory_order_release);
  return lasting_name_.load(std::memory_order_acquire);
}

CallResult refused_call(const PartHealth& health) {
  CallResult result;
  result.status = MORTISE_UNAVAILABLE;
  result.error = empty_error();
  const std::string text = "is not called again after a failure: " + health.reason();
  text.copy(result.error.message, sizeof result.error.message - 1);
  return result;
}

void fail_part(const std::string& part, PartHealth& health, const char* function, const mortise_error& error) {
  const std::string reason = PartError(part, function, MORTISE_INTERNAL, error).what();
  if (health.fail(reason)) spdlog::error("{}; the instance will not be called again", reason);
}

}  // namespace mortise
