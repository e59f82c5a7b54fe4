// runtime/openai/chat_request.hpp: the fields of a chat that its prompt is made of.
#pragma once

#include <cstdint>
#include <vector>

#include "openai/body.hpp"
#include "openai/service.hpp"

namespace mortise {

// messages, add_generation_prompt, continue_final_message and chat_template_kwargs. Messages become what chat templates
// expect: the arguments of a tool's call as an object and not as its text, no field that is null, a thought
// (reasoning_content, reasoning, thinking) under the names that templates read.
ChatInput read_chat_input(const Body& body);

// The tokens of a chat prompt, with the special tokens that the tokenizer adds if the prompt wants them. If the
// template has already written the first of them, it is not added again. Throws an Error when there are more than
// `most` tokens, as soon as that is known.
std::vector<std::int32_t> chat_tokens(const ChatPrompt& prompt, const Tokenizer& tokenizer,
                                      std::size_t most = static_cast<std::size_t>(-2));

}  // namespace mortise
