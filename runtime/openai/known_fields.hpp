// runtime/openai/known_fields.hpp: which fields of a body are known, and who hears of the others. Clients send fields
// of many servers, so an unknown one is ignored; but it may be a slip of the keyboard, so it is named.
#pragma once

#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace mortise {

// The names of `body` that no code reads for this url, in the order of the alphabet; none for an unknown url and for
// what is no object. Fields that are refused, and those that say nothing about the answer (`user`), are known.
// Those of `stream_options` and `prediction` are among them: "stream_options.include_usge".
std::vector<std::string> unknown_fields(std::string_view url, const nlohmann::json& body);

// Whether a body of some url may have a field of this name, refused ones included.
bool is_known_field(std::string_view name);

// For a header or a line of a log: "unknown fields are ignored: tempreature (did you mean 'temperature'?), x".
// Printable ASCII, without quotes that a header would have to escape; long names and long lists are cut. "" when there
// are none.
std::string unknown_fields_text(std::string_view url, const std::vector<std::string>& names);

// Logs each unknown name once. Thread-safe.
class UnknownFieldLog {
 public:
  // The unknown names of the body, whether they were logged before or not.
  std::vector<std::string> note(std::string_view url, const nlohmann::json& body);

 private:
  std::mutex mutex_;
  std::set<std::string, std::less<>> seen_;
};

}  // namespace mortise
