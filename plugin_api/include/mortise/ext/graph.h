/* mortise/ext/graph.h: captures the operations of a step as a graph and replays them, on devices that can (CUDA
 * graphs). From the device's get_ext(MORTISE_EXT_GRAPH). Between begin and end, only functions of components with
 * MORTISE_CAP_CAPTURE may be called on the stream. They must have run before with the same shapes, because allocation
 * and tuning cannot be captured. Captured operations do not run. The memory that they use (tensors, workspaces, the
 * arrays of the batch) must keep its address until destroy. If begin or end fails, the host logs it once and runs all
 * steps of the pipeline without graphs. */
#ifndef MORTISE_EXT_GRAPH_H
#define MORTISE_EXT_GRAPH_H

#include "mortise/device.h"

#define MORTISE_EXT_GRAPH "mortise.device.graph/1"

typedef struct mortise_graph mortise_graph;

typedef struct mortise_graph_table {
  uint32_t struct_size;
  uint32_t flags;
  /* Starts to capture the work that is queued on `stream`. [step] since 0.1 */
  mortise_status (*begin)(mortise_device* device, mortise_stream* stream, mortise_error* error);

  /* Ends the capture and writes the graph, which the caller destroys. On a failure *graph is NULL, and the stream can
   * be used again. [step] since 0.1 */
  mortise_status (*end)(mortise_device* device, mortise_stream* stream, mortise_graph** graph, mortise_error* error);

  /* Queues the captured operations on `stream`. A failure ends the requests of the step. [step] since 0.1 */
  mortise_status (*replay)(mortise_device* device, mortise_stream* stream, mortise_graph* graph, mortise_error* error);

  /* Destroys a graph that is not running; ignores NULL. [control] since 0.1 */
  void (*destroy)(mortise_device* device, mortise_graph* graph);
} mortise_graph_table;

#endif
