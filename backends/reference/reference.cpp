// Runs a training step on as many ranks as the mesh has, as threads of this process, each with its own buffers.
#include "meshwright/backend.h"
#include "meshwright/plugin.h"
#include "run_ranks.h"

namespace meshwright {
namespace {

constexpr meshwright_config_key_v1 kSchema[] = {
    {"scatter_partials", "integer", "", "0",
     "seed of the random shares into which a whole value is scattered where it becomes partial; 0: one rank keeps it"},
    {"communicates_late", "boolean", "", "false",
     "whether what runs beside the computing runs as late as the program allows, to find out whether something does not wait for it; else in the order of the program"},
};

class Reference final : public Backend {
 public:
  Reference(std::int64_t seed, bool communicates_late) {
    if (seed != 0) options_.scatter_partials = static_cast<std::uint64_t>(seed);
    options_.communicates_late = communicates_late;
  }

 private:
  Result<std::unique_ptr<Executable>> do_compile(const BackendInput& input) const override { return compile_ranks(input, options_); }
  Result<std::unique_ptr<StagesExecutable>> do_compile_stages(const std::vector<BackendInput>& stages, const GroupOrders& orders) const override { return compile_stage_ranks(stages, orders, options_); }

  RunOptions options_;
};

void* create(const Config& config, Error&) {
  return static_cast<Backend*>(new Reference(config.integer("scatter_partials"), config.boolean("communicates_late")));
}

}  // namespace

MESHWRIGHT_PLUGIN("backend", "reference", "0.1.0", "Apache-2.0", "Runs the ranks as threads of this process", nullptr,
                  kSchema, std::size(kSchema), create, destroy_plugin<Backend>)

}  // namespace meshwright
