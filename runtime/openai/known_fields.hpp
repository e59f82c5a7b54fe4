// runtime/openai/known_fields.hpp: the known fields of bodies, and reports of unknown ones. Clients send fields of many
// servers, so unknown fields are ignored. But an unknown name may be a typing error, so it is reported.
#pragma once

#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace mortise {

// The names in `body` that no code reads for this url, in alphabetical order. Empty for an unknown url or a body that
// is not an object. Refused fields and fields without effect on the answer (`user`) are known. Includes the fields of
// `stream_options` and `prediction`: "stream_options.include_usge".
std::vector<std::string> unknown_fields(std::string_view url, const nlohmann::json& body);

// Whether a body of any url may have this field, refused fields included.
bool is_known_field(std::string_view name);

// For a header or a log line: "unknown fields are ignored: tempreature (did you mean 'temperature'?), x". Printable
// ASCII, without quotes that a header would have to escape; long names and long lists are cut. "" if `names` is empty.
std::string unknown_fields_text(std::string_view url, const std::vector<std::string>& names);

// Logs each unknown name once. Thread-safe. Invariant: a name in seen_ was logged.
class UnknownFieldLog {
 public:
  // Returns the unknown names of the body, logged before or not.
  std::vector<std::string> note(std::string_view url, const nlohmann::json& body);

 private:
  std::mutex mutex_;
  std::set<std::string, std::less<>> seen_;
};

}  // namespace mortise
