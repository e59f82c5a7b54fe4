#include "conformance/checked_host.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "error.hpp"
#include "loader/host_services.hpp"

namespace mortise::conformance {
namespace {

constexpr std::uint64_t kMaxAlignment = 4096;

}  // namespace

CheckedHost::CheckedHost(Extensions extensions) : extensions_(std::move(extensions)), table_(1) {
  Table& table = table_[0];
  table = {};
  table.struct_size = sizeof(mortise_host);
  table.abi_minor = MORTISE_ABI_MINOR;
  table.name = "mortise";
  table.version = kVersion;
  table.log = log;
  table.allocate = allocate;
  table.free = free;
  table.now_ns = now_ns;
  table.get_ext = get_ext;
  table.self = this;
  table_.make_read_only();
}

CheckedHost::~CheckedHost() {
  for (const auto& [memory, bytes] : blocks_) std::free(memory);
}

CheckedHost& CheckedHost::self(const mortise_host* host) {
  return *static_cast<const Table*>(host)->self;
}

void CheckedHost::note(std::string breach) {
  const std::lock_guard lock(mutex_);
  if (std::ranges::find(breaches_, breach) == breaches_.end()) breaches_.push_back(std::move(breach));
}

std::uint64_t CheckedHost::allocated_bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (const auto& [memory, bytes] : blocks_) sum += bytes;
  return sum;
}

std::vector<std::string> CheckedHost::breaches() const {
  const std::lock_guard lock(mutex_);
  return breaches_;
}

std::vector<std::string> CheckedHost::log_lines() const {
  const std::lock_guard lock(mutex_);
  return log_lines_;
}

std::string CheckedHost::missing_extension() const {
  const std::lock_guard lock(mutex_);
  return missing_extension_;
}

void CheckedHost::log(const mortise_host* host, std::int32_t level, mortise_string_view message) {
  if (level < MORTISE_LOG_DEBUG || level > MORTISE_LOG_ERROR) {
    self(host).note(fmt::format("log is called with the level {}; MORTISE_LOG_* are 0 to 3", level));
  }
  if (message.data == nullptr && message.size > 0) {
    self(host).note("log is called with a message that is NULL and has a size");
    return;
  }
  const std::lock_guard lock(self(host).mutex_);
  self(host).log_lines_.emplace_back(message.data, message.size);
}

void* CheckedHost::allocate(const mortise_host* host, std::uint64_t bytes, std::uint64_t alignment) {
  CheckedHost& me = self(host);
  if (!std::has_single_bit(alignment) || alignment > kMaxAlignment) {
    me.note(fmt::format("allocate is called with the alignment {}; it must be a power of two up to 4096", alignment));
    return nullptr;
  }
  if (me.num_allocations_++ >= me.refuse_from_) return nullptr;
  void* memory = nullptr;
  if (::posix_memalign(&memory, std::max<std::uint64_t>(alignment, sizeof(void*)), std::max<std::uint64_t>(bytes, 1)) !=
      0) {
    return nullptr;
  }
  const std::lock_guard lock(me.mutex_);
  me.blocks_[memory] = bytes;
  return memory;
}

void CheckedHost::free(const mortise_host* host, void* memory) {
  if (memory == nullptr) return;
  CheckedHost& me = self(host);
  bool is_known;
  {
    const std::lock_guard lock(me.mutex_);
    is_known = me.blocks_.erase(memory) == 1;
  }
  if (!is_known) {
    me.note("free is called with memory that allocate did not return, or that was freed before");
    return;
  }
  std::free(memory);
}

std::uint64_t CheckedHost::now_ns(const mortise_host*) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

const void* CheckedHost::get_ext(const mortise_host* host, const char* id) {
  if (id == nullptr) {
    self(host).note("get_ext is called with the id NULL");
    return nullptr;
  }
  CheckedHost& me = self(host);
  const void* const found = me.extensions_ ? me.extensions_(id) : nullptr;
  if (found == nullptr && std::string_view(id).starts_with("mortise.host.")) {
    const std::lock_guard lock(me.mutex_);
    me.missing_extension_ = id;
  }
  return found;
}

}  // namespace mortise::conformance
