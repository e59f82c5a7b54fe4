/* mortise/ext/tuning.h: tells a device where to keep its measurements. A device that offers this measures which of its
 * kernels is fastest; its choice changes no bit. It keeps the choices in a file for later starts. In a container, the
 * checkpoint's folder may be the only place that survives, so the host names that folder. From the device's
 * get_ext(MORTISE_EXT_TUNING). */
#ifndef MORTISE_EXT_TUNING_H
#define MORTISE_EXT_TUNING_H

#include "mortise/device.h"

#define MORTISE_EXT_TUNING "mortise.device.tuning/1"

typedef struct mortise_tuning_table {
  uint32_t struct_size;
  uint32_t flags;
  /* Names the folder of a checkpoint whose weights are prepared next. The device may read and write a file there.
   * It does not trust the file of an earlier start. A folder that cannot be read or written is not a failure.
   * [control] since 0.5 */
  mortise_status (*keep_beside)(mortise_device* device, mortise_string_view folder, mortise_error* error);
} mortise_tuning_table;

#endif
