// Small templates, each of which shows a feature, beside what transformers' jinja2 makes of them
// (tests/golden/make_chat_templates.py).
// Covers: runtime/chat_template/{access,compare,evaluate,expression_parser,filters,filters_list,filters_number}
// Covers: runtime/chat_template/{filters_select,filters_text,format,functions,interpreter,json_text,json_values,lexer}
// Covers: runtime/chat_template/{methods,operators,parser,print,runtime,syntax_tree,tests,text_methods,text_operations}
// Covers: runtime/chat_template/{token_stream,unicode,value}
#include <gmock/gmock.h>

#include <fstream>

#include "chat_template/chat_template.hpp"
#include "error.hpp"
#include "fixed_time.hpp"

namespace mortise {
namespace {

using Json = nlohmann::ordered_json;

Json rendered(const std::string& source, const Json& variables) {
  ChatInput input;
  input.variables = variables;
  try {
    return plain_text(ChatTemplate::compile(source, {.clock = test::fixed_time}).render(input));
  } catch (const Error&) {
    return nullptr;
  }
}

TEST(ChatTemplateGolden, TemplatesRenderAsJinja2RendersThem) {
  std::ifstream file(MORTISE_SOURCE_DIR "/tests/golden/chat_templates/cases.json");
  const Json goldens = Json::parse(file);
  ASSERT_GT(goldens["cases"].size(), 80u);
  for (const Json& golden : goldens["cases"]) {
    EXPECT_EQ(rendered(golden["template"], goldens["variables"]), golden["text"]) << golden["template"];
  }
}

}  // namespace
}  // namespace mortise
