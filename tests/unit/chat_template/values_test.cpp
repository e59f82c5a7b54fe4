// Errors of values as a template runs: what, and at which line.
// Covers: runtime/chat_template/{access,methods,operators,text_methods,value}
#include <gmock/gmock.h>

#include "rendering.hpp"

namespace mortise {
namespace {

using test::error_of;
using test::Json;
using test::render;
using ::testing::HasSubstr;

TEST(ChatTemplateValues, AnErrorNamesItsLine) {
  EXPECT_EQ(error_of("a\n{% if true %}\n{{ x.y }}{% endif %}"), "chat_template line 3: 'x' is undefined");
  EXPECT_EQ(error_of("{{\n\nraise_exception('No ' ~ 'tools') }}"),
            "chat_template line 3: the template refuses these messages: 'No tools'");
}

TEST(ChatTemplateValues, WhatPythonRefusesIsRefused) {
  const Json all_variables = {{"d", {{"k", "v"}}}, {"l", {1, 2}}, {"s", "text"}, {"big", 18446744073709551615u}};
  const std::pair<const char*, const char*> errors[] = {
      {"{{ d.k.z.y }}", "a str has no 'z'"},
      {"{{ l[7] + 1 }}", "a list has no item 7"},
      {"{{ l.append(3) }}", "a template may not change a list ('append')"},
      {"{{ d.k() }}", "a str cannot be called: it is not a function"},
      {"{{ 1 + 'x' }}", "an int + a str is not possible"},
      {"{{ 1 / 0 }}", "a division by zero"},
      {"{{ 9223372036854775807 + 1 }}", "the result does not fit in a 64-bit integer"},
      {"{{ (0 - 8) ** 0.5 }}", "a root of a negative number is not supported"},
      {"{{ 1 < 'x' }}", "an int and a str cannot be ordered"},
      {"{{ 1 in 'x' }}", "'in' looks for an int in a text; only a text can be in a text"},
      {"{{ {[1]: 2} }}", "a list cannot be the key of a dict"},
      {"{% for x in 5 %}{% endfor %}", "a loop cannot go through an int"},
      {"{{ 5 | length }}", "an int has no length"},
      {"{% set a, b = [1] %}", "1 values are assigned to 2 names"},
      {"{% set d.x = 1 %}", "'x' is set on a dict; only a namespace allows this"},
      {"{{ namespace(5) }}", "namespace() needs named values or a dict, not an int"},
      {"{{ range }}", "a function cannot be printed as a text"},
      {"{{ l | map('string') }}", "a generator is printed; make it a list first"},
      {"{{ range(3) }}", "a range is printed; make it a list first"},
      {"{{ range(1, 2, 0) }}", "range() has the step 0"},
      {"{{ l[::0] }}", "a slice must be an integer other than 0"},
      {"{{ l['x':] }}", "a bound of a slice is a str; expected an integer"},
      {"{{ s | trim(1, 2) }}", "'trim' takes at most 1 arguments, got 2"},
      {"{{ s | trim(x=1) }}", "'trim' has no argument named 'x'"},
      {"{{ s | replace('x') }}", "'replace' needs the argument 'new'"},
      {"{{ s | round }}", "round needs a number, not a str"},
      {"{{ 1 | round(99) }}", "round: the precision 99 is not from -20 to 20"},
      {"{{ 1.5 | round(1, 'up') }}", "round: the method must be 'common', 'ceil' or 'floor'"},
      {"{{ s | abs }}", "abs needs a number, not a str"},
      {"{{ s | int(base=99) }}", "int: the base 99 is not from 2 to 36"},
      {"{{ l | sum(start='x') }}", "sum cannot add texts; use join"},
      {"{{ l | batch(0) }}", "batch: the number 0 of items is not from 1"},
      {"{{ l | items }}", "items needs a dict, not a list"},
      {"{{ l | map('string') | last }}", "last does not work on a generator; make it a list first"},
      {"{{ l | map('string') | reverse }}", "reverse does not work on a generator; make it a list first"},
      {"{{ l | dictsort }}", "dictsort needs a dict, not a list"},
      {"{{ d | dictsort(by='x') }}", "dictsort: 'by' must be 'key' or 'value'"},
      {"{{ l | indent }}", "indent needs a text, not a list"},
      {"{{ s | indent(5000) }}", "an indent is an int, or more than 1000; expected a number of spaces or a text"},
      {"{{ range | tojson }}", "a function cannot be written as JSON (tojson)"},
      {"{{ {(1, 2): 3} | tojson }}", "a tuple is the key of a dict, which JSON does not allow (tojson)"},
      {"{{ d | tojson(separators=[',']) }}", "tojson: 'separators' must be two texts"},
      {"{{ l | map(5) }}", "'map' needs the name of a filter, test or attribute, as a text"},
      {"{{ l | selectattr }}", "'selectattr' needs the name of an attribute"},
      {"{{ s.split('') }}", "split(): the separator is empty"},
      {"{{ s.partition('') }}", "partition(): the separator is empty"},
      {"{{ s.startswith(1) }}", "startswith() and endswith() take a text or a tuple of them"},
      {"{{ s.index('q') }}", "index(): the text is not in the other text"},
      {"{{ l.index(9) }}", "index(): the value is not in the list"},
      {"{{ s.join(l) }}", "join(): an item is an int; expected texts (the filter join accepts any value)"},
      {"{{ s.replace('x', 2) }}", "'replace': 'new' is an int; expected a text"},
      {"{{ s.split('x', 'y') }}", "'split': 'maxsplit' is a str; expected an integer"},
      {"{{ s.ljust(9, 'ab') }}", "the fill of ljust() and rjust() must be one character"},
      {"{{ '{}'.format() }}", "format() has no value for field 0"},
      {"{{ '{x}'.format() }}", "format() has no value named 'x'"},
      {"{{ '{'.format() }}", "format() has a '{' without its '}'"},
      {"{{ '}'.format() }}", "format() has a '}' without its '{'"},
      {"{{ '{!r}'.format(1) }}", "format() with '{' or '!' in a field is not supported"},
      {"{{ '{0[a]}'.format(d) }}", "format() with [...] in a field is not supported"},
      {"{{ '{:zz}'.format(1) }}", "a format specification is not supported"},
      {"{{ '{:9999}'.format(1) }}", "a format has a width or precision of more than 1000"},
      {"{{ '{:d}'.format('x') }}", "a format of type 'd' has a str"},
      {"{{ '{:d}'.format(1.5) }}", "a format of type 'd' has a float; it needs an integer"},
      {"{{ '{:n}'.format(1) }}", "a number has the format type 'n', which is not supported"},
      {"{{ '%s %s' % 1 }}", "a format with % has more fields than values"},
      {"{{ '%s' % (1, 2) }}", "a format with % has fewer fields than values"},
      {"{{ '%z' % 1 }}", "a format with % has a type that is not supported"},
      {"{{ '%(a' % d }}", "a format with %(name) needs a dict and a ')'"},
      {"{{ '%(a)s' % d }}", "a format with %(name) has a name that is not in the dict"},
      {"{{ '%s' | format(1, a=2) }}", "the filter 'format' accepts named values or positional values, not both"},
      {"{{ dict([[1]]) }}", "dict() needs named values, a dict, or a list of pairs"},
      {"{{ cycler() }}", "cycler() needs values to cycle through"},
      {"{% for x in l %}{{ loop.cycle() }}{% endfor %}", "loop.cycle needs values to cycle through"},
      {"{{ strftime_now('"
       "%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%"
       "%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%"
       "%') }}",
       "strftime_now() has a format of"},
      {"{% for x in l %}{{ loop.changed(l) }}{% endfor %}", "loop.changed can compare texts and numbers, not a list"},
      {"{{ d | tojson(indent='x' * 1001) }}", "an indent is a text of more than 1000 bytes"},
      {"{{ 9000000000000000000 | round(-19) }}", "the result does not fit in a 64-bit integer"},
      {"{{ ('<' | safe) | upper }}", "a text that came through 'safe' can only be printed, and joined with + and ~"},
      {"{{ ('<' | safe).upper() }}", "a text that came through 'safe'"},
      {"{{ ('<' | safe)[0] }}", "a text that came through 'safe'"},
      {"{{ ('<' | safe)[:1] }}", "a text that came through 'safe'"},
      {"{{ ('<' | safe) * 2 }}", "a text that came through 'safe'"},
      {"{{ ('<' | safe) == '<' }}", "a text that came through 'safe'"},
      {"{{ 'x' | replace('x', '<' | safe) }}", "a text that came through 'safe'"},
      {"{{ '<' | safe is string }}", "a text that came through 'safe'"},
      {"{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "the macro 'm' takes at most 1 arguments, got 2"},
      {"{% macro m(a) %}{% endmacro %}{{ m(b=2) }}", "the macro 'm' has no argument named 'b'"},
      {"{{ big }}", "the integer 18446744073709551615 has more than 64 bits"}};
  for (const auto& [source, message] : errors) {
    // A value of 64 bits alone is read before any line runs.
    Json variables = all_variables;
    if (std::string_view(source) != "{{ big }}") variables.erase("big");
    EXPECT_THAT(error_of(source, variables), HasSubstr(message)) << source;
  }
}

TEST(ChatTemplateValues, MarkupEscapesWhatIsAddedToIt) {
  EXPECT_EQ(render("{{ '<' | safe + '<' + 1 | string }}"), "<&lt;1");  // as Jinja has it, even without autoescape
  EXPECT_EQ(render("{{ ('<' | safe) ~ '<' }}"), "<<");
}

}  // namespace
}  // namespace mortise
