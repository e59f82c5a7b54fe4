// tests/unit/tokenizer/tokenizer_tool.cpp: the tokenizer as a filter, for comparisons with the Python package.
//   tokenizer_tool MODEL_DIR    one JSON value a line in, one out:
//   "text"                      -> {"ids": [...], "special": [...]}: without and with the post-processor's tokens
//   {"hex": "c3a9ff"}           -> the same for bytes
//   [ids]                       -> {"text": ..., "skip": ..., "pieces": [...], "skip_pieces": [...]}: decoded, without
//                                  special tokens, both streamed
//   {"repeat": "ab", "bytes": n} -> {"seconds": s, "tokens": t}: encodes a text of at least n bytes
//   anything that fails         -> {"error": "..."}
#include <chrono>
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

json streamed(const mortise::Tokenizer& tokenizer, const std::vector<std::int32_t>& ids, bool skip_special_tokens) {
  mortise::IncrementalDecoder stream(tokenizer, skip_special_tokens);
  json pieces = json::array();
  for (const std::int32_t id : ids) pieces.push_back(stream.push(id));
  pieces.push_back(stream.finish());
  return pieces;
}

json decode(const mortise::Tokenizer& tokenizer, const std::vector<std::int32_t>& ids) {
  return {{"text", tokenizer.decode(ids, false)},
          {"skip", tokenizer.decode(ids, true)},
          {"pieces", streamed(tokenizer, ids, false)},
          {"skip_pieces", streamed(tokenizer, ids, true)}};
}

std::string bytes_of_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

json measure(const mortise::Tokenizer& tokenizer, const std::string& unit, std::size_t num_bytes) {
  std::string text;
  while (text.size() < num_bytes) text += unit;
  const auto start = std::chrono::steady_clock::now();
  const std::size_t num_tokens = tokenizer.encode(text, false).size();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return {{"seconds", seconds.count()}, {"tokens", num_tokens}};
}

json answer(const mortise::Tokenizer& tokenizer, const std::string& line) {
  try {
    const json input = json::parse(line);
    if (input.is_string()) return encode(tokenizer, input.get<std::string>());
    if (input.contains("hex")) return encode(tokenizer, bytes_of_hex(input["hex"].get<std::string>()));
    if (input.contains("repeat")) return measure(tokenizer, input["repeat"], input["bytes"]);
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
