// runtime/json/bounded_json.hpp: JSON that strangers wrote: checkpoints, request bodies, batch lines, logs. nlohmann's
// parser does not recurse, but whatever is done with a document later does (dump, copy, compare), so a million nested
// lists would end the stack of whoever touches them. Here the depth is limited before anything is built. What an error
// quotes of such a text cannot play with a terminal.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace mortise {

// Configurations nest 6 deep, JSON Schemas in requests some 20; a frame of nlohmann's dump has about 500 bytes.
inline constexpr std::size_t kMaxJsonDepth = 100;

// The document in `text`, a whole JSON value in UTF-8. Throws an Error that reads on after a name and a colon: "not
// JSON: parse error at line 1, column 2: ...", "JSON is nested deeper than 100 levels ...". The caller limits
// the size: a document takes up to 20 times its text in memory.
nlohmann::json parse_json(std::string_view text);

// The value in `text`, or nothing where it is none, or deeper than that: then it is taken as the text that it is.
std::optional<nlohmann::json> find_json(std::string_view text);

// The byte where `text` becomes deeper than that, if it does. For readers with messages or a parser of their own.
std::optional<std::size_t> too_deep_at(std::string_view text);

// `text` between single quotes, all but printable ASCII as '?', cut after 120 bytes.
std::string quote(std::string_view text);

// nlohmann's message without its "[json.exception...]" tag, and as safe to print as quote().
std::string json_error_text(const nlohmann::json::exception& error);

}  // namespace mortise
