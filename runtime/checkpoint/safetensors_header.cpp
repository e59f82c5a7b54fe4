#include "checkpoint/safetensors_header.hpp"

#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "checkpoint/json_file.hpp"
#include "error.hpp"

namespace mortise {
namespace {

// A state machine over the parser's events, since all headers have one structure. An event that a state does not expect
// is an error, which also bounds the depth.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderReader(SafetensorsHeader& header, std::string_view where) : header_(header), where_(where) {}

  bool start_object(std::size_t) override {
    if (state_ == State::kStart) {
      state_ = State::kTop;
    } else if (state_ == State::kTensorValue) {
      if (header_.entries.size() == kMaxTensors) {
        fail("{}: has more than {} tensors, which no checkpoint has; check where the file came from", where_,
             kMaxTensors);
      }
      header_.entries.push_back({.name = name_, .dtype = {}, .shape = {}, .data_offsets = {}});
      seen_ = 0;
      state_ = State::kTensor;
    } else if (state_ == State::kMetadataValue) {
      state_ = State::kMetadata;
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool key(string_t& key) override {
    if (state_ == State::kTop) {
      if (!names_.insert(key).second) fail("{}: {} is twice in the header; {}", where_, quote(key), kRemedy);
      name_ = key;
      state_ = key == "__metadata__" ? State::kMetadataValue : State::kTensorValue;
    } else if (state_ == State::kTensor) {
      field(key);
    } else {
      metadata_key_ = key;
      state_ = State::kMetadataText;
    }
    return true;
  }

  bool end_object() override {
    if (state_ == State::kTensor) {
      finish_entry();
      state_ = State::kTop;
    } else if (state_ == State::kMetadata) {
      state_ = State::kTop;
    } else {
      state_ = State::kEnd;
    }
    return true;
  }

  bool start_array(std::size_t) override {
    if ((state_ != State::kShape && state_ != State::kOffsets) || in_list_) unexpected("a list");
    in_list_ = true;
    return true;
  }

  bool end_array() override {
    in_list_ = false;
    state_ = State::kTensor;
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (!in_list_) unexpected("a number");
    HeaderEntry& entry = header_.entries.back();
    std::vector<std::uint64_t>& list = state_ == State::kShape ? entry.shape : entry.data_offsets;
    if (list.size() == kMaxDimensions) {
      fail("{}: tensor {} has a list of more than {} numbers; {}", where_, quote(name_), kMaxDimensions, kRemedy);
    }
    list.push_back(value);
    return true;
  }

  bool string(string_t& value) override {
    if (state_ == State::kDtype) {
      header_.entries.back().dtype = value;
      state_ = State::kTensor;
    } else if (state_ == State::kMetadataText) {
      header_.metadata[metadata_key_] = value;
      state_ = State::kMetadata;
    } else {
      unexpected("a string");
    }
    return true;
  }

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { return unexpected("a fraction or too large a number"); }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& error) override {
    fail("{}: the header is not JSON: {}; {}", where_, json_error_text(error), kRemedy);
  }

 private:
  enum class State {
    kStart,
    kTop,
    kTensorValue,
    kTensor,
    kDtype,
    kShape,
    kOffsets,
    kMetadataValue,
    kMetadata,
    kMetadataText,
    kEnd
  };
  static constexpr const char* kRemedy = "the file is damaged: download it again";
  static constexpr std::size_t kMaxTensors = 1 << 18;  // the largest models have 100,000 in all their shards
  static constexpr std::size_t kMaxDimensions = 64;    // like numpy and torch; a header of 100 MB could list 50 million

  [[noreturn]] bool unexpected(const char* what) const {
    if (state_ == State::kStart) fail("{}: the header is {}; expected an object; {}", where_, what, kRemedy);
    fail("{}: the header has {} in the description of {}, where it does not belong; {}", where_, what, quote(name_),
         kRemedy);
  }

  void field(const std::string& key) {
    const int index = key == "dtype" ? 0 : key == "shape" ? 1 : key == "data_offsets" ? 2 : 3;
    if (index == 3 || (seen_ >> index & 1) != 0) {
      fail("{}: tensor {} has {} {}; {}", where_, quote(name_), index == 3 ? "an unknown field" : "twice the field",
           quote(key), kRemedy);
    }
    seen_ |= 1u << index;
    state_ = index == 0 ? State::kDtype : index == 1 ? State::kShape : State::kOffsets;
  }

  void finish_entry() const {
    if (seen_ != 7 || header_.entries.back().data_offsets.size() != 2) {
      fail("{}: tensor {} lacks a dtype, a shape or two data_offsets; {}", where_, quote(name_), kRemedy);
    }
  }

  SafetensorsHeader& header_;
  std::string_view where_;
  State state_ = State::kStart;
  bool in_list_ = false;
  unsigned seen_ = 0;  // fields of the current tensor: bit 0 dtype, 1 shape, 2 data_offsets
  std::string name_, metadata_key_;
  std::unordered_set<std::string> names_;
};

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, std::string_view where) {
  SafetensorsHeader header;
  HeaderReader reader(header, where);
  nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
  return header;
}

}  // namespace mortise
