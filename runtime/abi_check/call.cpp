#include "abi_check/call.hpp"

#include <spdlog/spdlog.h>

#include <bit>
#include <cstring>
#include <string_view>

#include "loader/active_part.hpp"
#include "loader/instance_states.hpp"
#include "mortise/ext/sequences.h"

namespace mortise::abi_check {
namespace {

constexpr const char* kAbi = "mortise/abi.h";
constexpr const char* kHost = "mortise/host.h";
constexpr std::uint64_t kMaxAlignment = 4096;

// Global: the functions of a table have no context.
thread_local Call* innermost_call = nullptr;

// Global: the functions of a table have no context.
InstanceStates<Instance>& instances() {
  static auto* const states = new InstanceStates<Instance>;
  return *states;
}

bool is_known(mortise_status status) {
  constexpr mortise_status kFirstOwn = 1000;  // codes of plugins
  switch (status) {
    case MORTISE_OK:
    case MORTISE_CANCELLED:
    case MORTISE_UNKNOWN:
    case MORTISE_INVALID_ARGUMENT:
    case MORTISE_NOT_FOUND:
    case MORTISE_RESOURCE_EXHAUSTED:
    case MORTISE_FAILED_PRECONDITION:
    case MORTISE_OUT_OF_RANGE:
    case MORTISE_UNIMPLEMENTED:
    case MORTISE_INTERNAL:
    case MORTISE_UNAVAILABLE:
    case MORTISE_DATA_LOSS:
      return true;
    default:
      return status >= kFirstOwn;
  }
}

template <std::size_t kSize>
void set_text(char (&to)[kSize], std::string_view text) {
  *fmt::format_to_n(to, kSize - 1, "{}", text).out = '\0';
}

// Returns how many calls of the host are running on this thread. The host notes each call that it makes
// (active_part.hpp).
std::size_t num_host_calls() {
  const CallStack* const stack = CallStack::of_this_thread_if_any();
  return stack == nullptr ? 0 : stack->depth();
}

std::string breach_text(const char* header, const char* rule, const std::string& detail) {
  return fmt::format("{}, \"{}\": {}", header, rule, detail);
}

}  // namespace

Instance::Instance(const Component& component)
    : real(component), name(fmt::format("{} ({})", component.label(), component.file.filename().string())) {}

std::shared_ptr<Instance> Instance::find(const void* handle) {
  return instances().find(handle);
}

void Instance::add(const void* handle, std::shared_ptr<Instance> instance) {
  instances().add(handle, std::move(instance));
}

void Instance::remove(const void* handle) {
  instances().remove(handle);
}

std::string Instance::take_pending() {
  const std::lock_guard lock(mutex_);
  return std::exchange(pending_, "");
}

void Instance::add_pending(std::string text) {
  const std::lock_guard lock(mutex_);
  if (pending_.empty()) pending_ = std::move(text);
}

const void* Instance::first_answer(const char* id, const void* table) {
  const std::lock_guard lock(mutex_);
  return extensions_.try_emplace(id, table).first->second;
}

std::size_t Instance::num_allocations() {
  const std::lock_guard lock(mutex_);
  return memory_.size();
}

// Called when the instance misused its host. If the instance runs a checked call on this thread, that call fails;
// otherwise its next one fails.
void Instance::note(const mortise_host* host, std::string detail) {
  Instance& self = self_of(host);
  Call* const call = Call::innermost();
  if (call != nullptr && &call->instance() == &self) {
    if (call->breach_.empty()) call->breach_ = std::move(detail);
  } else {
    self.add_pending(std::move(detail));
  }
}

const mortise_host* Instance::watch(const mortise_host* host) {
  real_host_ = host;
  static_cast<mortise_host&>(host_) = *host;
  host_.struct_size = sizeof(mortise_host);
  host_.self = this;
  host_.log = [](const mortise_host* seen, std::int32_t level, mortise_string_view text) {
    if (level < MORTISE_LOG_DEBUG || level > MORTISE_LOG_ERROR) {
      note(seen, breach_text(kHost, "`level` is MORTISE_LOG_*", fmt::format("log is called with the level {}", level)));
    }
    if (text.data == nullptr && text.size > 0) {
      return note(seen, breach_text(kAbi, "may be NULL when size is 0", "log is called with a text that is NULL"));
    }
    self_of(seen).real_host_->log(self_of(seen).real_host_, level, text);
  };
  host_.allocate = [](const mortise_host* seen, std::uint64_t bytes, std::uint64_t alignment) -> void* {
    Instance& self = self_of(seen);
    if (!std::has_single_bit(alignment) || alignment > kMaxAlignment) {
      note(seen, breach_text(kHost, "`alignment` is not a power of two up to 4096",
                             fmt::format("allocate is called with the alignment {}", alignment)));
      return nullptr;
    }
    void* const memory = self.real_host_->allocate(self.real_host_, bytes, alignment);
    const std::lock_guard lock(self.mutex_);
    if (memory != nullptr) self.memory_[memory] = bytes;
    return memory;
  };
  host_.free = [](const mortise_host* seen, void* memory) {
    Instance& self = self_of(seen);
    if (memory == nullptr) return;
    {
      const std::lock_guard lock(self.mutex_);
      if (self.memory_.erase(memory) == 1) return self.real_host_->free(self.real_host_, memory);
    }
    note(seen, breach_text(kHost, "Frees memory from `allocate`",
                           "free is called with memory that allocate did not return, or that was freed before"));
  };
  host_.now_ns = [](const mortise_host* seen) { return self_of(seen).real_host_->now_ns(self_of(seen).real_host_); };
  host_.get_ext = [](const mortise_host* seen, const char* id) -> const void* {
    if (id != nullptr) return self_of(seen).real_host_->get_ext(self_of(seen).real_host_, id);
    note(seen, breach_text(kAbi, "`const char*` is NUL-terminated", "get_ext is called with the id NULL"));
    return nullptr;
  };
  return &host_;
}

Call::Call(Instance& instance, const Function& function)
    : instance_(instance),
      function_(function),
      outer_(innermost_call),
      num_host_calls_(num_host_calls()),
      caller_(caller_on_this_thread()) {
  innermost_call = this;
}

Call::~Call() {
  innermost_call = outer_;
  if (is_busy_) instance_.is_busy.store(false);
}

Call* Call::innermost() {
  return innermost_call;
}

const Call* Call::caller_on_this_thread() {
  const bool is_parts = innermost_call != nullptr && innermost_call->num_host_calls_ == num_host_calls();
  return is_parts ? innermost_call : nullptr;
}

void Call::throw_breach(bool is_callers, const char* header, const char* rule, const std::string& detail) {
  throw Breach{is_callers, breach_text(header, rule, detail)};
}

void Call::throw_exception(const std::string& text) const {
  throw_breach(/*is_callers=*/false, kAbi, "No exception may leave a plugin",
               fmt::format("an exception crossed the C ABI{}{}", text.empty() ? "" : ": ", text));
}

void Call::check_struct_size(const std::uint32_t* size, std::size_t least, const char* what) const {
  caller_must(size != nullptr, kAbi, "The caller owns every struct, array and string that it passes", "{} is NULL",
              what);
  caller_must(*size >= least, kAbi, "Every struct and table begins with `uint32_t struct_size`",
              "{} has the struct_size {}, and at least {} is needed", what, *size, least);
}

void Call::check_array(const void* array, std::int64_t count, const char* header, const char* what) const {
  caller_must(count <= 0 || array != nullptr, header, "All arrays have length", "{} is NULL and has {} elements", what,
              count);
}

void Call::begin() {
  if (const std::string pending = instance_.take_pending(); !pending.empty()) {
    const bool is_last = std::string_view(function_.name) == "destroy";
    if (!is_last) throw Breach{false, pending};
    spdlog::error("{}: breaks {}", instance_.name, pending);  // the instance is destroyed nevertheless
  }
  if (function_.tag == Tag::kAny) return;
  caller_must(num_host_calls_ > 0, kHost, "A plugin creates no threads",
              "{} is called on a thread that the host did not call a part on", function_.name);
  caller_must(!instance_.is_busy.exchange(true), kAbi, "one call at a time per instance",
              "{} is called while another call of the instance runs", function_.name);
  is_busy_ = true;
  const bool wants_active = function_.state == State::kActive;
  caller_must(
      function_.state == State::kAny || wants_active == instance_.is_active, kAbi,
      wants_active ? "active: between activate and deactivate" : "created: between create and destroy while not active",
      "{} is called {} the instance is active", function_.name, wants_active ? "before" : "while");
}

void Call::check_answer(mortise_status status, const mortise_error& error) const {
  const auto is_text = [](const auto& text) { return std::memchr(text, '\0', sizeof text) != nullptr; };
  part_must(is_text(error.where) && is_text(error.message), kAbi, "NUL-terminated",
            "{} leaves a text in mortise_error without an end", function_.name);
  part_must(error.struct_size == sizeof error, kAbi, "The caller owns it and sets struct_size",
            "{} changes the struct_size of mortise_error", function_.name);
  check_own_breach();
  part_must(is_known(status), kAbi, "Codes from 1000 on are a plugin's own", "{} returns the status {}", function_.name,
            status);
  part_must(status == MORTISE_OK || error.message[0] != '\0', kAbi, "writes the detail into `error`",
            "{} fails with {} and gives no message", function_.name, status_name(status));
}

void Call::check_own_breach() const {
  if (!breach_.empty()) throw Breach{false, breach_};
  if (const std::string pending = instance_.take_pending(); !pending.empty()) throw Breach{false, pending};
}

void Call::check_no_sequences(void* handle) const {
  const auto get_ext = instance_.real.abi->get_ext;
  if (get_ext == nullptr) return;
  const auto* const table = static_cast<const mortise_sequences_table*>(get_ext(handle, MORTISE_EXT_SEQUENCES));
  if (table == nullptr) return;
  const std::uint64_t kept = table->num_sequences(handle);
  part_must(kept == 0, "mortise/ext/sequences.h", "told that every sequence has ended, the number must be 0",
            "the instance keeps state for {} sequences", kept);
}

void Call::give(mortise_error* to, const mortise_error& from) {
  if (to == nullptr || to->struct_size < sizeof from) return;
  *to = from;
}

std::string Call::told(const Breach& breach) const {
  if (!breach.is_callers) {
    // The host names the part whose call fails. If another part made the call, the host names that other part.
    return fmt::format("{}breaks {}", caller_ == nullptr ? "" : instance_.name + " ", breach.text);
  }
  if (caller_ != nullptr)
    return fmt::format("{} in {} breaks {}", caller_->instance_.name, caller_->function_.name, breach.text);
  return fmt::format("{} breaks {}", num_host_calls_ > 0 ? "the host" : "a thread of a plugin", breach.text);
}

mortise_status Call::report(const Breach& breach, mortise_error* error) const {
  const std::string text = told(breach);
  // Perhaps the caller does not look at the status. Its own call fails nevertheless.
  if (breach.is_callers && caller_ != nullptr && caller_->breach_.empty()) caller_->breach_ = breach.text;
  if (error == nullptr) spdlog::error("{}: {}: {}", instance_.name, function_.name, text);
  mortise_error own{};
  own.struct_size = sizeof own;
  own.code = MORTISE_INTERNAL;
  set_text(own.where, function_.name);
  set_text(own.message, text);
  give(error, own);
  return MORTISE_INTERNAL;
}

void Call::report_value(const Breach& breach) const {
  report(breach, nullptr);
  if (!breach.is_callers) instance_.add_pending(breach.text);
}

mortise_status report_unknown_handle(const Function& function, mortise_error* error) {
  const std::string text =
      breach_text(kAbi, "A handle lives until the function that destroys it",
                  fmt::format("{} is called with a handle that is no live instance", function.name));
  const Call* const caller = Call::caller_on_this_thread();
  spdlog::error("{} breaks {}", caller == nullptr ? "the host" : caller->instance().name, text);
  if (error != nullptr && error->struct_size >= sizeof *error) {
    error->code = MORTISE_INTERNAL;
    set_text(error->where, function.name);
    set_text(error->message, text);
  }
  return MORTISE_INTERNAL;
}

}  // namespace mortise::abi_check
