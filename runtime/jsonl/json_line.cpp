#include "jsonl/json_line.hpp"

#include <xxhash.h>

#include "error.hpp"
#include "json/bounded_json.hpp"

namespace mortise {
nlohmann::json parse_json_line(const InputLine& line, std::size_t max_line_bytes) {
  if (line.too_long) {
    fail("the line has {} bytes, more than the limit of {}; split it into several", line.num_bytes(), max_line_bytes);
  }
  if (const auto at = too_deep_at(line.text)) {
    fail("column {}: JSON is nested deeper than {} levels", *at + 1, kMaxJsonDepth);
  }
  try {
    return nlohmann::json::parse(line.text);
  } catch (const nlohmann::json::parse_error& error) {
    const std::string_view what = error.what();
    // Uses the name that users look for; nlohmann's message mentions UTF-8 among other things.
    if (what.find("UTF-8") != std::string_view::npos) fail("column {}: not UTF-8", error.byte);
    fail("column {}: not JSON", error.byte);
  } catch (const nlohmann::json::out_of_range&) {
    fail("a number is too large for a 64-bit float");
  }
}

LineIdentity::LineIdentity(const InputLine& line) {
  // A line above the limit is cut, so its length stands for the missing part.
  const std::uint64_t length = line.too_long ? line.num_bytes() : 0;
  const XXH128_hash_t hash = XXH3_128bits_withSeed(line.text.data(), line.text.size(), line.number ^ (length << 32));
  hex = fmt::format("{:016x}{:08x}", hash.high64, hash.low64 >> 32);
  seed = XXH3_64bits_withSeed(&hash, sizeof hash, 0) >> 1;
}

std::string dump_line(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace mortise
