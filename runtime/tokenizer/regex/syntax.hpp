// runtime/tokenizer/regex/syntax.hpp: translates a pattern of a tokenizer file to PCRE2. The patterns are in
// Oniguruma's Ruby syntax. Most of it means the same in PCRE2, except:
//   \s \w \h \b         \s has U+180E in PCRE2, \w has other characters, \h is a hexadecimal digit in Ruby
//   \p{L}, [^\p{N}]     PCRE2 may know an older Unicode: what was assigned since is added (unicode_supplement.inc)
//   \p{Han}             is the property Script here, Script_Extensions in PCRE2
//   X{1,3}+             is (?:X{1,3})+ in Ruby, possessive in PCRE2; likewise X{2}? and X{,3}
//   (?m)                lets the dot match a newline
//   [a[^b]&&[c-e]]      nests and intersects (regex_set)
// Rare constructs that differ (subroutines, back references, octal) are refused.
#pragma once

#include <string>
#include <string_view>

namespace mortise::tokenizer {

// Returns the pattern for PCRE2 with the options UTF, UCP and MULTILINE and newline LF. Throws an Error that names an
// unsupported construct and its offset.
std::string to_pcre2_syntax(std::string_view pattern);

}  // namespace mortise::tokenizer
