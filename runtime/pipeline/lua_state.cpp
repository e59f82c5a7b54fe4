#include "pipeline/lua_state.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>
#include <string_view>

#include "error.hpp"
#include "lauxlib.h"

namespace mortise {
namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

constexpr int kHookInterval = 100;  // instructions between two checks of the budget; one may take 10 ms
// A call counts as this many instructions, so that a C function which makes many calls (sort) ends, too.
constexpr std::int64_t kCallCost = 10;
constexpr std::size_t kBytesPerCost = 64;          // bytes that take about as long to fill as an instruction
constexpr std::size_t kMaxErrorBytes = 4096;       // of an error text, which a script can make as long as its memory
constexpr std::size_t kMaxPrintedBytes = 1 << 20;  // in one call: print is for debugging, not for data

int run_body(lua_State* L) {
  const auto* body = static_cast<const std::function<void(lua_State*)>*>(lua_touserdata(L, 1));
  lua_settop(L, 0);
  return lua_barrier(L, [&] {
    (*body)(L);
    return 0;
  });
}

// Time that this thread has computed without waiting, so that a busy machine does not fail a good script.
nanoseconds thread_cpu_time() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + nanoseconds(now.tv_nsec);
}

}  // namespace

LuaState::LuaState(std::size_t max_bytes) : max_bytes_(max_bytes) {
  state_ = lua_newstate(&LuaState::allocate, this);
  if (state_ == nullptr) throw std::bad_alloc();
  LuaState* self = this;
  std::memcpy(lua_getextraspace(state_), &self, sizeof self);  // for of()
}

LuaState::~LuaState() {
  lua_close(state_);
}

LuaState& LuaState::of(lua_State* L) {
  LuaState* self;
  std::memcpy(&self, lua_getextraspace(L), sizeof self);
  return *self;
}

void* LuaState::allocate(void* self, void* block, std::size_t old_size, std::size_t new_size) {
  auto& state = *static_cast<LuaState*>(self);
  if (block == nullptr) old_size = 0;  // without a block, Lua passes a type here
  if (new_size == 0) {
    std::free(block);
    state.bytes_ -= old_size;
    return nullptr;
  }
  if (new_size > old_size && new_size - old_size > state.max_bytes_ - state.bytes_) return nullptr;
  void* moved = std::realloc(block, new_size);
  if (moved == nullptr) return nullptr;
  state.bytes_ += new_size - old_size;
  state.instructions_left_ -= static_cast<std::int64_t>(new_size / kBytesPerCost);
  return moved;
}

bool LuaState::time_is_up() {
  // Reading the thread's clock is a system call, so it is read only when the time may be up.
  if (steady_clock::now() < look_at_cpu_time_) return false;
  const nanoseconds used = thread_cpu_time() - cpu_begin_;
  if (used >= budget_.cpu_time) return true;
  look_at_cpu_time_ = steady_clock::now() + (budget_.cpu_time - used);
  return false;
}

void LuaState::spend(std::int64_t instructions) {
  instructions_left_ -= instructions;
  const bool out_of_instructions = instructions_left_ < 0;
  if (!out_of_instructions && !time_is_up()) return;
  // From here on every instruction raises this error, so that a pcall in the script cannot continue forever.
  lua_sethook(state_, &LuaState::hook, LUA_MASKCOUNT | LUA_MASKCALL, 1);
  const std::string limit = out_of_instructions
                                ? fmt::format("{} instructions", budget_.instructions)
                                : fmt::format("{} seconds", static_cast<double>(budget_.cpu_time.count()) / 1000);
  const std::string text =
      fmt::format("{}: the script ran for more than {}; is there an endless loop?", script_location(state_), limit);
  lua_pushlstring(state_, text.data(), text.size());
  lua_error(state_);
}

void LuaState::hook(lua_State* L, lua_Debug* event) {
  of(L).spend(event->event == LUA_HOOKCOUNT ? kHookInterval : kCallCost);
}

bool LuaState::may_print(std::size_t bytes) {
  if (bytes > kMaxPrintedBytes - printed_bytes_) return false;
  printed_bytes_ += bytes;
  return true;
}

void LuaState::call(const LuaBudget& budget, const std::function<void(lua_State*)>& body) {
  budget_ = budget;
  instructions_left_ = budget.instructions;
  printed_bytes_ = 0;
  cpu_begin_ = thread_cpu_time();
  look_at_cpu_time_ = steady_clock::now() + budget.cpu_time;
  lua_settop(state_, 0);
  lua_sethook(state_, &LuaState::hook, LUA_MASKCOUNT | LUA_MASKCALL, kHookInterval);
  lua_pushcfunction(state_, &run_body);
  lua_pushlightuserdata(state_, const_cast<void*>(static_cast<const void*>(&body)));
  const int status = lua_pcall(state_, 1, 0, 0);
  if (status == LUA_OK) return;
  std::string text = "an error without a text; call error() with a text";
  if (status == LUA_ERRMEM) {
    text = fmt::format("the script needs more than {} MiB of memory; store and build less", max_bytes_ >> 20);
  } else if (lua_type(state_, -1) == LUA_TSTRING) {
    std::size_t size = 0;
    const char* data = lua_tolstring(state_, -1, &size);
    text.assign(data, std::min(size, kMaxErrorBytes));
    if (size > kMaxErrorBytes) text += "...";
  }
  lua_settop(state_, 0);
  throw Error(text);
}

std::string script_location(lua_State* L) {
  constexpr std::size_t kMaxNameBytes = 512;  // load() accepts a name of any length
  lua_Debug frame;
  for (int level = 0; lua_getstack(L, level, &frame) != 0; ++level) {
    lua_getinfo(L, "Sl", &frame);
    if (frame.currentline <= 0) continue;
    const std::string_view source = frame.source;  // "@file", or a text passed to load()
    const bool is_file = source.starts_with('@');
    return fmt::format("{}:{}", is_file ? source.substr(1, kMaxNameBytes) : frame.short_src, frame.currentline);
  }
  return "?";
}

}  // namespace mortise
