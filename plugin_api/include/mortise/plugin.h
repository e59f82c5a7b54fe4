/* mortise/plugin.h: what a plugin file exports, and the life of an instance.
 *
 * A plugin is a shared object with ONE exported function, mortise_plugin_entry_v0, which returns a static description:
 * a module with any number of components. Several components, in one file or in many, may register one name ("paged"
 * for the CPU and for CUDA): the host takes the first whose `supports` agrees, and shows every reason when none does.
 *
 * Life of an instance: entry -> supports -> (host validates the options by the schema) -> create (cheap: no device
 * work)
 * -> the kind's binding calls -> activate (all allocation and tuning) -> steps -> deactivate -> destroy. When a call
 * fails the host undoes the earlier ones in reverse and calls nothing else; after INTERNAL (abi.h) it does not call the
 * instance even for that, nor parts that were created on a device which failed so. State must be rebuildable from what
 * the host owns (token histories, block tables), because a part may be replaced between any two steps.
 *
 * Build with hidden visibility, a version script that exports the one symbol, -fno-gnu-unique and -Wl,-z,defs (CMake:
 * mortise_add_plugin does it). The host loads a private copy, RTLD_NOW | RTLD_LOCAL, and keeps the image for ever. */
#ifndef MORTISE_PLUGIN_H
#define MORTISE_PLUGIN_H

#include "mortise/batch.h"
#include "mortise/host.h"

typedef struct mortise_device mortise_device; /* an instance; see device.h */
struct mortise_device_table;

/* What a part is asked to serve. Fields that are not known yet are NULL or 0, and then no reason to refuse. */
typedef struct mortise_query {
  uint32_t struct_size;
  uint32_t flags;
  const char* device;               /* name of the pipeline's device, e.g. "cpu" */
  const mortise_model_dims* dims;   /* of the model the part would work with */
  mortise_string_view model_config; /* the checkpoint's config.json, normalised (asked of models) */
  int32_t kv_dtype;                 /* MORTISE_BF16, MORTISE_F32, MORTISE_I8 */
  int32_t block_size;
} mortise_query;

typedef struct mortise_create_args {
  uint32_t struct_size;
  uint32_t flags;
  mortise_string_view
      options;            /* a JSON object that the host has validated against options_schema, defaults filled in */
  mortise_device* device; /* the pipeline's device, open; NULL for devices and for parts that run on the host */
  const struct mortise_device_table* device_table;
  mortise_string_view model_config; /* models: config.json, normalised (runtime/checkpoint documents the spelling) */
  int32_t rank, world;              /* tensor parallel: this instance is shard `rank` of `world` */
} mortise_create_args;

typedef struct mortise_activate_args {
  uint32_t struct_size;
  uint32_t flags;
  int32_t max_num_seqs;       /* sequences in one batch, at most */
  int32_t max_batched_tokens; /* rows of one batch, at most */
  int32_t max_logit_rows;     /* rows of one call of the model's head, at most */
  int32_t max_model_len;      /* positions */
  int32_t block_size;
  int32_t num_blocks; /* of the KV pool */
} mortise_activate_args;

/* Capability bits of mortise_component.capabilities. */
#define MORTISE_CAP_EXACT \
  (UINT64_C(1) << 0) /* rows are invariant (docs/numerics.md); attention without it is refused */
#define MORTISE_CAP_CAPTURE (UINT64_C(1) << 1) /* step calls may be captured in a device graph */
#define MORTISE_CAP_MULTI_QUERY \
  (UINT64_C(1) << 2) /* attention: more than one row of a sequence in a batch besides prefill */
#define MORTISE_CAP_CASCADE (UINT64_C(1) << 3) /* attention: reads a prefix group's shared blocks once */
#define MORTISE_CAP_SLIDING_WINDOW \
  (UINT64_C(1) << 4) /* attention: honours mortise_model_dims.sliding_windows; one without it is refused there */
#define MORTISE_CAP_NEEDS_HIDDEN (UINT64_C(1) << 5)  /* proposer: wants the target's hidden rows */
#define MORTISE_CAP_TREE (UINT64_C(1) << 6)          /* proposer: returns parents */
#define MORTISE_CAP_DISTRIBUTION (UINT64_C(1) << 7)  /* proposer: returns the distributions of its drafts */
#define MORTISE_CAP_PREFIX_GROUPS (UINT64_C(1) << 8) /* scheduler: orders by prefix group */

typedef struct mortise_component {
  uint32_t struct_size;
  uint32_t flags;
  int32_t kind; /* MORTISE_KIND_* */
  uint32_t reserved;
  uint64_t capabilities;      /* MORTISE_CAP_* */
  const char* name;           /* "[a-z][a-z0-9_]*": the constructor's name in a pipeline script */
  const char* summary;        /* one line */
  const char* options_schema; /* JSON Schema (draft 7) of an object; each property has a title and, unless required, a
                                 default */
  const char* numerics_id;    /* attention: instances of equal id and KV layout give equal bits; else NULL. Devices: see
                                 device.h */
  const void* table;          /* mortise_device_table, mortise_model_table, ... of this kind; static */

  /* OK, or a code with the reason in `reason->message`, shown to the user. Cheap, pure. [any] since 0.1 */
  mortise_status (*supports)(const mortise_query* query, mortise_error* reason);
  /* Makes an instance. `host` and args->device live until destroy; args itself for the call. [control] since 0.1 */
  mortise_status (*create)(const mortise_host* host, const mortise_create_args* args, void** instance,
                           mortise_error* error);
  /* Frees everything; the instance is created, not active. [control & created] since 0.1 */
  void (*destroy)(void* instance);
  /* Allocates for steps up to the given sizes. May be NULL: nothing to do. [control & created] since 0.1 */
  mortise_status (*activate)(void* instance, const mortise_activate_args* args, mortise_error* error);
  /* Back to created; no step is running. NULL exactly when activate is. [control & active] since 0.1 */
  void (*deactivate)(void* instance);
  /* The table of an extension of this instance or NULL; lives until destroy. May be NULL. [any] since 0.1 */
  const void* (*get_ext)(void* instance, const char* id);
} mortise_component;

typedef struct mortise_module {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t abi_minor; /* MORTISE_ABI_MINOR of the headers it was built with */
  int32_t num_components;
  const char* id; /* reverse DNS or a short word, e.g. "mortise.paged-cpu" */
  const char* vendor;
  const char* version;                        /* of the plugin */
  const char* license;                        /* SPDX */
  const mortise_component* const* components; /* [num_components] */
} mortise_module;

#if defined(__GNUC__)
#define MORTISE_EXPORT __attribute__((visibility("default")))
#else
#define MORTISE_EXPORT
#endif

#define MORTISE_PLUGIN_ENTRY_NAME "mortise_plugin_entry_v0"

/* The one exported symbol. Returns a static description, the same at every call. No work, no threads. [any] since 0.1
 */
MORTISE_EXTERN_C MORTISE_EXPORT const mortise_module* mortise_plugin_entry_v0(void);

#endif
