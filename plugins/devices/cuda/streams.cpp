// Streams, events, and graphs: a step captured once and replayed.
#include "devices/cuda/cuda_device.hpp"
#include "devices/cuda/errors.hpp"
#include "devices/cuda/ops.hpp"

namespace mortise::cuda {

mortise_status stream_create(mortise_device* device, mortise_stream** stream, mortise_error* error) {
  return guard(error, "stream_create", [&] {
    native(device, nullptr);
    cudaStream_t created = nullptr;
    check_cuda(cudaStreamCreateWithFlags(&created, cudaStreamNonBlocking), "stream_create");
    *stream = reinterpret_cast<mortise_stream*>(created);
  });
}

void stream_destroy(mortise_device* device, mortise_stream* stream) {
  if (stream != nullptr) cudaStreamDestroy(native(device, stream));
}

mortise_status stream_synchronize(mortise_device* device, mortise_stream* stream, mortise_error* error) {
  return guard(error, "stream_synchronize", [&] {
    check_cuda(cudaStreamSynchronize(native(device, stream)), "stream_synchronize");
    device->watches.check();
  });
}

void* stream_native(mortise_device* device, mortise_stream* stream) {
  return native(device, stream);
}

mortise_status event_create(mortise_device* device, mortise_event** event, mortise_error* error) {
  return guard(error, "event_create", [&] {
    native(device, nullptr);
    cudaEvent_t created = nullptr;
    check_cuda(cudaEventCreateWithFlags(&created, cudaEventDisableTiming), "event_create");
    *event = reinterpret_cast<mortise_event*>(created);
  });
}

void event_destroy(mortise_device* device, mortise_event* event) {
  if (event == nullptr) return;
  native(device, nullptr);
  cudaEventDestroy(reinterpret_cast<cudaEvent_t>(event));
}

mortise_status event_record(mortise_device* device, mortise_event* event, mortise_stream* stream,
                            mortise_error* error) {
  return guard(error, "event_record", [&] {
    check_cuda(cudaEventRecord(reinterpret_cast<cudaEvent_t>(event), native(device, stream)), "event_record");
  });
}

mortise_status event_wait(mortise_device* device, mortise_event* event, mortise_stream* stream, mortise_error* error) {
  return guard(error, "event_wait", [&] {
    check_cuda(cudaStreamWaitEvent(native(device, stream), reinterpret_cast<cudaEvent_t>(event)), "event_wait");
  });
}

mortise_status event_synchronize(mortise_device* device, mortise_event* event, mortise_error* error) {
  return guard(error, "event_synchronize", [&] {
    native(device, nullptr);
    check_cuda(cudaEventSynchronize(reinterpret_cast<cudaEvent_t>(event)), "event_synchronize");
  });
}

namespace {

cudaGraphExec_t exec_of(mortise_graph* graph) {
  return reinterpret_cast<cudaGraphExec_t>(graph);
}

// The capture mode is thread-local, so that allocations of other threads do not break the capture.
mortise_status begin(mortise_device* device, mortise_stream* stream, mortise_error* error) {
  return guard(error, "graph begin", [&] {
    const cudaStream_t on = native(device, stream);
    check_cuda(cudaStreamBeginCapture(on, cudaStreamCaptureModeThreadLocal), "graph begin");
    device->recorder.begin(on);
  });
}

mortise_status end(mortise_device* device, mortise_stream* stream, mortise_graph** graph, mortise_error* error) {
  *graph = nullptr;
  return guard(error, "graph end", [&] {
    const cudaError_t launched = device->recorder.end();
    const cudaStream_t on = native(device, stream);
    cudaGraph_t captured = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(on, &captured);
    const cudaError_t status = launched == cudaSuccess ? ended : launched;
    cudaGraphExec_t exec = nullptr;
    const cudaError_t made = status == cudaSuccess ? cudaGraphInstantiate(&exec, captured, 0) : status;
    if (captured != nullptr) cudaGraphDestroy(captured);
    check_cuda(made, "graph end");
    const cudaError_t uploaded = cudaGraphUpload(exec, on);
    if (uploaded != cudaSuccess) cudaGraphExecDestroy(exec);
    check_cuda(uploaded, "graph end");
    *graph = reinterpret_cast<mortise_graph*>(exec);
  });
}

mortise_status replay(mortise_device* device, mortise_stream* stream, mortise_graph* graph, mortise_error* error) {
  return guard(error, "graph replay",
               [&] { check_cuda(cudaGraphLaunch(exec_of(graph), native(device, stream)), "graph replay"); });
}

void destroy(mortise_device* device, mortise_graph* graph) {
  if (graph != nullptr) device->reaper->destroy(exec_of(graph));
}

}  // namespace

constinit const mortise_graph_table kGraphTable = {
    .struct_size = sizeof(mortise_graph_table),
    .flags = 0,
    .begin = begin,
    .end = end,
    .replay = replay,
    .destroy = destroy,
};

}  // namespace mortise::cuda
