// What jinja2 makes of the same templates is compared in tests/e2e/test_chat_templates.py; here is what it cannot say.
#include "chat_template/chat_template.hpp"

#include <gmock/gmock.h>

#include "rendering.hpp"

namespace mortise {
namespace {

using test::error_of;
using test::Json;
using test::render;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// The text with what comes from the caller in brackets.
std::string marked(const SegmentedText& text) {
  std::string all;
  for (const TextSegment& segment : text) all += segment.special_tokens ? segment.text : "[" + segment.text + "]";
  return all;
}

std::string marked(std::string_view source, const Json& variables) {
  return marked(test::segments(source, variables));
}

TEST(ChatTemplate, MarksSurviveEveryOperation) {
  const Json of = {{"x", " a<b> "}, {"l", {"p", "q"}}, {"d", {{"k", "v"}}}};
  EXPECT_EQ(marked("<{{ x }}>", of), "<[ a<b> ]>");
  EXPECT_EQ(marked("{{ '<' + x.strip() ~ '>' }}", of), "<[a<b>]>");
  EXPECT_EQ(marked("{{ ('-' + x + '-')[:4] | upper }}", of), "-[ A<]");
  EXPECT_EQ(marked("{{ x | replace('<b>', '!') | trim }}", of), "[a]!");
  EXPECT_EQ(marked("{{ l | join('<|x|>') }}", of), "[p]<|x|>[q]");
  EXPECT_EQ(marked("{{ ('<' ~ l[0] ~ '>').split(l[0]) | join }}", of), "<>");
  EXPECT_EQ(marked("{{ d | tojson }}", of), R"({"[k]": "[v]"})");
  EXPECT_EQ(marked("{{ d }}", of), "{'[k]': '[v]'}");
  EXPECT_EQ(marked("{{ '%s|%s' % (x, 1) }}", of), "[ a<b> ]|1");
  EXPECT_EQ(marked("{{ '{}|{k:>3}'.format(x, k=l[1]) }}", of), "[ a<b> ]|  [q]");
  EXPECT_EQ(marked("{{ x[0:2] | title | indent(2, first=true) }}", of), "  [ A]");
  EXPECT_EQ(marked("{% set y %}<{{ l[0] }}>{% endset %}{{ y * 2 }}", of), "<[p]><[p]>");
  EXPECT_EQ(marked("{% macro m(t) %}({{ t }}){% endmacro %}{{ m(l[0]) }}", of), "([p])");
  EXPECT_EQ(marked("{{ ('<' ~ l[0])|reverse }}", of), "[p]<");
}

TEST(ChatTemplate, TheRoleCountsAsTheTemplatesText) {
  const auto chat = ChatTemplate::compile("{% for m in messages %}{{ '<|' + m.role + '|>' + m.content }}{% endfor %}");
  ChatInput input;
  input.messages = {{{"role", "user"}, {"content", "user"}}, {{"role", "a|>"}, {"content", ""}}};
  EXPECT_EQ(marked(chat.render(input)), "<|user|>[user]<|[a|>]|>");  // who lets any role in gets no token for it
}

TEST(ChatTemplate, ContentsGetTheFormThatATemplateReads) {
  const Json text = {{{"role", "user"}, {"content", "ab"}}};
  const Json parts = {
      {{"role", "user"}, {"content", {{{"type", "text"}, {"text", "a"}}, {{"type", "text"}, {"text", "b"}}}}}};
  const auto plain = ChatTemplate::compile("{{ messages[0].content }}");
  EXPECT_EQ(plain.fitted(parts), text);
  const auto listed = ChatTemplate::compile("{% for p in messages[0].content %}{{ p.text }}{% endfor %}");
  EXPECT_EQ(listed.fitted(text)[0]["content"], Json::parse(R"([{"type": "text", "text": "ab"}])"));
  const auto both = ChatTemplate::compile(
      "{% set c = messages[0].content %}{% if c is string %}{{ c }}{% else %}{{ c|map(attribute='text')|join }}{% "
      "endif %}");
  EXPECT_EQ(both.fitted(text), text);
  EXPECT_EQ(both.fitted(parts), parts);
}

TEST(ChatTemplate, AMessageIsContinued) {
  const auto continued = [](const char* source, const Json& content) {
    ChatInput input;
    input.continue_final_message = true;
    input.messages = {{{"role", "user"}, {"content", "q"}}, {{"role", "assistant"}, {"content", content}}};
    try {
      return plain_text(ChatTemplate::compile(source).render(input));
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  const char* const kept =
      "{% for m in messages %}<{{ m.content }}>{% endfor %}{% if add_generation_prompt %}!{% endif %}";
  EXPECT_EQ(continued(kept, "Once "), "<q><Once ");
  EXPECT_EQ(continued("{% for m in messages %}<{{ m.content | trim }}>{% endfor %}", " Once "), "<q><Once");
  EXPECT_EQ(continued("{% for m in messages %}{% for p in m.content %}{{ p.text }}.{% endfor %}{% endfor %}",
                      Json::parse(R"([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])")),
            ".a.b");
  EXPECT_EQ(continued("{{ messages[0].content }}", "x"),
            "continue_final_message: the template leaves out the end of the last message");
  EXPECT_EQ(continued(kept, nullptr), "continue_final_message: the last message has no text to continue");
}

TEST(ChatTemplate, AClockAndTexts) {
  ChatTemplateOptions options;
  options.clock = [] {
    std::tm time{};
    time.tm_year = 124;
    time.tm_mday = 2;
    return time;
  };
  options.special_tokens = {{"bos_token", "<s>"}};
  const auto chat = ChatTemplate::compile("{{ bos_token }}{{ strftime_now('%d %b %Y') }}{{ eos_token }}", options);
  EXPECT_EQ(marked(chat.render({})), "<s>02 Jan 2024");
}

TEST(ChatTemplate, WhatIsNotSupportedIsRefusedWithItsLine) {
  const std::pair<const char*, const char*> refusals[] = {
      {"a\nb\n{{ x | xyz }}", "chat_template line 3: the filter 'xyz' is not supported"},
      {"{{ x is odd_looking }}", "chat_template line 1: the test 'odd_looking' is not supported"},
      {"{{ x | map('xyz') }}", "the filter 'xyz' is not supported"},
      {"{{ x | select('xyz') }}", "the test 'xyz' is not supported"},
      {"{% include 'x' %}", "chat_template line 1: the tag 'include' is not supported"},
      {"\n{{ lookup('x') }}", "chat_template line 2: the function 'lookup' is not supported"},
      {"{{ x.encode() }}", "the method 'encode' is not supported"},
      {"{% for x in y recursive %}{% endfor %}", "recursive loops are not supported; call a macro"},
      {"{{ f(*x) }}", "arguments with * and ** are not supported"},
      {"{{ x[1, 2] }}", "several keys between brackets are not supported"},
      {"{{ f(a=1, 2) }}", "an argument without a name follows named ones"},
      {"{{ x is defined is defined }}", "tests are chained with 'is'"},
      {"{{ x", "chat_template line 1: the tag that begins here does not end; close it with %} or }}"},
      {"{# x", "the comment that begins here does not end; close it with #}"},
      {"{% raw %}{{", "the tag 'raw' has no endraw"},
      {"{{ 'x }}", "the string that begins here does not end"},
      {"{{ '\\xZZ' }}", "a string has a broken escape"},
      {"{{ '\\ud800' }}", "a string has an escape for U+D800, which is no character"},
      {"{{ '\\N{BULLET}' }}", "a string has the escape \\N, which is not supported"},
      {"{{ 0x10 }}", "'0x' is no number; hexadecimal ones are not supported"},
      {"{{ 99999999999999999999 }}", "'99999999999999999999' has more than 64 bits"},
      {"{{ ) }}", "')' closes nothing"},
      {"{{ $ }}", "unexpected character '$'"},
      {"{{ x y }}", "expected '}}', got 'y'"},
      {"{{ }}", "expected a value, got the end of the tag"},
      {"{% if x %}", "expected the tag 'endif', got the end of the template"},
      {"{% for x of y %}{% endfor %}", "expected 'in', got 'of'"},
      {"{% break %}", "the tag 'break' stands outside of a loop"},
      {"{% set true = 1 %}", "'true' cannot be assigned"},
      {"{% macro f(a=1, b) %}{% endmacro %}", "a parameter without a default follows one with a default"},
      {"{% call x %}{% endcall %}", "{% call %} needs a call of a macro"},
      {"\xFF", "chat_template: is not UTF-8"}};
  for (const auto& [source, message] : refusals) EXPECT_THAT(error_of(source), HasSubstr(message)) << source;
  EXPECT_THAT(error_of(std::string(2 << 20, 'x')), HasSubstr("is larger than 1048576 bytes; is it a chat template?"));
  EXPECT_EQ(error_of("{% if lookup is defined %}{{ lookup('x') }}{% endif %}"), "");  // it asks before
}

TEST(ChatTemplate, HostileTemplatesEndWithinTheLimits) {
  const auto repeated = [](const std::string& text, int times) {
    std::string all;
    for (int i = 0; i < times; ++i) all += text;
    return all;
  };
  EXPECT_THAT(error_of("{{ " + repeated("(", 500) + "1" + repeated(")", 500) + " }}"),
              HasSubstr("brackets nest deeper than"));
  EXPECT_THAT(error_of("{{ 1" + repeated("+1", 500) + " }}"), HasSubstr("an expression nests deeper than 200 levels"));
  EXPECT_THAT(error_of(repeated("{% if x %}", 500)), HasSubstr("tags nest deeper than"));
  EXPECT_THAT(error_of("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"),
              HasSubstr("does a macro call itself forever?"));
  EXPECT_THAT(error_of("{% for a in range(900) %}{% for b in range(900) %}{% endfor %}{% endfor %}"),
              HasSubstr("rendering takes more than 200000 steps"));
  EXPECT_THAT(error_of("{{ 'x' * 90000000 }}"), HasSubstr("rendering takes more than"));
  EXPECT_THAT(error_of("{% set n = namespace(s='xx') %}{% for i in range(60) %}{% set n.s = n.s + n.s %}{% endfor %}"),
              HasSubstr("rendering takes more than 1048576 bytes of memory"));
  EXPECT_THAT(error_of("{% set n = namespace(s=[]) %}{% for i in range(300) %}{% set n.s = [n.s] %}{% endfor %}"),
              HasSubstr("lists and dicts nest deeper than 200 levels"));
  EXPECT_EQ(
      render("{% set n = namespace() %}{% set n.me = n %}{% macro m() %}{{ n.x }}{% endmacro %}{% set n.x = m %}y"),
      "y");
  EXPECT_THAT(error_of("{{ range(1000000) }}"), HasSubstr("range() of more than 100000 numbers"));
}

}  // namespace
}  // namespace mortise
