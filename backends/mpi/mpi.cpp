// Runs a training step with a process for each rank, as mpirun starts them. Several machines without GPUs do.
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "meshwright/backend.h"
#include "meshwright/plugin.h"
#include "message_runtime.h"
#include "world.h"

namespace meshwright {
namespace {

class Mpi final : public Backend {
 private:
  Result<std::unique_ptr<Executable>> do_compile(const BackendInput& input) const override {
    if (Status status = check_processes(input.program.mesh.devices()); !status) return status.error();
    return compile_on(make_message_runtime(world_), input);
  }

  Result<std::unique_ptr<StagesExecutable>> do_compile_stages(const std::vector<BackendInput>& stages, const GroupOrders& orders) const override {
    const Result<std::vector<std::uint32_t>> groups = groups_of_stages(orders, stages.size());
    if (!groups) return groups.error();
    std::map<std::uint32_t, std::int64_t> devices;  // by group
    for (std::size_t s = 0; s < stages.size(); ++s) devices[(*groups)[s]] = stages[s].program.mesh.devices();
    std::int64_t all = 0;
    for (const auto& [group, count] : devices) all += count;
    if (Status status = check_processes(all); !status) return status.error();
    return compile_on(make_message_runtime(world_), stages, orders);
  }

  Status check_processes(std::int64_t ranks) const {
    if (ranks == world_.size()) return Done{};
    const std::string started = world_.size() == 1 ? "this process was started alone" : std::to_string(world_.size()) + " processes were started";
    return bad_input("the plan has " + std::to_string(ranks) + " ranks, a process each, and " + started + "; start as many: mpirun -n " + std::to_string(ranks) + " meshwright run PLAN --backend mpi");
  }

  [[nodiscard]] Processes do_processes() const override { return {world_.rank(), world_.size()}; }
  Status do_agree(const Status& mine) const override { return world_.agree(mine); }

  mutable World world_;
};

// MPI is started once in a process, and can't be started again after its end.
void* create(const Config& /*config*/, Error& error) {
  static bool is_made = false;
  if (!is_made) {
    is_made = true;
    return static_cast<Backend*>(new Mpi);
  }
  error = internal_error("MPI can be started once in a process");
  return nullptr;
}

}  // namespace

MESHWRIGHT_PLUGIN("backend", "mpi", "0.1.0", "Apache-2.0", "Runs the ranks as processes that mpirun started, over MPI", nullptr, nullptr, 0, create, destroy_plugin<Backend>)

}  // namespace meshwright
