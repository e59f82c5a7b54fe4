// A chat template and what it is given. Input: the template, a line of %%%, and the messages as JSON. Whatever both
// are, compiling and rendering end within the limits, with a text or an Error; a text is valid UTF-8, and no byte of
// the callers is the template's.
#include "chat_template/chat_template.hpp"

#include "error.hpp"
#include "fuzz_input.hpp"
#include "json/bounded_json.hpp"
#include "tokenizer/characters/utf8.hpp"

using mortise::fuzz::require;

namespace {

// A mark that no template of the corpus writes: it comes with the messages alone.
constexpr std::string_view kCallers = "\xF0\x9F\x94\x92";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parts = mortise::fuzz::parts_of(mortise::fuzz::text_of(data, size), 2);
  mortise::ChatTemplateOptions options;
  options.limits = {.max_steps = 300'000, .max_bytes = std::size_t{4} << 20, .max_depth = 200};
  options.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  try {
    const auto chat = mortise::ChatTemplate::compile(parts[0], options);
    mortise::ChatInput input;
    input.messages = {{{"role", "user"}, {"content", std::string(kCallers)}}};
    if (const auto given = mortise::find_json(parts[1])) input.messages = *given;
    input.variables = {{"lock", kCallers}, {"number", 3}};
    const mortise::SegmentedText text = chat.render(input);
    for (const mortise::TextSegment& segment : text) {
      require(mortise::tokenizer::is_valid_utf8(segment.text));
      const bool writes_it = parts[0].find(kCallers) != parts[0].npos || parts[0].find('\\') != parts[0].npos;
      require(writes_it || !segment.special_tokens || segment.text.find(kCallers) == segment.text.npos);
    }
  } catch (const mortise::Error& error) {
    require(*error.what() != '\0');
  }
  return 0;
}
