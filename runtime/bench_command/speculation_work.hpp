// runtime/bench_command/speculation_work.hpp: what speculation is measured on, since its gain depends on the text:
// texts that a draft model knows, texts that quote their prompts, random ones, and the record of a run that an oracle
// drafts from.
#pragma once

#include <filesystem>
#include <vector>

#include "assembly/assembly.hpp"
#include "engine/engine.hpp"

namespace mortise::bench {

// Openings of stories, each another one; greedy, `output` tokens whatever ends the text.
std::vector<Request> story_requests(const Tokenizer& tokenizer, std::size_t count, std::int32_t output);

// A chat that asks for a list of words and numbers word for word; greedy, to the end of the answer. The demo model was
// taught to obey.
std::vector<Request> quote_requests(const Tokenizer& tokenizer, std::size_t count);

// Random prompts, and answers drawn at temperature 1: of a model with random weights nothing in them comes twice.
std::vector<Request> novel_requests(std::int32_t vocab_size, std::size_t count, std::int32_t prompt,
                                    std::int32_t output);

// Runs the requests and writes their log, as --record does. They are given the seeds that they ran with.
void record_requests(Engine& engine, const Assembly& assembly, std::vector<Request>& requests,
                     const std::filesystem::path& log);

}  // namespace mortise::bench
