// runtime/json/bounded_json.hpp: parses untrusted JSON: checkpoints, request bodies, batch lines, logs. nlohmann's
// parser does not recurse, but later operations on a document do (dump, copy, compare), so a million nested lists would
// overflow the stack. Therefore the depth is limited before anything is built. Quotes of such a text in errors have no
// control characters.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace mortise {

// Configurations are 6 levels deep, JSON Schemas in requests about 20. A frame of nlohmann's dump has about 500 bytes.
inline constexpr std::size_t kMaxJsonDepth = 100;

// Parses `text`, a whole JSON value in UTF-8. Throws an Error whose text continues a name and a colon: "not JSON: parse
// error at line 1, column 2: ...", "JSON is nested deeper than 100 levels ...". The caller limits the size of the text:
// a document takes up to 20 times its text in memory.
nlohmann::json parse_json(std::string_view text);

// The value in `text`; nullopt if it is not JSON or is nested too deeply. The caller then treats it as plain text.
std::optional<nlohmann::json> find_json(std::string_view text);

// The byte where `text` exceeds the depth, if it does. For readers with their own messages or parser.
std::optional<std::size_t> too_deep_at(std::string_view text);

// `text` in single quotes, with '?' for everything but printable ASCII, cut after 120 bytes.
std::string quote(std::string_view text);

// nlohmann's message without its "[json.exception...]" tag, as safe to print as quote().
std::string json_error_text(const nlohmann::json::exception& error);

}  // namespace mortise
