// runtime/loader/option_reader.hpp: gives a plugin its options by name and type (mortise_option_reader in plugin.h).
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "mortise/plugin.h"

namespace mortise {

// The options of one create call, as JSON text and by name. What a plugin reads lives as long as this object. Used by
// one thread. Invariant: the options do not change, and a text that a plugin got stays where it is.
class OptionReader {
 public:
  // REQUIRES: `options` is a JSON object.
  explicit OptionReader(nlohmann::json options) : options_(std::move(options)), text_(options_.dump()) {
    abi_.struct_size = sizeof abi_;
    abi_.context = this;
    abi_.get_int = get_int;
    abi_.get_float = get_float;
    abi_.get_bool = get_bool;
    abi_.get_text = get_text;
    abi_.get_json = get_json;
  }
  OptionReader(const OptionReader&) = delete;
  OptionReader& operator=(const OptionReader&) = delete;

  // Sets the options of `args`, which borrows this object.
  void give_to(mortise_create_args& args) const {
    args.options = view(text_);
    args.option_reader = &abi_;
  }

 private:
  // Returns the value of an option; nullptr if it is missing or null.
  static const nlohmann::json* find(void* context, const char* name) {
    const nlohmann::json& options = static_cast<const OptionReader*>(context)->options_;
    const auto at = name == nullptr ? options.end() : options.find(name);
    return at == options.end() || at->is_null() ? nullptr : &*at;
  }
  static mortise_string_view view(const std::string& text) { return {text.c_str(), text.size()}; }

  static mortise_status get_int(void* context, const char* name, std::int64_t* value) {
    const nlohmann::json* found = find(context, name);
    if (found == nullptr) return MORTISE_NOT_FOUND;
    if (found->is_number_unsigned() && found->get<std::uint64_t>() > INT64_MAX) return MORTISE_INVALID_ARGUMENT;
    if (found->is_number_float()) {
      const auto number = found->get<double>();
      // 2^63 is the first double beyond the range.
      if (number != std::trunc(number) || std::abs(number) >= 0x1p63) return MORTISE_INVALID_ARGUMENT;
    } else if (!found->is_number_integer()) {
      return MORTISE_INVALID_ARGUMENT;
    }
    *value = found->get<std::int64_t>();
    return MORTISE_OK;
  }
  static mortise_status get_float(void* context, const char* name, double* value) {
    const nlohmann::json* found = find(context, name);
    if (found == nullptr) return MORTISE_NOT_FOUND;
    if (!found->is_number()) return MORTISE_INVALID_ARGUMENT;
    *value = found->get<double>();
    return MORTISE_OK;
  }
  static mortise_status get_bool(void* context, const char* name, std::int32_t* value) {
    const nlohmann::json* found = find(context, name);
    if (found == nullptr) return MORTISE_NOT_FOUND;
    if (!found->is_boolean()) return MORTISE_INVALID_ARGUMENT;
    *value = found->get<bool>() ? 1 : 0;
    return MORTISE_OK;
  }
  static mortise_status get_text(void* context, const char* name, mortise_string_view* value) {
    const nlohmann::json* found = find(context, name);
    if (found == nullptr) return MORTISE_NOT_FOUND;
    if (!found->is_string()) return MORTISE_INVALID_ARGUMENT;
    *value = view(found->get_ref<const std::string&>());
    return MORTISE_OK;
  }
  static mortise_status get_json(void* context, const char* name, mortise_string_view* value) {
    const nlohmann::json* found = find(context, name);
    if (found == nullptr) return MORTISE_NOT_FOUND;
    std::string& text = static_cast<OptionReader*>(context)->dumped_[name];
    if (text.empty()) text = found->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    *value = view(text);
    return MORTISE_OK;
  }

  const nlohmann::json options_;
  const std::string text_;
  std::map<std::string, std::string> dumped_;  // by name, the texts that get_json returned
  mortise_option_reader abi_{};
};

}  // namespace mortise
