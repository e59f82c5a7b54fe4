// tests/unit/tokenizer/tokenizer_tool.cpp: the tokenizer as a filter, for comparisons with the Python package.
//   tokenizer_tool MODEL_DIR    one JSON value a line in, one out:
//   "text"                      -> {"ids": [...], "special": [...]}: without and with the post-processor's tokens
//   [ids]                       -> {"text": ..., "skip": ..., "pieces": [...]}: decoded, without special tokens,
//   streamed anything that fails         -> {"error": "..."}
#include <cstdint>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tokenizer/incremental_decoder.hpp"
#include "tokenizer/tokenizer.hpp"

namespace {

using nlohmann::json;

json encode(const mortise::Tokenizer& tokenizer, const std::string& text) {
  return {{"ids", tokenizer.encode(text, false)}, {"special", tokenizer.encode(text, true)}};
}

json decode(const mortise::Tokenizer& tokenizer, const std::vector<std::int32_t>& ids) {
  mortise::IncrementalDecoder stream(tokenizer, /*skip_special_tokens=*/false);
  json pieces = json::array();
  for (const std::int32_t id : ids) pieces.push_back(stream.push(id));
  pieces.push_back(stream.finish());
  return {{"text", tokenizer.decode(ids, false)}, {"skip", tokenizer.decode(ids, true)}, {"pieces", pieces}};
}

json answer(const mortise::Tokenizer& tokenizer, const std::string& line) {
  try {
    const json input = json::parse(line);
    if (input.is_string()) return encode(tokenizer, input.get<std::string>());
    return decode(tokenizer, input.get<std::vector<std::int32_t>>());
  } catch (const std::exception& error) {
    return {{"error", error.what()}};
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: tokenizer_tool MODEL_DIR < lines.jsonl\n";
    return 2;
  }
  try {
    const auto tokenizer = mortise::Tokenizer::load(argv[1]);
    for (std::string line; std::getline(std::cin, line);) std::cout << answer(tokenizer, line).dump() << '\n';
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
