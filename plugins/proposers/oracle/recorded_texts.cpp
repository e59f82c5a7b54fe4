#include "proposers/oracle/recorded_texts.hpp"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "mortise/plugin.hpp"

namespace mortise::oracle {
namespace {

using Tokens = std::vector<int32_t>;

[[noreturn]] void refuse(const std::filesystem::path& log, std::size_t line, const std::string& what) {
  throw Failure(MORTISE_DATA_LOSS, "log",
                log.string() + (line == 0 ? "" : ": line " + std::to_string(line)) + ": " + what +
                    "; the log is what --record writes");
}

Tokens tokens_of(const nlohmann::json& object, const char* key) {
  const auto list = object.find(key);
  if (list == object.end() || !list->is_array()) throw std::invalid_argument(std::string(key) + " is no list");
  Tokens tokens;
  for (const nlohmann::json& id : *list) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > INT32_MAX) {
      throw std::invalid_argument(std::string(key) + " has " + id.dump() + ", which is no token id");
    }
    tokens.push_back(id.get<int32_t>());
  }
  return tokens;
}

// Adds the texts of one request, one for each choice.
void add_texts(const nlohmann::json& request, std::vector<Tokens>& texts) {
  const Tokens prompt = tokens_of(request, "prompt");
  const auto choices = request.find("choices");
  if (choices == request.end() || !choices->is_array()) throw std::invalid_argument("choices is no list");
  for (const nlohmann::json& choice : *choices) {
    if (!choice.is_object()) throw std::invalid_argument("choices has " + choice.dump() + ", which is no object");
    Tokens& text = texts.emplace_back(prompt);
    const Tokens tokens = tokens_of(choice, "tokens");
    text.insert(text.end(), tokens.begin(), tokens.end());
  }
}

}  // namespace

RecordedTexts::RecordedTexts(const std::filesystem::path& log) {
  std::ifstream stream(log, std::ios::binary);
  if (!stream || std::filesystem::is_directory(log)) {
    throw Failure(MORTISE_NOT_FOUND, "log", log.string() + ": cannot be read; check the path");
  }
  std::size_t number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    if (stream.eof()) break;  // an incomplete last line: the recording process was killed
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) refuse(log, number, "not a JSON object");
    const bool is_header = json.contains("mortise_log");
    if (number == 1 && !is_header) refuse(log, number, "no header");
    if (is_header) continue;
    try {
      add_texts(json, texts_);
    } catch (const std::invalid_argument& error) {
      refuse(log, number, error.what());
    }
  }
  if (texts_.empty()) refuse(log, 0, "has no requests");
  std::sort(texts_.begin(), texts_.end());
  texts_.erase(std::unique(texts_.begin(), texts_.end()), texts_.end());
}

std::optional<std::size_t> RecordedTexts::find(std::span<const int32_t> beginning) const {
  // Finds the first text that is longer than the beginning and not below it in lexicographic order.
  const auto at = std::lower_bound(texts_.begin(), texts_.end(), beginning, [](const Tokens& text, auto wanted) {
    return std::lexicographical_compare(text.begin(), text.end(), wanted.begin(), wanted.end());
  });
  for (auto text = at; text != texts_.end(); ++text) {
    if (text->size() < beginning.size() || !std::equal(beginning.begin(), beginning.end(), text->begin())) break;
    if (text->size() > beginning.size()) return static_cast<std::size_t>(text - texts_.begin());
  }
  return std::nullopt;
}

int32_t RecordedTexts::largest_token() const {
  int32_t largest = -1;
  for (const Tokens& text : texts_) {
    for (int32_t token : text) largest = std::max(largest, token);
  }
  return largest;
}

}  // namespace mortise::oracle
