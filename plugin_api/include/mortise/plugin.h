/* mortise/plugin.h: what a plugin file exports, and the life of an instance.
 *
 * A plugin is a shared object with ONE exported function, mortise_plugin_entry_v0. It returns a static description: a
 * module with any number of components. Several components, in one file or in many, may register the same name, such as
 * "paged" for the CPU and for CUDA. The host takes the first one whose `supports` returns OK. If none does, it shows
 * the user every reason.
 *
 * Life of an instance: supports -> the host validates the options against the schema -> create (cheap, no device work)
 * -> the bind or load calls of its kind -> activate (all allocation and tuning) -> steps -> deactivate -> destroy. If a
 * call fails, the host undoes the earlier ones in reverse and calls nothing else. After INTERNAL (abi.h) it skips that
 * too, also for parts that were created on a device that failed with INTERNAL. The host may replace a part between any
 * two steps. So a part must be able to rebuild its state from what the host owns: token histories and block tables.
 *
 * Build with mortise_add_plugin (CMake). It sets hidden visibility, a version script that exports the one symbol,
 * -fno-gnu-unique and -Wl,-z,defs. The host loads a private copy of the file with RTLD_NOW | RTLD_LOCAL and never
 * unloads it. */
#ifndef MORTISE_PLUGIN_H
#define MORTISE_PLUGIN_H

#include "mortise/batch.h"
#include "mortise/host.h"

typedef struct mortise_device mortise_device; /* an instance; see device.h */
struct mortise_device_table;

/* The pipeline that a part is asked to serve. A field that is not known yet is NULL, empty or 0; do not refuse the
 * pipeline because of such a field. */
typedef struct mortise_query {
  uint32_t struct_size;
  uint32_t flags;
  const char* device;               /* name of the pipeline's device, e.g. "cpu" */
  const mortise_model_dims* dims;   /* of the model that the part would serve */
  mortise_string_view model_config; /* models: the checkpoint's config.json, normalised */
  int32_t kv_dtype;                 /* MORTISE_BF16, _F32, _I8, _F8_E4M3 */
  int32_t block_size;               /* tokens per KV block */
} mortise_query;

/* Gets the options one by one, so that a plugin needs no JSON parser. The host provides it. `name` is the name of a
 * property in the options schema. Each function sets *value and returns OK. If the option is absent or null it returns
 * NOT_FOUND, and if the value has another type INVALID_ARGUMENT; *value is then unchanged. Texts live as long as the
 * reader. Since 0.6 */
typedef struct mortise_option_reader {
  uint32_t struct_size;
  uint32_t flags;
  void* context; /* pass it to the functions */
  /* Gets an integer; 4.0 counts as one. [any] since 0.6 */
  mortise_status (*get_int)(void* context, const char* name, int64_t* value);

  /* Gets any number. [any] since 0.6 */
  mortise_status (*get_float)(void* context, const char* name, double* value);

  /* Gets a boolean: 1 for true, 0 for false. [any] since 0.6 */
  mortise_status (*get_bool)(void* context, const char* name, int32_t* value);

  /* Gets a text, without quotes and NUL-terminated. [any] since 0.6 */
  mortise_status (*get_text)(void* context, const char* name, mortise_string_view* value);

  /* Gets a value of any type as JSON, NUL-terminated; for options that are arrays or objects. [any] since 0.6 */
  mortise_status (*get_json)(void* context, const char* name, mortise_string_view* value);
} mortise_option_reader;

typedef struct mortise_create_args {
  uint32_t struct_size;
  uint32_t flags;
  mortise_string_view options; /* a JSON object, validated against options_schema, with defaults filled in */
  /* The pipeline's device and its table; live until destroy. NULL for devices and for parts that run on the host. */
  mortise_device* device;
  const struct mortise_device_table* device_table;
  mortise_string_view model_config; /* models: the checkpoint's config.json, normalised (see runtime/checkpoint) */
  /* Devices and models: tensor parallel (ext/collective.h), this instance is rank `rank` of `world`. Else 0 of 1. */
  int32_t rank, world;
  const mortise_option_reader* option_reader; /* reads `options`; valid during create. Since 0.6 */
} mortise_create_args;

typedef struct mortise_activate_args {
  uint32_t struct_size;
  uint32_t flags;
  int32_t max_num_seqs;       /* the most runs of rows in one batch (batch.h) */
  int32_t max_batched_tokens; /* the most rows in one batch */
  int32_t max_logit_rows;     /* the most rows in one call of the model's head */
  int32_t max_model_len;      /* in tokens; positions are below it */
  int32_t block_size;         /* tokens per KV block */
  int32_t num_blocks;         /* in the KV pool */
} mortise_activate_args;

/* Capability bits of mortise_component.capabilities. */
/* A row's bits do not depend on the rest of the batch (docs/numerics.md). An attention must have it. */
#define MORTISE_CAP_EXACT (UINT64_C(1) << 0)
/* Step calls may be captured (ext/graph.h). */
#define MORTISE_CAP_CAPTURE (UINT64_C(1) << 1)
/* Attention: takes several rows per sequence outside of prefill, as verifying drafts needs. */
#define MORTISE_CAP_MULTI_QUERY (UINT64_C(1) << 2)
/* Attention: reads the shared blocks of a prefix group once. */
#define MORTISE_CAP_CASCADE (UINT64_C(1) << 3)
/* Attention: honours mortise_model_dims.sliding_windows; required for models that have any. */
#define MORTISE_CAP_SLIDING_WINDOW (UINT64_C(1) << 4)
/* Proposer: reads the target's hidden rows. */
#define MORTISE_CAP_NEEDS_HIDDEN (UINT64_C(1) << 5)
/* Proposer: drafts trees, see mortise_proposal_args.parents. */
#define MORTISE_CAP_TREE (UINT64_C(1) << 6)
/* Proposer: returns its draft distributions. */
#define MORTISE_CAP_DISTRIBUTION (UINT64_C(1) << 7)
/* Scheduler: orders by prefix group. */
#define MORTISE_CAP_PREFIX_GROUPS (UINT64_C(1) << 8)
/* Attention: adds the sums of a bf16 model in pairs if the device's numerics_id for MORTISE_BF16 contains "-pairs/"
 * (docs/numerics.md, "Attention"). The numerics id of the pipeline then has "-pairs" before the version of the
 * component's numerics_id: "attention-span256/1" becomes "attention-span256-pairs/1". Since 0.6 */
#define MORTISE_CAP_PAIRS (UINT64_C(1) << 9)

typedef struct mortise_component {
  uint32_t struct_size;
  uint32_t flags;
  int32_t kind; /* MORTISE_KIND_* */
  uint32_t reserved;
  uint64_t capabilities;      /* MORTISE_CAP_* */
  const char* name;           /* [a-z][a-z0-9_]*: the constructor in a pipeline script */
  const char* summary;        /* one line */
  const char* options_schema; /* JSON Schema (draft 7) of an object, at most 1 MiB; each property has a title and,
                                 unless required, a default */
  const char* numerics_id;    /* attention: components with equal ids and KV layouts produce the same bits. Other kinds:
                                 NULL; a device has a function for it */
  const void* table;          /* the table of this kind, such as mortise_model_table; static */

  /* Tells whether the component can serve `query`. On any status but OK, `reason->message` says why not; the host tries
   * the next component of that name. Cheap, without side effects. [any] since 0.1 */
  mortise_status (*supports)(const mortise_query* query, mortise_error* reason);

  /* Makes an instance, without device work. `host`, args->device and args->device_table live until destroy. On OK
   * *instance is not NULL. [control] since 0.1 */
  mortise_status (*create)(const mortise_host* host, const mortise_create_args* args, void** instance,
                           mortise_error* error);

  /* Frees the instance and everything that it owns. [control & created] since 0.1 */
  void (*destroy)(void* instance);

  /* Allocates and tunes for steps up to the given sizes; on failure it frees what it allocated. NULL: nothing to do.
   * [control & created] since 0.1 */
  mortise_status (*activate)(void* instance, const mortise_activate_args* args, mortise_error* error);

  /* Frees what activate allocated; no step is running, and activate may follow with other sizes. NULL exactly when
   * activate is NULL. [control & active] since 0.1 */
  void (*deactivate)(void* instance);

  /* Returns the table of an extension of this instance, which lives until destroy, or NULL if it has none. The slot may
   * be NULL. [any] since 0.1 */
  const void* (*get_ext)(void* instance, const char* id);
} mortise_component;

typedef struct mortise_module {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t abi_minor; /* MORTISE_ABI_MINOR of the headers that the plugin was built with */
  int32_t num_components;
  const char* id; /* such as "mortise.paged-cpu", or reverse DNS */
  const char* vendor;
  const char* version;                        /* of the plugin */
  const char* license;                        /* SPDX identifier */
  const mortise_component* const* components; /* [num_components] */
} mortise_module;

#if defined(__GNUC__)
#define MORTISE_EXPORT __attribute__((visibility("default")))
#else
#define MORTISE_EXPORT
#endif

#define MORTISE_PLUGIN_ENTRY_NAME "mortise_plugin_entry_v0"

/* The host that loads the plugin. Since 0.6 */
typedef struct mortise_entry_args {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t abi_minor;        /* of the host: it knows the fields and functions of this minor */
  uint32_t oldest_abi_minor; /* the host accepts plugins of this minor up to abi_minor */
  const char* host_name;     /* "mortise"; static */
  const char* host_version;  /* static */
} mortise_entry_args;

/* The one exported symbol. Returns a static description, the same at every call: it may describe fewer components to a
 * host that lacks what they need. NULL refuses the host. Does no work and starts no threads. Hosts before 0.6 pass no
 * argument, so `args` is then garbage: read it only if you need it, and in a way that cannot crash. (Such hosts call
 * the function, and then refuse a plugin of 0.6 for its version.) [any] since 0.1 */
MORTISE_EXTERN_C MORTISE_EXPORT const mortise_module* mortise_plugin_entry_v0(const mortise_entry_args* args);

#endif
