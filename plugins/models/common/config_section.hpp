// plugins/models/common/config_section.hpp: config.json (or an object in it), read with every value checked: the file
// comes from strangers. Failures name key, value and what was expected.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "mortise/plugin.hpp"

namespace mortise::models {

// Far above any model and small enough that no product of two of them overflows 64 bits, nor a row 31 bits.
constexpr int64_t kMaxSize = int64_t{1} << 22;
constexpr int64_t kMaxHeadDim = 4096;
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxPositions = int64_t{1} << 24;  // positions are exact in f32

// What this plugin cannot compute exactly: UNIMPLEMENTED.
[[noreturn]] void unsupported(const std::string& what);
// A value that makes no model: INVALID_ARGUMENT.
[[noreturn]] void invalid_value(const std::string& key, const std::string& found, const std::string& expected);

// The text as one JSON object, or INVALID_ARGUMENT.
nlohmann::json parse_object(std::string_view text);

// One JSON object with its name; absent and null are the same, as they are to transformers. Borrows the object.
class Section {
 public:
  Section(const nlohmann::json& object, std::string prefix) : object_(object), prefix_(std::move(prefix)) {}

  const nlohmann::json* find(const char* key) const;
  // The last argument is the value of an absent key; without it the key must be there.
  int64_t integer(const char* key, int64_t min, int64_t max) const;
  int64_t integer(const char* key, int64_t min, int64_t max, int64_t absent) const;
  double number(const char* key, double min, double max) const;
  double number(const char* key, double min, double max, double absent) const;
  bool boolean(const char* key, bool absent) const;
  std::string text(const char* key, const char* absent) const;
  int32_t size(const char* key, int64_t max) const { return static_cast<int32_t>(integer(key, 1, max)); }

  [[noreturn]] void fail(const char* key, const std::string& expected) const;

 private:
  const nlohmann::json& object_;
  std::string prefix_;
};

struct Family {
  const char* model_type;
  const char* architecture;
};

// The model_type of the family that the checkpoint is of: by model_type, which is what transformers goes by; by
// architecture where there is no model_type. A checkpoint whose architectures are all something else (a classifier, an
// encoder) has another head: refused, as is one of no family named.
std::string family_of(const Section& config, std::initializer_list<Family> families);

// MORTISE_BF16, MORTISE_F16 or MORTISE_F32 after `dtype`.
int32_t checkpoint_dtype(const Section& config);

// What the host says of a checkpoint that comes quantised (it reads them, and has normalised this section).
struct Quantization {
  int32_t bits = 0;        // 0: it is not quantised
  int32_t group_size = 0;  // 0: a row
};
Quantization checkpoint_quantization(const Section& config);

// The MORTISE_ACT_* that transformers' name at `key` stands for.
int32_t activation_of(const Section& config, const char* key, const char* absent);

}  // namespace mortise::models
