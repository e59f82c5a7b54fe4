#include "cli/plugin/check_options.hpp"

#include "error.hpp"
#include "json/bounded_json.hpp"

namespace mortise {

nlohmann::json read_plugin_options(const std::string& text) {
  try {
    nlohmann::json options = parse_json(text);
    if (!options.is_object()) fail("{} is not a JSON object", text);
    return options;
  } catch (const Error& error) {
    fail("--options: {}", error.what());
  }
}

void check_is_plugin_file(const char* command, const std::filesystem::path& file) {
  if (std::filesystem::is_regular_file(file)) return;
  fail("{}: {} is not a file; name the .so that your build made", command, file.string());
}

}  // namespace mortise
