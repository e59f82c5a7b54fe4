#include "tokenizer/file/tokenizer_file.hpp"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <utility>

#include "error.hpp"
#include "hasher.hpp"
#include "json/bounded_json.hpp"

namespace mortise::tokenizer {
namespace {

using nlohmann::json;

// The largest published files have 35 MB and 1 MB. A hostile file takes up to 20 times its size in memory.
constexpr std::uintmax_t kMaxFileBytes = std::uintmax_t{256} << 20;
constexpr std::uintmax_t kMaxConfigBytes = std::uintmax_t{64} << 20;  // tokenizer_config.json, chat_template.jinja
constexpr std::size_t kMaxDepth = kMaxJsonDepth;                      // nested sequences are read recursively later

// Receives the parser's events. `path_` holds the open containers. Values in the two large ones go to tables, all
// others into the document.
class Handler {
 public:
  explicit Handler(TokenizerFile& file) : file_(file) {}

  bool null() { return scalar(nullptr); }
  bool boolean(bool value) { return scalar(value); }
  bool number_integer(json::number_integer_t value) { return scalar(value); }
  bool number_float(json::number_float_t value, const std::string&) { return scalar(value); }
  bool binary(json::binary_t&) { return false; }

  bool number_unsigned(json::number_unsigned_t value) {
    if (state_ != State::kVocabulary) return scalar(value);
    if (value > Vocabulary::kMaxId) wrong_id(std::to_string(value));
    file_.vocabulary.add(key_, static_cast<std::int32_t>(value));
    return true;
  }

  bool string(std::string& value) {
    if (state_ == State::kMerges) return merge_as_text(value);
    if (state_ == State::kMergePair) return merge_half(value);
    return scalar(std::move(value));
  }

  bool key(std::string& name) {
    key_.swap(name);
    return true;
  }

  bool start_object(std::size_t) {
    if (state_ != State::kDocument) wrong_here("an object");
    if (is_model_member("vocab")) {
      state_ = State::kVocabulary;
      file_.has_vocabulary = true;
      return true;
    }
    return open(json::object());
  }

  bool end_object() {
    if (state_ == State::kVocabulary) {
      state_ = State::kDocument;
      return true;
    }
    path_.pop_back();
    return true;
  }

  bool start_array(std::size_t) {
    if (state_ == State::kMerges) {
      state_ = State::kMergePair;
      num_halves_ = 0;
      return true;
    }
    if (state_ != State::kDocument) wrong_here("an array");
    if (is_model_member("merges")) {
      state_ = State::kMerges;
      file_.has_merges = true;
      return true;
    }
    return open(json::array());
  }

  bool end_array() {
    if (state_ == State::kMergePair) {
      if (num_halves_ != 2) wrong_merge("an array of " + std::to_string(num_halves_));
      state_ = State::kMerges;
      return true;
    }
    if (state_ == State::kMerges) {
      state_ = State::kDocument;
      return true;
    }
    path_.pop_back();
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const json::exception& error) {
    fail("{}: not JSON: {}; download the file again", file_.path, json_error_text(error));
  }

 private:
  enum class State { kDocument, kVocabulary, kMerges, kMergePair };

  bool is_model_member(std::string_view name) const {
    return path_.size() == 2 && path_[1].second == "model" && path_[1].first->is_object() && key_ == name;
  }

  // Adds a value at the parser's place in the document.
  json& place(json value) {
    if (path_.empty()) return file_.document = std::move(value);
    json& parent = *path_.back().first;
    if (parent.is_array()) return parent.emplace_back(std::move(value));
    return parent[key_] = std::move(value);
  }

  bool open(json container) {
    if (path_.size() == kMaxDepth)
      fail("{}: nested more than {} levels deep, which no tokenizer is", file_.path, kMaxDepth);
    json& placed = place(std::move(container));
    path_.emplace_back(&placed, key_);
    return true;
  }

  bool scalar(json value) {
    if (state_ != State::kDocument) wrong_here(value.dump(-1, ' ', true, json::error_handler_t::replace));
    place(std::move(value));
    return true;
  }

  bool merge_as_text(const std::string& merge) {
    if (merge.starts_with("#version")) return true;
    const std::size_t space = merge.find(' ');
    if (space == std::string::npos || merge.find(' ', space + 1) != std::string::npos) wrong_merge('"' + merge + '"');
    const std::string_view view = merge;
    file_.merges.add(view.substr(0, space), view.substr(space + 1));
    return true;
  }

  bool merge_half(std::string& half) {
    ++num_halves_;
    if (num_halves_ == 1) {
      left_.swap(half);
    } else if (num_halves_ == 2) {
      file_.merges.add(left_, half);
    }
    return true;
  }

  [[noreturn]] void wrong_here(const std::string& found) const {
    if (state_ == State::kVocabulary) wrong_id(found);
    wrong_merge(found);
  }
  [[noreturn]] void wrong_id(const std::string& found) const {
    fail("{}: model.vocab[\"{}\"]: expected a whole number from 0 to {}, found {}", file_.path, key_,
         Vocabulary::kMaxId, found);
  }
  [[noreturn]] void wrong_merge(const std::string& found) const {
    fail("{}: model.merges[{}]: expected \"left right\" or [\"left\", \"right\"], found {}", file_.path,
         file_.merges.size(), found);
  }

  TokenizerFile& file_;
  State state_ = State::kDocument;
  std::vector<std::pair<json*, std::string>> path_;  // each open container and its current key
  std::string key_;
  std::string left_;
  int num_halves_ = 0;
};

std::string read_text_file(const std::filesystem::path& path, std::uintmax_t max_bytes) {
  std::error_code error;
  // Opening a pipe would wait.
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    fail("{}: is not a file; expected a file of a tokenizer here", path.string());
  }
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  std::ifstream stream(path, std::ios::binary);
  if (error || !stream) {
    fail("{}: cannot be read: {}; check the path and its permissions", path.string(),
         error ? error.message() : std::strerror(errno));
  }
  if (size > max_bytes) {
    fail("{}: {} bytes; the limit is {}: this is not a file of a tokenizer", path.string(), size, max_bytes);
  }
  std::string text(size, '\0');
  if (!stream.read(text.data(), static_cast<std::streamsize>(size)))
    fail("{}: became shorter while read", path.string());
  return text;
}

}  // namespace

void MergeList::add(std::string_view left, std::string_view right) {
  merges_.push_back({texts_.size(), static_cast<std::uint32_t>(left.size()), static_cast<std::uint32_t>(right.size())});
  texts_.append(left).append(right);
}

std::string read_text_file(const std::filesystem::path& path) {
  return read_text_file(path, kMaxConfigBytes);
}

nlohmann::json read_json_file(const std::filesystem::path& path) {
  const std::string text = read_text_file(path, kMaxConfigBytes);
  try {
    return parse_json(text);
  } catch (const Error& error) {
    fail("{}: {}; download the file again", path.string(), error.what());
  }
}

TokenizerFile read_tokenizer_file(const std::filesystem::path& path) {
  TokenizerFile file;
  file.path = path.string();
  const std::string text = read_text_file(path, kMaxFileBytes);
  file.hash = hash_of(text);
  Handler handler(file);
  json::sax_parse(text.data(), text.data() + text.size(), &handler);
  if (const auto twice = file.vocabulary.finish()) {
    fail("{}: model.vocab[\"{}\"]: is there twice, expected once", file.path, *twice);
  }
  return file;
}

}  // namespace mortise::tokenizer
