// runtime/openai/chat_request.hpp: reads the fields of a chat that make its prompt.
#pragma once

#include <cstdint>
#include <vector>

#include "openai/body.hpp"
#include "openai/service.hpp"

namespace mortise {

// Reads messages, add_generation_prompt, continue_final_message and chat_template_kwargs. Messages get the form that
// chat templates expect: the arguments of a tool call as an object instead of text, no null fields, and a thought
// (reasoning_content, reasoning, thinking) under the names that templates read.
ChatInput read_chat_input(const Body& body);

// Returns the tokens of a chat prompt, with the tokenizer's special tokens if the prompt wants them. If the template
// already wrote the first special token, it is not added again. Throws an Error if there are more than `most` tokens,
// as soon as that is known.
std::vector<std::int32_t> chat_tokens(const ChatPrompt& prompt, const Tokenizer& tokenizer,
                                      std::size_t most = static_cast<std::size_t>(-2));

}  // namespace mortise
