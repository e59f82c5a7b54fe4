// ops.hpp: the functions of the device's table (mortise/device.h has their contracts), by file.
#pragma once

#include "mortise/device.h"
#include "mortise/ext/graph.h"

namespace mortise::cuda {

// memory.cpp
mortise_status memory_info(mortise_device* device, uint64_t* free_bytes, uint64_t* total_bytes);
mortise_status allocate(mortise_device* device, uint64_t bytes, void** memory, mortise_error* error);
void free_memory(mortise_device* device, void* memory);
mortise_status host_allocate(mortise_device* device, uint64_t bytes, void** memory, mortise_error* error);
void host_free(mortise_device* device, void* memory);
mortise_status copy(mortise_device* device, mortise_stream* stream, void* to, const void* from, uint64_t bytes,
                    mortise_error* error);
mortise_status fill(mortise_device* device, mortise_stream* stream, void* memory, uint8_t value, uint64_t bytes,
                    mortise_error* error);

// streams.cpp
mortise_status stream_create(mortise_device* device, mortise_stream** stream, mortise_error* error);
void stream_destroy(mortise_device* device, mortise_stream* stream);
mortise_status stream_synchronize(mortise_device* device, mortise_stream* stream, mortise_error* error);
void* stream_native(mortise_device* device, mortise_stream* stream);
mortise_status event_create(mortise_device* device, mortise_event** event, mortise_error* error);
void event_destroy(mortise_device* device, mortise_event* event);
mortise_status event_record(mortise_device* device, mortise_event* event, mortise_stream* stream, mortise_error* error);
mortise_status event_wait(mortise_device* device, mortise_event* event, mortise_stream* stream, mortise_error* error);
mortise_status event_synchronize(mortise_device* device, mortise_event* event, mortise_error* error);
extern const mortise_graph_table kGraphTable;

// weights.cpp
mortise_status prepare_weight(mortise_device* device, const mortise_weight_source* source, mortise_weight** weight,
                              mortise_error* error);
void free_weight(mortise_device* device, mortise_weight* weight);
const void* vector_weight(mortise_device* device, const mortise_weight* weight, int64_t* n, int32_t* dtype);

// linear.cpp
mortise_status linear(mortise_device* device, mortise_stream* stream, const mortise_linear_args* args,
                      mortise_error* error);

// rows.cpp
mortise_status embed(mortise_device* device, mortise_stream* stream, const int32_t* ids, const mortise_weight* weight,
                     const mortise_tensor* out, mortise_error* error);
mortise_status rms_norm(mortise_device* device, mortise_stream* stream, const mortise_norm_args* args,
                        mortise_error* error);
mortise_status layer_norm(mortise_device* device, mortise_stream* stream, const mortise_norm_args* args,
                          mortise_error* error);
mortise_status gated_activation(mortise_device* device, mortise_stream* stream, int32_t activation,
                                const mortise_tensor* x, const mortise_tensor* out, mortise_error* error);
mortise_status activation(mortise_device* device, mortise_stream* stream, int32_t activation, const mortise_tensor* x,
                          const mortise_tensor* out, mortise_error* error);
mortise_status add(mortise_device* device, mortise_stream* stream, const mortise_tensor* a, const mortise_tensor* b,
                   const mortise_tensor* out, mortise_error* error);
mortise_status gather_rows(mortise_device* device, mortise_stream* stream, const mortise_tensor* x, const int32_t* rows,
                           const mortise_tensor* out, mortise_error* error);
mortise_status scatter_rows(mortise_device* device, mortise_stream* stream, const mortise_tensor* x,
                            const int32_t* rows, const mortise_tensor* out, mortise_error* error);

// head.cpp
mortise_status head_reduce(mortise_device* device, mortise_stream* stream, const mortise_head_reduce_args* args,
                           mortise_error* error);
mortise_status sample(mortise_device* device, mortise_stream* stream, const mortise_sample_args* args,
                      mortise_error* error);

}  // namespace mortise::cuda
