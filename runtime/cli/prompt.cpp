#include "cli/prompt.hpp"

#include <iterator>

#include "openai/chat_request.hpp"

namespace mortise {

std::string read_prompt(const std::string& value, std::istream& input) {
  if (value != "-") return value;
  std::string text(std::istreambuf_iterator<char>(input), {});
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

std::vector<std::int32_t> text_prompt(const OpenPipeline& pipeline, const std::string& text) {
  return pipeline.assembly.tokenizer().encode(text, /*add_special_tokens=*/true);
}

std::vector<std::int32_t> chat_prompt(const OpenPipeline& pipeline, const nlohmann::json& messages) {
  ChatInput input;
  input.messages = messages;
  return chat_tokens(pipeline.service.info().chat_template(input), pipeline.assembly.tokenizer());
}

}  // namespace mortise
