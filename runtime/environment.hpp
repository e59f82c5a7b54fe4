// runtime/environment.hpp: the environment variables that the program reads. (Those of devices are in
// plugins/devices/checks/environment.hpp.) An empty variable counts as unset. [any thread, as long as no thread sets
// variables]
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

namespace mortise::environment {

inline constexpr const char* kPluginPath = "MORTISE_PLUGIN_PATH";      // folders of plugins, separated by colons
inline constexpr const char* kPluginIndex = "MORTISE_PLUGIN_INDEX";    // where plugins are searched and installed from
inline constexpr const char* kPluginCopies = "MORTISE_PLUGIN_COPIES";  // folder for private copies of plugins
inline constexpr const char* kLog = "MORTISE_LOG";                     // the log level
inline constexpr const char* kCallLimit = "MORTISE_CALL_LIMIT";  // seconds until a slow call of a plugin is reported
inline constexpr const char* kAbiCheck = "MORTISE_ABI_CHECK";    // 1: the calls of all parts are checked
inline constexpr const char* kIsa = "MORTISE_ISA";               // read by the device cpu; benchmarks report it
inline constexpr const char* kApiKey = "MORTISE_API_KEY";        // of the server
inline constexpr const char* kAdminKey = "MORTISE_ADMIN_KEY";    // of the server's admin endpoints; also used by `ctl`
inline constexpr const char* kNotifySocket = "NOTIFY_SOCKET";    // of the service manager, see sd_notify(3)
inline constexpr const char* kTerminal = "TERM";
inline constexpr const char* kNoColour = "NO_COLOR";  // https://no-color.org

inline std::optional<std::string> read(const char* variable) {
  const char* const value = std::getenv(variable);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

inline std::string temporary_folder() {
  return read("TMPDIR").value_or("/tmp");
}

inline std::optional<std::string> home() {
  return read("HOME");
}

// A folder of the XDG specification: `variable`, unless it is a relative path, which the specification says to ignore;
// otherwise `below_home` in the home folder. nullopt: neither exists.
inline std::optional<std::filesystem::path> xdg_folder(const char* variable, const std::filesystem::path& below_home) {
  if (const auto named = read(variable); named && std::filesystem::path(*named).is_absolute()) return *named;
  const std::optional<std::string> folder = home();
  if (!folder || !std::filesystem::path(*folder).is_absolute()) return std::nullopt;
  return std::filesystem::path(*folder) / below_home;
}
inline std::optional<std::filesystem::path> cache_folder() {
  return xdg_folder("XDG_CACHE_HOME", ".cache");
}
inline std::optional<std::filesystem::path> config_folder() {
  return xdg_folder("XDG_CONFIG_HOME", ".config");
}
inline std::optional<std::filesystem::path> data_folder() {
  return xdg_folder("XDG_DATA_HOME", std::filesystem::path(".local") / "share");
}
inline std::optional<std::filesystem::path> state_folder() {
  return xdg_folder("XDG_STATE_HOME", std::filesystem::path(".local") / "state");
}

}  // namespace mortise::environment
