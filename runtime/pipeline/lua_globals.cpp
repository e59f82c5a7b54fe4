#include "pipeline/lua_globals.hpp"

#include <cstdint>
#include <cstring>

#include "error.hpp"
#include "lua.h"

static_assert(LUA_VERSION_NUM == 504, "the format of compiled scripts is that of Lua 5.4");

namespace mortise {
namespace {

// From lundump.c and lopcodes.h of Lua 5.4. The format and the numbers are the same in all 5.4 releases.
constexpr std::string_view kSignature("\x1bLua\x54\x00\x19\x93\r\n\x1a\n", 12);
constexpr unsigned kGetTabUp = 11, kSetTabUp = 15;
constexpr std::uint8_t kInteger = 3, kFloat = 19, kShortText = 4, kLongText = 20;
constexpr std::int8_t kAbsoluteLine = -128;

// Reads the global variables that a compiled Lua chunk uses. Used by one thread.
class ChunkReader {
 public:
  explicit ChunkReader(std::string_view bytes) : bytes_(bytes) {}

  std::vector<GlobalUse> read() {
    if (take(kSignature.size()) != kSignature) broken();
    constexpr char kSizes[] = {4, sizeof(lua_Integer), sizeof(lua_Number)};
    if (take(sizeof kSizes) != std::string_view(kSizes, sizeof kSizes)) broken();
    take(sizeof(lua_Integer) + sizeof(lua_Number) + 1);  // sample values of both types; number of upvalues
    read_function(/*in_function=*/false);
    return std::move(uses_);
  }

 private:
  struct Function {
    int first_line = 0;
    std::vector<std::uint32_t> code;
    std::vector<std::string> constants;  // "" for constants that are not strings
    std::vector<std::string> upvalues;
    std::vector<std::string> locals;
    std::vector<int> lines;  // line of each instruction
  };

  [[noreturn]] static void broken() { fail(ErrorCode::kInternal, "a compiled script is not of the form of Lua 5.4"); }

  std::string_view take(std::size_t size) {
    if (size > bytes_.size()) broken();
    const std::string_view piece = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return piece;
  }
  template <typename T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::size_t size() {  // seven bits a byte; the last byte is marked
    std::size_t value = 0;
    for (int i = 0; i < 10; ++i) {
      const auto byte = number<std::uint8_t>();
      value = value << 7 | (byte & 0x7fu);
      if ((byte & 0x80u) != 0) return value;
    }
    broken();
  }
  std::string text() {
    const std::size_t length = size();  // length of the string plus 1; 0: no string
    return length == 0 ? "" : std::string(take(length - 1));
  }

  void read_function(bool in_function) {
    Function function;
    text();  // name of the source
    function.first_line = static_cast<int>(size());
    size();   // last line
    take(3);  // number of parameters, vararg flag, stack size
    function.code.resize(count(sizeof(std::uint32_t)));
    for (std::uint32_t& instruction : function.code) instruction = number<std::uint32_t>();
    read_constants(function);
    const std::size_t num_upvalues = count(3);
    take(num_upvalues * 3);
    for (std::size_t left = count(1); left > 0; --left) read_function(/*in_function=*/true);
    read_debug(function);
    find_uses(function, in_function);
  }

  // The length of a list whose entries have at least `least` bytes each.
  std::size_t count(std::size_t least) {
    const std::size_t value = size();
    if (value > bytes_.size() / least) broken();
    return value;
  }

  void read_constants(Function& function) {
    for (std::size_t left = count(1); left > 0; --left) {
      const auto type = number<std::uint8_t>();
      std::string& constant = function.constants.emplace_back();
      if (type == kInteger || type == kFloat) take(8);
      if (type == kShortText || type == kLongText) constant = text();
    }
  }

  void read_debug(Function& function) {
    const std::string_view steps = take(count(1));
    std::vector<std::pair<std::size_t, int>> absolute;
    for (std::size_t left = count(2); left > 0; --left) {
      const std::size_t at = size();
      absolute.emplace_back(at, static_cast<int>(size()));
    }
    int line = function.first_line;
    std::size_t next = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const auto step = static_cast<std::int8_t>(steps[i]);
      if (step != kAbsoluteLine) {
        line += step;
      } else if (next < absolute.size()) {
        line = absolute[next++].second;
      }
      function.lines.push_back(line);
    }
    for (std::size_t left = count(3); left > 0; --left) {
      function.locals.push_back(text());
      size();  // start of scope
      size();  // end of scope
    }
    for (std::size_t left = count(1); left > 0; --left) function.upvalues.push_back(text());
  }

  void find_uses(const Function& function, bool in_function) {
    for (std::size_t i = 0; i < function.code.size(); ++i) {
      const std::uint32_t code = function.code[i];
      const unsigned operation = code & 0x7fu;
      if (operation != kGetTabUp && operation != kSetTabUp) continue;
      const bool written = operation == kSetTabUp;
      const std::size_t a = code >> 7 & 0xffu, b = code >> 16 & 0xffu, c = code >> 24;
      const std::size_t table = written ? a : b, key = written ? b : c;
      if (table >= function.upvalues.size() || function.upvalues[table] != "_ENV") continue;
      if (key >= function.constants.size()) broken();
      GlobalUse& use = uses_.emplace_back();
      use.name = function.constants[key];
      use.line = i < function.lines.size() ? function.lines[i] : function.first_line;
      use.written = written;
      use.in_function = in_function;
      use.visible = function.locals;
      use.visible.insert(use.visible.end(), function.upvalues.begin(), function.upvalues.end());
    }
  }

  std::string_view bytes_;
  std::vector<GlobalUse> uses_;
};

}  // namespace

std::vector<GlobalUse> find_globals(std::string_view chunk) {
  return ChunkReader(chunk).read();
}

}  // namespace mortise
