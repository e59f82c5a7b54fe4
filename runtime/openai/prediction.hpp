// runtime/openai/prediction.hpp: predicted output: the field `prediction` of completions and chat.
//   {"type": "content", "content": text, or a list of {"type": "text", "text"}}   what OpenAI has
//   {"type": "tokens", "token_ids": [ids]}
// The caller expects this text as the answer. The engine verifies it as drafts, so it changes no token.
// `resume_token_ids` works alike: it holds the tokens of a broken stream that the client already has.
#pragma once

#include <span>

#include "engine/request.hpp"
#include "openai/body.hpp"
#include "tokenizer/tokenizer.hpp"

namespace mortise {

// Sets the prediction of the body's request; a text is split as a continuation of the prompt. Does nothing if the field
// is absent. Throws an Error if the field is malformed, or if the body has more than one prompt.
void read_prediction(const Body& body, const Tokenizer& tokenizer, std::span<Request> requests);

// Sets the tokens that a client has of a broken stream as the prediction of its request. Does nothing without
// `resume_token_ids`. Throws an Error if no stream is resumed, or if the body has more than one choice.
void read_resumed_tokens(const Body& body, bool resumes, std::span<Request> requests);

}  // namespace mortise
