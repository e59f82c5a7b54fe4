#include "cli/repl/dialogue.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

#include "checkpoint/json_file.hpp"
#include "error.hpp"
#include "json/bounded_json.hpp"
#include "loader/nearest.hpp"

namespace mortise {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr const char* kFormat = "mortise dialogue 1";
constexpr std::uintmax_t kMaxFileBytes = std::uintmax_t{64} << 20;

// Reads the members of an object, each once. Its Errors name the value and its place.
class Reader {
 public:
  Reader(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) fail("{}: expected an object, not a {}", where_, object.type_name());
  }

  void allow_only(const std::vector<std::string>& keys) const {
    for (const auto& [key, value] : object_.items()) {
      if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
      fail("{}: unknown key {}{}", where_, quote(key), did_you_mean(key, keys));
    }
  }
  std::string text(const char* key) const {
    const Json& value = member(object_, key);
    if (!value.is_string()) fail("{}: {} is {}; expected a text", where_, key, shown(value));
    return value.get<std::string>();
  }
  std::string one_of(const char* key, std::initializer_list<std::string_view> values) const {
    const std::string found = text(key);
    if (std::find(values.begin(), values.end(), found) == values.end()) {
      fail("{}: {} is {}; expected one of {}", where_, key, quote(found), fmt::join(values, ", "));
    }
    return found;
  }
  const Json& list(const char* key) const {
    const Json& value = member(object_, key);
    if (!value.is_array()) fail("{}: {} is {}; expected a list", where_, key, shown(value));
    return value;
  }
  std::uint64_t seed(const char* key) const {
    const Json& value = member(object_, key);
    if (!value.is_number_unsigned()) fail("{}: {} is {}; expected a whole number", where_, key, shown(value));
    return value.get<std::uint64_t>();
  }
  const Json& object(const char* key) const {
    const Json& value = member(object_, key);
    if (!value.is_object()) fail("{}: {} is {}; expected an object", where_, key, shown(value));
    return value;
  }

 private:
  static std::string shown(const Json& value) { return value.is_null() ? "missing" : quote(value.dump()); }

  const Json& object_;
  std::string where_;
};

Json read_messages(const Json& list, const std::string& where) {
  Json messages = Json::array();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Reader message(list[i], fmt::format("{}: messages[{}]", where, i));
    message.allow_only({"role", "content"});
    messages.push_back(
        {{"role", message.one_of("role", {"system", "user", "assistant"})}, {"content", message.text("content")}});
  }
  return messages;
}

Json parse_file(const std::string& text, const std::string& where) {
  try {
    return parse_json(text);
  } catch (const Error& error) {
    fail("{}: {}; is it a file that /save wrote?", where, error.what());
  }
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

// Writes a file that must not exist. If that fails, no file is left, and errno says why.
bool write_new(const fs::path& path, const std::string& text) {
  std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "wx"));
  if (!file) return false;
  const bool written = std::fwrite(text.data(), 1, text.size(), file.get()) == text.size() &&
                       std::fflush(file.get()) == 0 && ::fsync(::fileno(file.get())) == 0;
  if (written) return true;
  const int error = errno;
  ::unlink(path.c_str());
  errno = error;
  return false;
}

}  // namespace

void Dialogue::add(Completion completion) {
  completions.push_back(std::move(completion));
  if (completions.size() > kMaxCompletions) completions.pop_front();
}

std::string to_text(const SavedDialogue& saved) {
  auto messages = OrderedJson::array(), completions = OrderedJson::array();
  for (const Json& message : saved.dialogue.messages) {
    messages.push_back({{"role", message.at("role")}, {"content", message.at("content")}});
  }
  for (const Completion& completion : saved.dialogue.completions) {
    completions.push_back({{"prompt", completion.prompt},
                           {"text", completion.text},
                           {"finish_reason", completion.finish_reason},
                           {"seed", completion.seed}});
  }
  const OrderedJson json = {{"format", kFormat},
                            {"model", saved.model},
                            {"system_fingerprint", saved.system_fingerprint},
                            {"mode", saved.dialogue.mode == Mode::kChat ? "chat" : "complete"},
                            {"settings", saved.settings},
                            {"messages", std::move(messages)},
                            {"completions", std::move(completions)}};
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + '\n';
}

SavedDialogue parse_dialogue(const std::string& text, const std::string& where) {
  const Json json = parse_file(text, where);
  const Reader reader(json, where);
  reader.one_of("format", {kFormat});
  reader.allow_only({"format", "model", "system_fingerprint", "mode", "settings", "messages", "completions"});
  SavedDialogue saved;
  saved.model = reader.text("model");
  saved.system_fingerprint = reader.text("system_fingerprint");
  saved.dialogue.mode = reader.one_of("mode", {"chat", "complete"}) == "chat" ? Mode::kChat : Mode::kComplete;
  saved.settings = reader.object("settings");
  saved.dialogue.messages = read_messages(reader.list("messages"), where);
  const Json& completions = reader.list("completions");
  for (std::size_t i = 0; i < completions.size(); ++i) {
    const Reader one(completions[i], fmt::format("{}: completions[{}]", where, i));
    one.allow_only({"prompt", "text", "finish_reason", "seed"});
    saved.dialogue.add({one.text("prompt"), one.text("text"), one.text("finish_reason"), one.seed("seed")});
  }
  return saved;
}

void save_dialogue(const SavedDialogue& saved, const fs::path& file, bool overwrite) {
  const std::string text = to_text(saved);
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (!fs::exists(status)) {
    if (!write_new(file, text)) fail("{}: cannot be written: {}", file.string(), std::strerror(errno));
    return;
  }
  if (!fs::is_regular_file(status)) fail("{}: is not a file; give a file to save to", file.string());
  if (!overwrite) fail("{}: exists already; /save! {} overwrites it", file.string(), file.string());
  // First writes a new file beside the old one, so that a full disk does not destroy the old one. A link stays a link.
  const fs::path target = fs::canonical(file, error);
  const fs::path fresh = target.string() + "." + std::to_string(::getpid());
  ::unlink(fresh.c_str());  // a killed program with the same process id may have left it
  if (!write_new(fresh, text) || ::rename(fresh.c_str(), target.c_str()) != 0) {
    const int reason = errno;
    ::unlink(fresh.c_str());
    fail("{}: cannot be written: {}", file.string(), std::strerror(reason));
  }
}

SavedDialogue load_dialogue(const fs::path& file) {
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (!fs::exists(status)) fail("{}: no such file", file.string());
  if (!fs::is_regular_file(status)) fail("{}: is not a file", file.string());
  if (fs::file_size(file, error) > kMaxFileBytes) {
    fail("{}: is larger than {} MiB; no dialogue is that large", file.string(), kMaxFileBytes >> 20);
  }
  std::ifstream stream(file, std::ios::binary);
  if (!stream) fail("{}: cannot be read: {}", file.string(), std::strerror(errno));
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  return parse_dialogue(text, file.string());
}

}  // namespace mortise
