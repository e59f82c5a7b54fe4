// runtime/server/models.hpp: the models that a server answers with.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "assembly/swap_options.hpp"
#include "engine/engine.hpp"
#include "openai/service.hpp"
#include "pipeline/part_change.hpp"
#include "tokenizer/tokenizer.hpp"

namespace mortise {

// A part as people are told of it.
struct ServedPart {
  std::string role, name, version, file;  // "attention", "cascade", "1.2.0", the plugin's file
  std::string hash;                       // of that file
};

struct ServedModel {
  std::string name;  // what bodies call it
  Service& service;
  Engine& engine;
  const Tokenizer& tokenizer;
  // What serves now: swaps change it. [any thread]
  std::function<std::vector<ServedPart>()> parts;
  std::function<std::int32_t()> block_size;  // tokens of a KV block
  // Throws an Error when it is refused. [any thread that may wait]
  std::function<SwapFigures(const PartChange& change, const SwapOptions& options)> swap;
  nlohmann::json kv_events;         // where they are published: endpoint, replay, topic; null: nowhere
  std::size_t max_waiting = 0;      // requests that may wait for their first step
  nlohmann::json tokenizer_config;  // tokenizer_config.json, {} when the checkpoint has none
};

class Models {
 public:
  // At least one; the first is the default. `route` writes into a body what the script's on_request decides.
  // [any thread]
  Models(std::vector<ServedModel> list, std::function<void(nlohmann::json& body)> route);

  const std::vector<ServedModel>& list() const { return list_; }
  // The one that a body's `model` names. With one model, or without the field, it is the default: clients send names
  // that mean nothing here. Throws an Error with kNotFound that lists the names.
  const ServedModel& of(const nlohmann::json& body) const;
  // The one that a url's `model` names, as in "?model=demo". Throws an Error that lists the names when there are
  // several and none is named.
  const ServedModel& of_query(const std::optional<std::string>& name) const;
  // The one of this name alone; nullptr when there is none.
  const ServedModel* find(std::string_view name) const;
  void route(nlohmann::json& body) const { route_(body); }

 private:
  std::string names() const;

  const std::vector<ServedModel> list_;
  const std::function<void(nlohmann::json&)> route_;
};

}  // namespace mortise
