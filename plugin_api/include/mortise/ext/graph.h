/* mortise/ext/graph.h: capture of a step's operations and their replay, on devices that can (CUDA graphs). Between
 * begin and end only functions of components with MORTISE_CAP_CAPTURE may be called on the stream, and they must have
 * run before with the same shapes: what they allocate or tune at their first call cannot be captured. What is captured
 * does not run; memory that it uses (tensors, workspaces, a batch's arrays) must stay where it is until destroy. */
#ifndef MORTISE_EXT_GRAPH_H
#define MORTISE_EXT_GRAPH_H

#include "mortise/device.h"

#define MORTISE_EXT_GRAPH "mortise.device.graph/1"

typedef struct mortise_graph mortise_graph;

typedef struct mortise_graph_table {
  uint32_t struct_size;
  uint32_t flags;
  /* [step] since 0.1 */
  mortise_status (*begin)(mortise_device* device, mortise_stream* stream, mortise_error* error);
  /* Ends the capture; on failure *graph is NULL and the stream is usable again. [step] since 0.1 */
  mortise_status (*end)(mortise_device* device, mortise_stream* stream, mortise_graph** graph, mortise_error* error);
  mortise_status (*replay)(mortise_device* device, mortise_stream* stream, mortise_graph* graph, mortise_error* error);
  void (*destroy)(mortise_device* device, mortise_graph* graph); /* [control] since 0.1 */
} mortise_graph_table;

#endif
