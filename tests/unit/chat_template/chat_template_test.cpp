// What jinja2 makes of the same templates is compared in tests/e2e/test_chat_templates.py; here is what it cannot say.
// Covers: runtime/chat_template/{budget,functions,marked_text,names,text_operations,value}
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
  const Json variables = {{"x", " a<b> "}, {"l", {"p", "q"}}, {"d", {{"k", "v"}}}};
  EXPECT_EQ(marked("<{{ x }}>", variables), "<[ a<b> ]>");
  EXPECT_EQ(marked("{{ '<' + x.strip() ~ '>' }}", variables), "<[a<b>]>");
  EXPECT_EQ(marked("{{ ('-' + x + '-')[:4] | upper }}", variables), "-[ A<]");
  EXPECT_EQ(marked("{{ x | replace('<b>', '!') | trim }}", variables), "[a]!");
  EXPECT_EQ(marked("{{ l | join('<|x|>') }}", variables), "[p]<|x|>[q]");
  EXPECT_EQ(marked("{{ ('<' ~ l[0] ~ '>').split(l[0]) | join }}", variables), "<>");
  EXPECT_EQ(marked("{{ d | tojson }}", variables), R"({"[k]": "[v]"})");
  EXPECT_EQ(marked("{{ d }}", variables), "{'[k]': '[v]'}");
  EXPECT_EQ(marked("{{ '%s|%s' % (x, 1) }}", variables), "[ a<b> ]|1");
  EXPECT_EQ(marked("{{ '{}|{k:>3}'.format(x, k=l[1]) }}", variables), "[ a<b> ]|  [q]");
  EXPECT_EQ(marked("{{ x[0:2] | title | indent(2, first=true) }}", variables), "  [ A]");
  EXPECT_EQ(marked("{% set y %}<{{ l[0] }}>{% endset %}{{ y * 2 }}", variables), "<[p]><[p]>");
  EXPECT_EQ(marked("{% macro m(t) %}({{ t }}){% endmacro %}{{ m(l[0]) }}", variables), "([p])");
  EXPECT_EQ(marked("{{ ('<' ~ l[0])|reverse }}", variables), "[p]<");
  EXPECT_EQ(marked("{{ [1] | tojson(indent=l[0]) }}", variables), "[\n[p]1\n]");
  EXPECT_EQ(marked("{{ {'a': 1, 'b': 2} | tojson(separators=l) }}", variables), R"({"a"[q]1[p]"b"[q]2})");
  EXPECT_EQ(marked("{{ ('{:' ~ l[0] ~ '>3}').format(1) }}", variables), "[pp]1");
  EXPECT_EQ(marked("{{ strftime_now('<' ~ l[0]) }}", variables), "[<p]");
  EXPECT_EQ(marked("{{ ('<' ~ x)[1:4] }}{{ ('<' ~ x)[::2] }}", variables), "[ a<]<[ab ]");
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
      {"{{ x is defined is defined }}", "tests cannot be chained with 'is'"},
      {"{{ x", "chat_template line 1: the tag that begins here does not end; close it with %} or }}"},
      {"{# x", "the comment that begins here does not end; close it with #}"},
      {"{% raw %}{{", "the tag 'raw' has no 'endraw'"},
      {"{{ 'x }}", "the string that begins here does not end"},
      {"{{ '\\xZZ' }}", "a string has an invalid escape"},
      {"{{ '\\ud800' }}", "a string has an escape for U+D800, which is not a character"},
      {"{{ '\\N{BULLET}' }}", "a string has the escape \\N, which is not supported"},
      {"{{ 0x10 }}", "'0x' is not a number; hexadecimal numbers are not supported"},
      {"{{ 99999999999999999999 }}", "'99999999999999999999' has more than 64 bits"},
      {"{{ ) }}", "')' has no opening bracket"},
      {"{{ $ }}", "unexpected character '$'"},
      {"{{ x y }}", "expected '}}', got 'y'"},
      {"{{ }}", "expected a value, got the end of the tag"},
      {"{% if x %}", "expected the tag 'endif', got the end of the template"},
      {"{% for x of y %}{% endfor %}", "expected 'in', got 'of'"},
      {"{% break %}", "the tag 'break' stands outside of a loop"},
      {"{% for x in y %}{% set z %}{% continue %}{% endset %}{% endfor %}",
       "in a block inside it whose text is captured"},
      {"{% for x in y %}{% filter trim %}{% break %}{% endfilter %}{% endfor %}", "the tag 'break' stands outside of"},
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

// Chains of values that remember each other: their ends would take a stack as deep as the chain is long.
TEST(ChatTemplate, HostileTemplatesMakeNoLongChains) {
  const std::string begin = "{% set n = namespace(j=1) %}{% for i in range(1000) %}", end = "{% endfor %}";
  for (const char* link : {"{% set n.j = [n.j].index %}", "{% set n.j = joiner(n.j) %}",
                           "{% set n.j = cycler(n.j).next %}", "{% for x in [n.j] %}{% set n.j = loop %}{% endfor %}",
                           "{% for x in [n.j] %}{% set n.j = loop.cycle %}{% endfor %}"}) {
    EXPECT_THAT(error_of(begin + link + end), HasSubstr("lists and dicts nest deeper than 200 levels")) << link;
  }
  EXPECT_EQ(render("{% set n = namespace() %}{% for x in [1, 2] %}{% set n.l = loop %}{% endfor %}"
                   "{{ n.l.index }}{{ n.l.last }}{{ n.l.previtem }}{{ n.l.length }}"),
            "2True12");  // the items of a loop that has ended
}

TEST(ChatTemplate, HostileTemplatesPayForWhatTheyRead) {
  const Json variables = {{"x", "c"}, {"d", {{"a", 1}}}};
  const std::string begin = "{% set k = 'x' * 100000 %}{% set k2 = k ~ '' %}{% for i in range(900) %}{{ ",
                    end = " }}{% endfor %}";
  for (const char* read : {"d[k]", "d.get(k)", "k in d", "k is sameas k2", "k.removeprefix(k ~ i)", "k is upper",
                           "k[5:6]", "k[:5:-9999]", "k | unique | list", "k.zfill(1)"}) {
    EXPECT_THAT(error_of(begin + read + end, variables), HasSubstr("rendering takes more than")) << read;
  }
  std::string names, attributes;
  for (int i = 0; i < 2000; ++i) names += fmt::format("{{% set a{} = 1 %}}", i);
  for (int i = 0; i < 2000; ++i) attributes += fmt::format("{{% set n.a{} = 1 %}}", i);
  EXPECT_THAT(error_of(names + "{% for i in range(1000) %}{{ a1999 }}{% endfor %}"),
              HasSubstr("more than 200000 steps"));
  EXPECT_THAT(
      error_of("{% set n = namespace() %}" + attributes + "{% for i in range(1000) %}{{ n.a1999 }}{% endfor %}"),
      HasSubstr("more than 200000 steps"));
}

TEST(ChatTemplate, HostileTemplatesPayForTheMemoryTheyTake) {
  const Json variables = {{"x", "c"}};
  const auto error = [&](std::string_view source) {
    ChatInput input;
    input.variables = variables;
    try {
      ChatTemplate::compile(source, {.limits = {.max_bytes = 1 << 20}}).render(input);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalid);  // a shorter history would not help
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string loops =
      "{% for i in range(300) %}{% for j in range(120) %}{{ x }}-{% endfor %}{% endfor %}";  // runs
  for (const std::string& source :
       {loops, "{% set t %}" + loops + "{% endset %}", std::string("{{ (x ~ '-') * 40000 }}"),
        std::string("{{ range(900) | list | tojson(separators=('x' * 10000, ':')) }}"),
        std::string("{{ range(9000) | list | tojson(indent='x' * 1000) }}"),
        std::string("{{ ('\n' * 400000) | indent }}"), std::string("{{ ('\n' * 100000).splitlines() }}"),
        std::string("{{ ('x' * 300000)[::-1] }}"),
        std::string("{% for i in range(9) %}{% set t = (x ~ '-') * 9000 %}{{ t | replace('-', '+') }}{% endfor %}")}) {
    EXPECT_THAT(error(source), HasSubstr("rendering takes more than 1048576 bytes of memory")) << source;
  }
}

TEST(ChatTemplate, HostileKeysOfDicts) {
  EXPECT_THAT(error_of("{% set n = namespace(t=(1,)) %}{% for i in range(60) %}{% set n.t = (n.t, n.t) %}{% endfor %}"
                       "{{ {n.t: 1} }}"),
              HasSubstr("a tuple that contains a tuple cannot be the key of a dict"));
  EXPECT_EQ(render("{{ {(1, 'a'): 2}[(1, 'a')] }}"), "2");
  EXPECT_EQ(error_of("{{ {}['x' * 100000].y }}"),
            "chat_template line 1: a dict has no item '" + std::string(60, 'x') + "...'");
  EXPECT_EQ(error_of("{{ 1['\x1b' * 9].y }}"), "chat_template line 1: an int has no '?????????'");
}

}  // namespace
}  // namespace mortise
