// runtime/cli/repl/diff.hpp: what /diff compares: two sets of parts as a person names them, and two runs token by
// token.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sampling/token_info.hpp"

namespace mortise {

// The sets of "A B", as typed: each between quotes, or one word. One alone is compared with the parts as they are,
// which "now" means too. Without quotes a change, attention cascade {block_size = 16}, is one set. Throws an Error that
// says how it is written.
std::vector<std::string> split_sets(std::string_view text);

// The changes of a set, "attention cascade {block_size = 16}; scheduler fcfs": semicolons part them, but not those
// inside of braces or quotes.
std::vector<std::string> split_changes(std::string_view text);

// The index of the first token at which the runs are not the same: another token, another log probability in any bit,
// or the end of one run alone. nullopt: there is none.
std::optional<std::size_t> first_difference(std::span<const TokenInfo> a, std::span<const TokenInfo> b);

}  // namespace mortise
