// runtime/abi_check/graph_calls.cpp: the checks of mortise/ext/graph.h.
#include <string_view>

#include "abi_check/device_state.hpp"
#include "abi_check/kinds.hpp"

namespace mortise::abi_check {
namespace {

constexpr const char* kGraph = "mortise/ext/graph.h";
using Kind = Device::Kind;

mortise_status graph_begin(mortise_device* handle, mortise_stream* stream, mortise_error* error) {
  static constexpr Function kFunction = {"graph begin", Tag::kStep};
  return checked<Device>(handle, kFunction, error, [&](Call& call, Device& self) {
    call.caller_must(self.num_captures == 0, kGraph, "Starts to capture the work", "a capture runs already");
    const mortise_status status =
        call.make(error, [&](mortise_error* own) { return self.graph.load()->begin(handle, stream, own); });
    if (status == MORTISE_OK) ++self.num_captures;
    return status;
  });
}

mortise_status graph_end(mortise_device* handle, mortise_stream* stream, mortise_graph** graph, mortise_error* error) {
  static constexpr Function kFunction = {"graph end", Tag::kStep};
  return checked<Device>(handle, kFunction, error, [&](Call& call, Device& self) {
    call.caller_must(self.num_captures == 1, kGraph, "Ends the capture", "no capture runs");
    self.num_captures = 0;
    mortise_graph* made = nullptr;
    const mortise_status status =
        call.make(error, [&](mortise_error* own) { return self.graph.load()->end(handle, stream, &made, own); });
    *graph = made;
    call.part_must((status == MORTISE_OK) == (made != nullptr), kGraph, "On a failure *graph is NULL",
                   "end gives a graph after a failure, or none");
    if (made != nullptr) self.add(Kind::kGraph, made, nullptr);
    return status;
  });
}

mortise_status graph_replay(mortise_device* handle, mortise_stream* stream, mortise_graph* graph,
                            mortise_error* error) {
  static constexpr Function kFunction = {"graph replay", Tag::kStep};
  return checked<Device>(handle, kFunction, error, [&](Call& call, Device& self) {
    check_live(call, self, Kind::kGraph, graph, "a graph");
    call.caller_must(graph != nullptr, kGraph, "Queues the captured operations", "the graph is NULL");
    return call.make(error, [&](mortise_error* own) { return self.graph.load()->replay(handle, stream, graph, own); });
  });
}

void graph_destroy(mortise_device* handle, mortise_graph* graph) {
  static constexpr Function kFunction = {"graph destroy", Tag::kControl};
  checked_value<Device>(handle, kFunction, 0, [&](Call& call, Device& self) {
    check_return(call, self, Kind::kGraph, graph, "a graph");
    call.make([&] { self.graph.load()->destroy(handle, graph); });
    return 0;
  });
}

constexpr mortise_graph_table kCheckedGraph = {
    sizeof(mortise_graph_table), 0, graph_begin, graph_end, graph_replay, graph_destroy};

}  // namespace

const void* checked_device_extension(Instance& device, const char* id, const void* table) {
  auto& self = static_cast<Device&>(device);
  if (table == nullptr) return table;
  if (std::string_view(id) == MORTISE_EXT_GRAPH) {
    self.graph = static_cast<const mortise_graph_table*>(table);
    return &kCheckedGraph;
  }
  if (std::string_view(id) == MORTISE_EXT_REJECTION) {
    self.rejection = static_cast<const mortise_rejection_table*>(table);
    return &kCheckedRejection;
  }
  if (std::string_view(id) == MORTISE_EXT_COLLECTIVE) {
    self.collective = static_cast<const mortise_collective_table*>(table);
    return &kCheckedCollective;
  }
  return table;
}

}  // namespace mortise::abi_check
