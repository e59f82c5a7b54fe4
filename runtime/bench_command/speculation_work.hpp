// runtime/bench_command/speculation_work.hpp: makes the requests for measuring speculation, whose gain depends on the
// text: texts that a draft model knows, texts that quote their prompts, and random texts. It also writes the log of a
// run, for oracles to draft from.
#pragma once

#include <filesystem>
#include <vector>

#include "assembly/assembly.hpp"
#include "engine/engine.hpp"

namespace mortise::bench {

// Makes requests with different beginnings of stories; greedy, `output` tokens even beyond an end token.
std::vector<Request> story_requests(const Tokenizer& tokenizer, std::size_t count, std::int32_t output);

// Makes chats that ask to repeat a list of words and numbers; greedy, to the end of the answer. The demo model was
// trained to do this.
std::vector<Request> quote_requests(const Tokenizer& tokenizer, std::size_t count);

// Makes requests with random prompts and answers drawn at temperature 1. With random weights, no text in them repeats.
std::vector<Request> novel_requests(std::int32_t vocab_size, std::size_t count, std::int32_t prompt,
                                    std::int32_t output);

// Runs the requests and writes their log, like --record. Sets each request's seed to the one that it ran with.
void record_requests(Engine& engine, const Assembly& assembly, std::vector<Request>& requests,
                     const std::filesystem::path& log);

}  // namespace mortise::bench
