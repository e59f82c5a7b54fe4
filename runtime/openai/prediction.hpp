// runtime/openai/prediction.hpp: predicted output: the field `prediction` of completions and chat.
//   {"type": "content", "content": text, or a list of {"type": "text", "text"}}   what OpenAI has
//   {"type": "tokens", "token_ids": [ids]}
// It is what the caller expects as the answer: drafts that the engine verifies, so it changes no token of it.
// `resume_token_ids` is the same mechanism: the tokens of a broken stream that its client has.
#pragma once

#include <span>

#include "engine/request.hpp"
#include "openai/body.hpp"
#include "tokenizer/tokenizer.hpp"

namespace mortise {

// Gives the body's request its prediction; text is split as what goes on from its prompt. Without the field nothing
// happens. Throws an Error when the field has the wrong shape, or the body has more than one prompt: one text is not
// the answer to several.
void read_prediction(const Body& body, const Tokenizer& tokenizer, std::span<Request> requests);

// Makes the tokens that a client has of a broken stream the prediction of its request. Without the field
// `resume_token_ids` nothing happens. Throws an Error when nothing is resumed, or the body has more than one choice.
void read_resumed_tokens(const Body& body, bool resumes, std::span<Request> requests);

}  // namespace mortise
