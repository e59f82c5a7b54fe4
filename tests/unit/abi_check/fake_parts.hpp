// tests/unit/abi_check/fake_parts.hpp: parts that a test breaks. What an instance does is in global functions, because
// the functions of a table have no context; each fixture sets the sound ones first.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "abi_check/checked_component.hpp"
#include "error.hpp"
#include "loader/part_instance.hpp"
#include "mortise/attention.h"
#include "mortise/proposer.h"
#include "mortise/scheduler.h"
#include "stub_tables.hpp"

namespace mortise::fake {

using testing::AllOf;
using testing::HasSubstr;

inline constexpr mortise_status kOk = MORTISE_OK;  // of the type that functions return

inline const mortise_host* host_of_last = nullptr;  // of the last instance

// The functions that every kind of part has.
struct Life {
  std::function<mortise_status(const mortise_host* host, const mortise_create_args* args, void** instance,
                               mortise_error* error)>
      create = [](const mortise_host* its, const mortise_create_args*, void** instance, mortise_error*) {
        host_of_last = its;
        *instance = new int;
        return kOk;
      };
  std::function<void(void*)> destroy = [](void* instance) { delete static_cast<int*>(instance); };
  std::function<const void*(const char* id)> get_ext = [](const char*) { return nullptr; };
};
inline Life life;

inline mortise_component abi(std::int32_t kind, const void* table, std::uint64_t capabilities) {
  mortise_component component{};
  component.struct_size = sizeof component;
  component.kind = kind;
  component.capabilities = capabilities;
  component.table = table;
  component.supports = [](const mortise_query*, mortise_error*) { return kOk; };
  component.create = [](const mortise_host* host, const mortise_create_args* args, void** instance,
                        mortise_error* error) { return life.create(host, args, instance, error); };
  component.destroy = [](void* instance) { life.destroy(instance); };
  component.activate = [](void*, const mortise_activate_args*, mortise_error*) { return kOk; };
  component.deactivate = [](void*) {};
  component.get_ext = [](void*, const char* id) { return life.get_ext(id); };
  return component;
}

// A component of the table, and its checked one. Both live as long as the process.
inline const Component& checked(PartKind kind, const void* table, std::uint64_t capabilities = 0) {
  auto* const component = new Component{
      .kind = kind,
      .name = "fake",
      .summary = "a part of a test",
      .capabilities = capabilities,
      .numerics_id = "",
      .schema = OptionsSchema(R"({"type": "object"})"),
      .abi = new mortise_component(abi(static_cast<std::int32_t>(kind), table, capabilities)),
      .file = "fake.so",
  };
  return checked_component(*component);
}

inline mortise_activate_args sizes() {
  mortise_activate_args args{};
  args.struct_size = sizeof args;
  args.max_num_seqs = 4;
  args.max_batched_tokens = 64;
  args.max_logit_rows = 16;
  args.max_model_len = 128;
  args.block_size = 4;
  args.num_blocks = 32;
  return args;
}

inline mortise_model_dims dims() {
  mortise_model_dims dims{};
  dims.struct_size = sizeof dims;
  dims.num_layers = 2;
  dims.hidden_size = 8;
  dims.num_heads = 2;
  dims.num_kv_heads = 1;
  dims.head_dim = 4;
  dims.vocab_size = 100;
  dims.max_model_len = 128;
  dims.dtype = MORTISE_F32;
  dims.attention_scale = 1;
  return dims;
}

inline PartInstance instance(const Component& component) {
  return PartInstance(component, nlohmann::json::object(), CreateContext{});
}

// The text of the Error that `body` throws; "" if it throws none.
inline std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// What `body` logs.
inline std::string log_of(const std::function<void()>& body) {
  std::ostringstream text;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text)));
  body();
  spdlog::set_default_logger(before);
  return text.str();
}

// The text with which a call fails: "fake: FUNCTION: the part breaks .."; "" if it does not.
template <typename Body>
std::string failure_of(const PartInstance& part, const char* function, Body&& body) {
  return error_of([&] { part.perform(function, body); });
}

}  // namespace mortise::fake
