/* mortise/ext/tuning.h: what a device measures to choose between its kernels, kept beside the model. A device that
 * offers this has choices that change speed and no bit. It keeps them between starts, also where nothing but the
 * checkpoint's folder outlives the process. From the device's get_ext(MORTISE_EXT_TUNING). */
#ifndef MORTISE_EXT_TUNING_H
#define MORTISE_EXT_TUNING_H

#include "mortise/device.h"

#define MORTISE_EXT_TUNING "mortise.device.tuning/1"

typedef struct mortise_tuning_table {
  uint32_t struct_size;
  uint32_t flags;
  /* Names the folder of a checkpoint whose weights are prepared next. The device may read what an earlier start left
   * there, which it does not trust, and write there; a folder that cannot be read or written is not a failure.
   * [control] since 0.5 */
  mortise_status (*keep_beside)(mortise_device* device, mortise_string_view folder, mortise_error* error);
} mortise_tuning_table;

#endif
