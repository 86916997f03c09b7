// The boundary between the host and a plugin: one exported C function that returns constant-initialised data.
//
//   extern "C" const meshwright_plugin_v1* meshwright_plugin() noexcept;
//
// A plugin writes it with the macro at the end:
//
//   MESHWRIGHT_PLUGIN("intra", "my_solver", "0.1.0", "Apache-2.0", "Solves by guessing", nullptr, kSchema,
//                     std::size(kSchema), create, destroy_plugin<IntraSolver>)
//
// The interface behind `create` is a C++ class of libmeshwright_kernel, so a plugin must be built with the same
// compiler and standard library, and with the same public headers as far as its kind sees them: `abi_tag` says which. The same tag stands as text in the ELF section
// `.meshwright.plugin`, where the loader reads it without loading the file (docs/plugin-abi.md). Plugins are rebuilt
// for each release. Libraries are never unloaded; strings live as long as the process.
//
// kind        create returns a pointer to
// frontend    meshwright::Frontend          clusters     meshwright::ClusterSource
// profilers   meshwright::Profiler          ops          meshwright::OpFamily
// conversions meshwright::ConversionSearch  intra        meshwright::IntraSolver
// backend     meshwright::Backend           kernels      meshwright::OpKernels
// passes      meshwright::ProgramPass       transports   meshwright::Transport
// emitters    meshwright::OpEmitter         checkpoint   meshwright::CheckpointSolver
// schedules   meshwright::ScheduleMaker    inter        meshwright::InterSolver
#pragma once

#include <cstddef>
#include <cstdint>

#include "meshwright/abi_tag.h"
#include "meshwright/config.h"
#include "meshwright/result.h"

#define MESHWRIGHT_PLUGIN_MAGIC 0x746867697277686dULL  // "mhwright", little endian
#define MESHWRIGHT_PLUGIN_ABI_VERSION 1U

extern "C" {

// One key of a plugin's configuration. `type` is one of "boolean", "integer", "number", "text", "texts", "bytes"
// (an integer, also written "75GiB"). `unit` is "" where there is none; `default_text` is TOML's way to write the
// default value, or null if the key must be given.
struct meshwright_config_key_v1 {
  const char* key;
  const char* type;
  const char* unit;
  const char* default_text;
  const char* doc;
};

struct meshwright_plugin_v1 {
  std::uint64_t magic;
  std::uint32_t abi_version;
  std::uint32_t struct_size;
  const char* abi_tag;
  const char* kind;
  const char* id;
  const char* version;
  const char* licence;
  const char* description;           // one line
  const char* const* serves;         // names of ops or file suffixes (docs/plugin-abi.md), null-terminated
  const meshwright_config_key_v1* config_schema;
  std::size_t config_schema_size;
  // Makes the object, or returns null and fills `error`. `config` holds every key of the schema. Owned by the caller,
  // who gives it back to `destroy`. May throw: the host catches.
  void* (*create)(const meshwright::Config& config, meshwright::Error& error);
  void (*destroy)(void* object);
};
}

static_assert(sizeof(meshwright_plugin_v1) == 8 + 4 + 4 + 6 * 8 + 8 + 8 + 8 + 8 + 8, "the layout of version 1 is frozen");

namespace meshwright {

// `create` and `destroy` of a plugin without configuration: the class Implementation behind the Interface of its kind.
template <class Interface, class Implementation>
void* create_plugin(const Config&, Error&) {
  return static_cast<Interface*>(new Implementation);
}

template <class Interface>
void destroy_plugin(void* object) {
  delete static_cast<Interface*>(object);
}

}  // namespace meshwright

// Writes the plugin's descriptor, its text section and its one exported function. `serves` is a null-terminated
// array of names or nullptr, `schema` an array of meshwright_config_key_v1 or nullptr. The string arguments must be
// literals. Not in an anonymous namespace, which would hide the function.
#define MESHWRIGHT_PLUGIN(kind, id, version, licence, description, serves, schema, schema_size, create, destroy)      \
  __attribute__((section(".meshwright.plugin"), used)) static constexpr auto meshwright_plugin_text =                \
      ::meshwright::abi::for_kind("meshwright-plugin\nkind=" kind "\nid=" id "\nversion=" version                     \
                                  "\ndescription=" description "\ntag=" MESHWRIGHT_ABI_TAG "\n", kind);               \
  static constexpr auto meshwright_plugin_tag = ::meshwright::abi::for_kind(MESHWRIGHT_ABI_TAG, kind);                \
  static constexpr meshwright_plugin_v1 meshwright_plugin_data = {MESHWRIGHT_PLUGIN_MAGIC,                            \
                                                                  MESHWRIGHT_PLUGIN_ABI_VERSION,                     \
                                                                  sizeof(meshwright_plugin_v1),                      \
                                                                  meshwright_plugin_tag.data,                        \
                                                                  kind,                                              \
                                                                  id,                                                \
                                                                  version,                                           \
                                                                  licence,                                           \
                                                                  description,                                       \
                                                                  serves,                                            \
                                                                  schema,                                            \
                                                                  schema_size,                                       \
                                                                  create,                                            \
                                                                  destroy};                                          \
  extern "C" __attribute__((visibility("default"))) const meshwright_plugin_v1* meshwright_plugin() noexcept;        \
  extern "C" const meshwright_plugin_v1* meshwright_plugin() noexcept { return &meshwright_plugin_data; }
