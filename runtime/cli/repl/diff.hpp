// runtime/cli/repl/diff.hpp: parses the arguments of /diff, two sets of parts, and compares two runs token by token.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sampling/token_info.hpp"

namespace mortise {

// Splits "A B" into two sets; each is quoted or one word. A single set is compared with the current parts, which "now"
// also means. An unquoted change, attention cascade {block_size = 16}, is one set. Throws an Error that explains the
// syntax.
std::vector<std::string> split_sets(std::string_view text);

// Splits a set into its changes, "attention cascade {block_size = 16}; scheduler fcfs", at semicolons outside of braces
// and quotes.
std::vector<std::string> split_changes(std::string_view text);

// Returns the index of the first token at which the runs differ: another token, a log probability that differs in any
// bit, or the end of only one run. nullopt: none.
std::optional<std::size_t> first_difference(std::span<const TokenInfo> a, std::span<const TokenInfo> b);

}  // namespace mortise
